"""Reads what failed and was not done since: each command line and each file by itself."""

from __future__ import annotations

from typing import NamedTuple

from mcp_compaction.core.digest.reading import Reading, short
from mcp_compaction.core.log.commands import command_line_of, is_search
from mcp_compaction.core.log.endings import causes_of, has_not_begun
from mcp_compaction.core.log.ledger import CHANGED, CallEntry
from mcp_compaction.core.text.words import first_line, one_line
from mcp_compaction.model import AccountValue, Item

_MOST = 8
_FAILED = ("failed", "timed out")
_CHANGES = ("write", "edit")


class _Failure(NamedTuple):
    """The last call of a form that failed, and how often in a row it did."""

    entry: CallEntry
    times: int


def learned_items(reading: Reading) -> list[Item]:
    """What failed in the span and was not done again since, the newest first."""
    found = [one for one in _failures(reading) if reading.is_in_span(one.entry.ref)]
    return [_item_of(one, reading) for one in found[:_MOST]]


def still_failing(reading: Reading) -> list[Item]:
    """What failed, in the span or after it, and was not done again since."""
    return [_item_of(one, reading) for one in _failures(reading)]


def _failures(reading: Reading) -> list[_Failure]:
    """The failures that stand, the newest first; a file that could not be changed and was changed
    since by whatever call has nothing to tell, nor has a search that found nothing."""
    standing: dict[str, _Failure] = {}
    for entry in reading.ledger.entries:
        form = form_of(entry)
        if entry.ending in _FAILED and not _has_searched(entry):
            before = standing.pop(form, None)
            standing[form] = _Failure(entry, before.times + 1 if before else 1)
        elif entry.ending == "done":
            standing.pop(form, None)
    left = (one for one in standing.values() if not _is_changed_since(one.entry, reading))
    return [*left][::-1]


def form_of(entry: CallEntry) -> str:
    """What makes two calls the same: the command line and its folder, or the file to change."""
    if entry.action.kind == "run":
        return f"run {one_line(entry.action.target)}"
    does = "change" if entry.action.kind in _CHANGES else f"{entry.call.name} {entry.action.kind}"
    return f"{does} {entry.action.target.removeprefix('./')}"


def _is_changed_since(entry: CallEntry, reading: Reading) -> bool:
    state = reading.ledger.files.get(entry.action.target.removeprefix("./"))
    if state is None or entry.action.kind not in _CHANGES:
        return False
    return state.word in CHANGED and int(state.ref[1:]) > int(entry.ref[1:])


def _has_searched(entry: CallEntry) -> bool:
    """Whether a search did run: that it found nothing, or not all was there, is no failure."""
    is_one = entry.action.kind == "run" and is_search(entry.action.target)
    return is_one and not (entry.result is not None and has_not_begun(entry.result))


def _item_of(one: _Failure, reading: Reading) -> Item:
    entry = one.entry
    if entry.action.kind == "run":
        what = f"{command_line_of(entry.action.target, 80)}{reading.where(entry)}"
    else:
        what = f"{entry.call.name} {first_line(entry.action.target, 80)}".strip()
    found = causes_of(entry.result) if entry.result is not None and entry.ending == "failed" else ()
    value = AccountValue(
        kind="failure",
        status=entry.ending,
        more=short("; ".join(dict.fromkeys(found)), 160),
        times=one.times,
        key=form_of(entry),
    )
    return Item(text=what, refs=tuple(dict.fromkeys((entry.ref, entry.result_ref))), value=value)

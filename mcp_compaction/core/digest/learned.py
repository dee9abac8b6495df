"""Tells what failed and was not done since: each command line and each file by itself."""

from __future__ import annotations

from mcp_compaction.core.digest.reading import Reading, short
from mcp_compaction.core.log.commands import command_line_of
from mcp_compaction.core.log.endings import causes_of
from mcp_compaction.core.log.ledger import Failure
from mcp_compaction.core.text.words import first_line
from mcp_compaction.model import AccountValue, Item

_MOST = 8


def learned_items(reading: Reading) -> list[Item]:
    """What failed in the span and was not done again since, the newest first."""
    found = [one for one in reading.ledger.failures if reading.is_in_span(one.entry.ref)]
    return [failure_item(one, reading) for one in found[:_MOST]]


def failure_item(one: Failure, reading: Reading) -> Item:
    """A failure as a line tells it, with its cause."""
    entry = one.entry
    if entry.action.kind == "run":
        what = f"{command_line_of(entry.action.target, 50)}{reading.where(entry)}"
    else:
        what = f"{entry.call.name} {first_line(entry.action.target, 80)}".strip()
    found = causes_of(entry.result) if entry.result is not None and entry.ending == "failed" else ()
    value = AccountValue(
        kind="failure",
        status=entry.ending,
        more=short("; ".join(dict.fromkeys(found)), 160),
        times=one.times,
        key=entry.form,
    )
    return Item(text=what, refs=tuple(dict.fromkeys((entry.ref, entry.result_ref))), value=value)

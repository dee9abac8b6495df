"""The notes on a receipt: what became of drafts, and why a view is not as one might expect."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mcp_compaction.core.digest.check.draft import Fault, Refused, RefusedFor, Stripped, TooLong
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.wording import kilo, plural
from mcp_compaction.model import Item

NO_ROOM_FOR_PROSE = "the model's prose said nothing new or had no room, and was left out"

_REFUSED_FOR = {
    "empty": "it is empty",
    "nothing_believed": "nothing in it could be believed",
}
_FAULTS: dict[Fault, str] = {  # in the order of their weight
    "invented": "named numbers or names that stand nowhere in the window: left out",
    "unshown": "claimed what no call in the window shows: marked as unshown",
    "undecided": "named a decision that no message states: marked as unshown",
    "order": "gave an order no user gave: left out",
    "forged": "posed as another part of the window: left out",
    "unsaid": "quoted what nobody said: left out",
    "touching": "spoke of what a rule is about: marked with it",
    "unquoted": "named a rule or task that no message states: put under UNCERTAIN",
    "unreadable": "held signs that cannot be shown: taken out",
}
_BARE_NAME = pattern_of(r"(?!\w*://)[\w.#%/+-]{1,32}(?:[= ]\d[\d.]{0,15}[%a-zA-Z]{0,3})?", re.ASCII)


def notes_of_check(checked: Stripped | Refused) -> tuple[str, ...]:
    """The notes on a draft that was refused, or that had lines at fault."""
    if isinstance(checked, Stripped):
        return _notes_of_faults(checked)
    if checked.author == "extractive":  # a short span is its own best digest: no fault of anyone's
        return ()
    reason = _describe_refusal(checked.reason)
    refused = f"the draft of {checked.author} was refused: {reason}; extracted instead"
    return (refused, *(_notes_of_faults(checked.stripped) if checked.stripped else ()))


def _describe_refusal(reason: RefusedFor) -> str:
    if isinstance(reason, TooLong):
        return f"at {reason.tokens} tokens it is too long for a span of {reason.span_tokens}"
    return _REFUSED_FOR[reason]


def _notes_of_faults(stripped: Stripped) -> tuple[str, ...]:
    lines = dict(stripped.faults)
    return tuple(
        f"{plural(lines[fault], 'line')} of the draft {what}"
        + (_list_names(stripped.invented) if fault == "invented" else "")
        for fault, what in _FAULTS.items()
        if fault in lines
    )


def _list_names(invented: Iterable[str]) -> str:
    """The invented names; a reader could take more than a bare word for an order."""
    bare = ", ".join(filter(_BARE_NAME.fullmatch, invented))
    return f" ({bare})" if bare else ""


def note_of_additions(rules: int, tasks: int) -> tuple[str, ...]:
    """The note on lines that an agent's own digest left out; none where it left out none."""
    added = [plural(n, noun) for n, noun in ((rules, "rule"), (tasks, "open task")) if n]
    return (f"your digest did not name {' and '.join(added)}: added",) if added else ()


class PartShown(NamedTuple):
    """An unread result of which a part is shown, in characters."""

    ref: str
    tool: str
    shown: int
    whole: int


def note_of_unread(parts: Sequence[PartShown]) -> tuple[str, ...]:
    """The note on unread results that are not shown whole; none where all are."""
    if not parts:
        return ()
    shown = ", ".join(
        f"{part.ref} {part.tool} ({kilo(part.shown)} of {kilo(part.whole)} characters)"
        for part in parts
    )
    refs = ",".join(dict.fromkeys(part.ref for part in parts))
    return (f"unread and shown in part: {shown}; all of it: recall_archived refs {refs}",)


def note_of_rules(left_out: Sequence[Item]) -> tuple[str, ...]:
    """The note on rules of a long first request that a small view does not show; none where it
    shows all."""
    if not left_out:
        return ()
    refs = ",".join(dict.fromkeys(ref for rule in left_out for ref in rule.refs))
    rules = plural(len(left_out), "more rule")
    return (f"{rules} of the first request: recall_archived refs {refs}",)

"""The notes on a receipt: what became of drafts, and why a view is not as one might expect."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mcp_compaction.core.digest.check.draft import Fault, Refused, Stripped
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.wording import plural

NO_ROOM_FOR_PROSE = "the model's prose said nothing new or had no room, and was left out"

_REFUSED_FOR = {
    "empty": "it is empty",
    "too_long": "it is too long for its span",
    "nothing_believed": "nothing in it could be believed",
}
_FAULTS: dict[Fault, str] = {  # in the order of their weight
    "invented": "named numbers or names that stand nowhere in the window: left out",
    "contradicted": "told what calls contradict: marked with what the log shows",
    "unshown": "claimed what nothing in the window shows: marked as unshown",
    "willed": "claimed a wish or consent of the user without words of theirs: left out",
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
    reason = _REFUSED_FOR[checked.reason]
    refused = f"the draft of {checked.author} was refused: {reason}; extracted instead"
    return (refused, *(_notes_of_faults(checked.stripped) if checked.stripped else ()))


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

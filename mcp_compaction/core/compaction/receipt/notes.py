"""The notes on a receipt: what became of drafts, and why a view is not as one might expect."""

from __future__ import annotations

from mcp_compaction.core.wording import plural

NO_ROOM_FOR_PROSE = "the model's prose said nothing new or had no room, and was left out"


def note_of_additions(rules: int, tasks: int) -> tuple[str, ...]:
    """The note on lines that an agent's own digest left out; none where it left out none."""
    added = [plural(n, noun) for n, noun in ((rules, "rule"), (tasks, "open task")) if n]
    return (f"your digest did not name {' and '.join(added)}: added",) if added else ()


def note_of_restore(undone: str) -> str:
    """The note on a step back to an earlier view."""
    return f"undone: {undone}"


def note_of_paging(refs: str) -> str:
    """The note on messages that the window shows again."""
    return f"shown whole again: {refs}"

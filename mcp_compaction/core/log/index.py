"""Lists what was met in a span: files, commands, ids; what was done to each, and where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mcp_compaction.core.log.identifiers import Finding, outcome_of
from mcp_compaction.core.log.ledger import CHANGED, Ledger, ledger_of
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.model import IndexItem, IndexKind, Message

_RANKS: dict[IndexKind, int] = {
    "file": 2,
    "command": 2,
    "error": 3,
    "url": 4,
    "id": 4,
    "number": 5,
}
_FAILED = pattern_of(r"exit|failed|timed out|refused|interrupted")


def index_of(
    messages: Sequence[Message],
    found: dict[int, tuple[Finding, ...]],
    later: Sequence[Message] = (),
) -> tuple[IndexItem, ...]:
    """The mechanical list of a span: each thing once, with what was done to it and where; how
    files stand is told by what came later too."""
    notes = notes_of(ledger_of((*messages, *later)))
    refs: dict[tuple[IndexKind, str], list[str]] = {}
    said: Counter[tuple[IndexKind, str]] = Counter()
    for message in messages:
        ref, of_message = message.ref, found.get(message.seq, ())
        for finding in of_message:
            refs.setdefault(finding, []).append(ref)
        if not message.results:
            said.update(of_message)
    items = (
        IndexItem(kind=kind, text=text, note=notes.get((kind, text), ""), refs=_first_refs(where))
        for (kind, text), where in refs.items()
    )
    # What was named and passed on is wanted again sooner than what a result merely listed.
    return tuple(
        sorted(
            items,
            key=lambda i: (usefulness_of(i), -said[i.kind, i.text], -len(refs[i.kind, i.text])),
        )
    )


def notes_of(ledger: Ledger) -> dict[tuple[IndexKind, str], str]:
    """What was done last to each file, and how each command ended."""
    notes: dict[tuple[IndexKind, str], str] = {
        ("file", path): state.text for path, state in ledger.files.items()
    }
    for entry in ledger.entries:
        if entry.action.kind == "run":
            how = outcome_of(entry.result) if entry.result and entry.ending != "running" else ""
            if entry.ending in ("refused", "interrupted", "timed out"):
                how = entry.ending
            notes["command", entry.action.line] = how
    return notes


def usefulness_of(item: IndexItem) -> int:
    """The rank of an item, most useful first: what was changed, what failed, then by kind."""
    rank = _RANKS[item.kind]
    if not item.note:
        return rank
    if item.kind == "file":
        return 0 if item.note.partition(" ")[0] in CHANGED else rank
    has_failed = "exit 0" not in item.note and bool(_FAILED.search(item.note))
    return 1 if has_failed else rank


def _first_refs(refs: Sequence[str]) -> tuple[str, ...]:
    # The newest says most; the first shows where it began.
    return tuple(dict.fromkeys((refs[0], *refs[-2:])))

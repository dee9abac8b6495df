"""Lists what was met in a span: files, commands, ids; what was done to each, and where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mcp_compaction.core.log.endings import ending_of
from mcp_compaction.core.log.identifiers import Finding, without_rows
from mcp_compaction.core.log.ledger import CHANGED, Ledger, ledger_of
from mcp_compaction.model import IndexItem, IndexKind, Message

_RANKS: dict[IndexKind, int] = {
    "file": 2,
    "command": 2,
    "error": 3,
    "url": 4,
    "id": 4,
    "number": 5,
}


_Thing = tuple[IndexKind, str]


def index_of(
    messages: Sequence[Message],
    found: dict[int, tuple[Finding, ...]],
    later: Sequence[Message] = (),
) -> tuple[IndexItem, ...]:
    """The mechanical list of a span: each thing once, with what was done to it and where; how
    files stand is told by what came later too."""
    notes = _notes_of(ledger_of((*messages, *later)))
    refs: dict[_Thing, list[str]] = {}
    said: Counter[_Thing] = Counter()
    for message in messages:
        ref, of_message = message.ref, _without_rows(found.get(message.seq, ()))
        for finding in of_message:
            refs.setdefault(finding, []).append(ref)
        if not message.results:
            said.update(of_message)
    items = (
        _item_of(thing, where, notes)
        for thing, where in refs.items()
        if said[thing] or not thing[1].isdecimal()  # of bare numbers data are full
    )
    # What was named and passed on is wanted again sooner than what a result merely listed.
    return tuple(
        sorted(
            items,
            key=lambda i: (usefulness_of(i), -said[i.kind, i.text], -len(refs[i.kind, i.text])),
        )
    )


def _without_rows(found: Sequence[Finding]) -> Sequence[Finding]:
    """What was found in a message, without the ids of a listing."""
    ids = [one.text for one in found if one.kind == "id"]
    kept = set(without_rows(ids))
    return (
        found if len(kept) == len(ids) else [f for f in found if f.kind != "id" or f.text in kept]
    )


def _item_of(thing: _Thing, refs: Sequence[str], notes: dict[_Thing, tuple[str, str]]) -> IndexItem:
    """A thing with what became of it, the ref where it was first met, and last the one that its
    note is of, or else the newest."""
    kind, text = thing
    note, noted = notes.get(thing) or notes.get((kind, text.removeprefix("./"))) or ("", "")
    where = tuple(dict.fromkeys((refs[0], noted or refs[-1])))
    return IndexItem(kind=kind, text=text, note=note, refs=where)


def _notes_of(ledger: Ledger) -> dict[_Thing, tuple[str, str]]:
    """What was done last to each file, and how each command ended, with the ref of that; of what
    was only read any mention will do."""
    notes: dict[_Thing, tuple[str, str]] = {
        ("file", path): (state.text, state.ref if state.word != "read" else "")
        for path, state in ledger.files.items()
        if state.word != "unknown"
    }
    for entry in ledger.entries:
        if entry.action.kind == "run":
            how = "" if entry.ending in ("done", "running") else entry.ending
            if entry.result and entry.ending in ("done", "failed"):
                how = ending_of(entry.result) or how
            notes["command", entry.action.line] = (how, entry.ref)
    return notes


def usefulness_of(item: IndexItem) -> int:
    """The rank of an item, most useful first: what was changed, then by kind."""
    return 0 if is_changed_file(item) else _RANKS[item.kind]


def is_changed_file(item: IndexItem) -> bool:
    """Whether an item is a file and tells how it was changed."""
    return item.kind == "file" and item.note.partition(" ")[0] in CHANGED

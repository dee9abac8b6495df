"""Lists what was met in a span: files, commands, errors; what was done to each, and where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from mcp_compaction.core.log.endings import ending_of
from mcp_compaction.core.log.identifiers import Finding
from mcp_compaction.core.log.ledger import CHANGED, Ledger, ledger_of
from mcp_compaction.model import IndexItem, IndexKind, Message

_RANKS: dict[IndexKind, int] = {"file": 1, "command": 1, "error": 2}
"""The kinds of things that an index lists; of ids, addresses and numbers digests and calls tell."""

_Thing = tuple[IndexKind, str]


def index_of(
    messages: Sequence[Message],
    found: dict[int, tuple[Finding, ...]],
    later: Sequence[Message] = (),
    kinds: Collection[IndexKind] = ("file", "command", "error"),
) -> tuple[IndexItem, ...]:
    """The mechanical list of a span: the files that calls touched, commands and errors, each once,
    with what was done to it and where; how files stand is told by what came later too."""
    ledger = ledger_of((*messages, *later))
    notes = _notes_of(ledger)
    refs: dict[_Thing, list[str]] = {}
    said: Counter[_Thing] = Counter()
    for message in messages:
        listed = [
            one
            for one in found.get(message.seq, ())
            if one.kind in kinds
            and (one.kind != "file" or one.text.removeprefix("./") in ledger.files)
        ]
        for finding in listed:
            refs.setdefault(finding, []).append(message.ref)
        if not message.results:
            said.update(listed)
    items = (_item_of(thing, where, notes) for thing, where in refs.items())
    # What was named and passed on is wanted again sooner than what a result merely listed.
    return tuple(
        sorted(
            items,
            key=lambda i: (usefulness_of(i), -said[i.kind, i.text], -len(refs[i.kind, i.text])),
        )
    )


def _item_of(thing: _Thing, refs: Sequence[str], notes: dict[_Thing, tuple[str, str]]) -> IndexItem:
    """A thing with what became of it, the ref where it was first met, and last the one that its
    note is of, or else the newest."""
    kind, text = thing
    note, noted = notes.get(thing) or notes.get((kind, text.removeprefix("./"))) or ("", "")
    where = tuple(dict.fromkeys((refs[0], noted or refs[-1])))
    return IndexItem(kind=kind, text=text, note=note, refs=where)


def _notes_of(ledger: Ledger) -> dict[_Thing, tuple[str, str]]:
    """What was done last to each file, and how each command ended, with the ref of that."""
    notes: dict[_Thing, tuple[str, str]] = {
        ("file", path): (state.text, state.ref)
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

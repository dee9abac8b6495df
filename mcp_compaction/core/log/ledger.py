"""Keeps account of what calls really did, by their results: the states of files, commits; and lists
what was met in a span."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from mcp_compaction.core.limits import LONGEST_ANSWER
from mcp_compaction.core.log.call_entries import CallEntry, entries_of
from mcp_compaction.core.log.effects import Effect, effects_of
from mcp_compaction.core.log.endings import ending_of
from mcp_compaction.core.log.failures import Failure, open_failures
from mcp_compaction.core.log.identifiers import Finding
from mcp_compaction.core.log.repository import Commit, commits_after
from mcp_compaction.core.reading import read_recent_once
from mcp_compaction.model import IndexItem, IndexKind, Message

FileWord = Literal[
    "read", "created", "written", "edited", "deleted", "moved", "reverted", "unknown"
]
CHANGED: frozenset[FileWord] = frozenset(
    ("created", "written", "edited", "deleted", "moved", "reverted")
)
_WORDS: dict[str, FileWord] = {
    "write": "written",
    "edit": "edited",
    "delete": "deleted",
    "move": "moved",
    "revert": "reverted",
}
_SAYS_CREATED = ("created", "new file")
_UNSTASHES = ("git stash pop", "git stash apply")
_SWITCHED = "Switched to "
_NO_RESULT = "no result seen"


class FileState(NamedTuple):
    """What was last done to a file, and where."""

    path: str
    word: FileWord
    ref: str
    note: str = ""  # where it was moved, what made it unknown, that no result was seen

    @property
    def text(self) -> str:
        """The state in words: `moved to b.py`."""
        return f"{self.word} {self.note}".strip()

    @property
    def has_ended(self) -> bool:
        """Whether the result of the call was seen that did it."""
        return _NO_RESULT not in self.note

    @property
    def is_changed(self) -> bool:
        """Whether something was done to what stood in it, or git may have brought another text."""
        return self.word in CHANGED or self.note.startswith("git ")


class Ledger(NamedTuple):
    """The calls of some messages in order, the last state of each file, the commits, and what
    failed and was not done since."""

    entries: tuple[CallEntry, ...]
    files: dict[str, FileState]
    commits: tuple[Commit, ...]
    failures: tuple[Failure, ...]  # the newest first


def ledger_of(messages: Iterable[Message]) -> Ledger:
    """The account of some messages; each call counts by its result."""
    return _read_ledger(m for m in messages if m.calls or m.results)


@read_recent_once
def _read_ledger(messages: Sequence[Message]) -> Ledger:
    entries = tuple(entries_of(messages))
    states = files_after((), entries)
    changed = {path: int(one.ref[1:]) for path, one in states.items() if one.word in CHANGED}
    return Ledger(
        entries, states, commits_after((), entries), tuple(open_failures(entries, changed))[::-1]
    )


def files_after(known: Iterable[FileState], entries: Iterable[CallEntry]) -> dict[str, FileState]:
    """How files stand that are known, or that calls named since."""
    files = _Files(known)
    for entry in entries:
        files.note(entry)
    return files.states()


class _Files:
    """The files that calls named so far, each with what was last done to it."""

    def __init__(self, known: Iterable[FileState] = ()) -> None:
        self._states: dict[str, FileState] = {}
        self._by_name: dict[str, list[str]] = {}
        self._stashed: dict[str, FileState] = {}
        self._committed = 0  # the message of the last commit: what it holds is new no more
        for one in known:
            self._take(one)

    def _take(self, state: FileState) -> None:
        self._states[state.path] = state
        named = self._by_name.setdefault(_name_of(state.path), [])
        if state.path not in named:
            named.append(state.path)

    def states(self) -> dict[str, FileState]:
        """The last state of each file, in the order of the last deeds."""
        return dict(self._states)

    def note(self, entry: CallEntry) -> None:
        """Take down what a call did; what was refused or failed did nothing."""
        match entry.action.kind:
            case "read" | "write" | "edit":
                self._note_file_tool(entry)
            case "run":
                for effect in effects_of(entry.action.target):
                    self._note_effect(effect, entry)
                if entry.ending == "done" and any(
                    said in entry.action.target for said in _UNSTASHES
                ):
                    self._states |= self._stashed
                    self._stashed = {}
                if entry.ending == "done" and "git commit" in entry.action.target:
                    self._committed = int(entry.ref[1:])
            case _:
                pass

    def _note_file_tool(self, entry: CallEntry) -> None:
        action, result = entry.action, entry.result
        if not action.target or entry.ending not in ("done", "running"):
            return
        word: FileWord = "read"
        if action.kind != "read":
            text = result.text[:LONGEST_ANSWER] if result else ""
            if entry.changed_nothing:
                return
            opening = text.lstrip().split("\n", 1)[0].lower()
            call = entry.call
            is_create = "create" in call.name.lower() or call.arguments.get("command") == "create"
            is_new = is_create or any(said in opening for said in _SAYS_CREATED)
            word = ("created" if is_new else "written") if action.kind == "write" else "edited"
        elif entry.ending == "running" or self._key_of(action.target) in self._states:
            return
        self._set(action.target, word, entry)

    def _note_effect(self, effect: Effect, entry: CallEntry) -> None:
        if entry.ending == "refused":
            return
        # A shell opens the file that it writes to before anything can go wrong.
        is_opened = effect.does == "write" and effect.is_first
        if entry.ending == "failed" and effect.is_only:
            return
        is_sure = entry.ending in ("done", "running") or is_opened
        if effect.does == "revert" and entry.result and _SWITCHED in entry.result.text:
            return  # to a branch whose name looks like a file's
        if is_sure and effect.does != "unknown" and not effect.is_glob:
            self._do(effect, entry)
            return
        by = f"{effect.by} {effect.path}" if effect.is_glob else effect.by
        for path in self._meant(effect):
            self._make_unknown(path, by, entry)

    def _do(self, effect: Effect, entry: CallEntry) -> None:
        word, note = _WORDS[effect.does], f"to {effect.to}" if effect.to else ""
        known = self._states.get(self._key_of(effect.path))
        if word == "deleted" and known and known.word == "deleted":
            return  # as `git rm` after `rm`
        inside = [p for p in self._states if p.startswith(f"{effect.path.rstrip('/')}/")]
        if word in ("deleted", "moved", "reverted"):
            for path in inside:
                self._set(path, word, entry, note)
            for path in self._perhaps_inside(effect.path):
                self._make_unknown(path, effect.by, entry)
        if inside and word != "written":
            return
        self._set(effect.path, word, entry, note)
        if effect.to:
            self._set(effect.to, "written", entry)

    def _perhaps_inside(self, folder: str) -> list[str]:
        """The files in a folder of such a name: where it, or they, were meant from is not told."""
        if folder.startswith(("/", "~")):
            whole = f"{folder.rstrip('/')}/"
            ends = tuple(whole[n:] for n in range(1, len(whole)) if whole[n - 1] == "/")
            return [p for p in self._states if p.startswith(ends)]
        return [p for p in self._states if f"/{folder.removeprefix('./').rstrip('/')}/" in p]

    def _meant(self, effect: Effect) -> list[str]:
        """The known files that an effect may be about."""
        if not effect.path:
            return [p for p, state in self._states.items() if state.word in CHANGED]
        if glob := effect.glob if effect.is_glob else "":
            globs = (f"*{glob}", f"*{glob}/*")
            return [p for p in self._states if any(fnmatchcase(f"/{p}", one) for one in globs)]
        known = self._key_of(effect.path)
        return [known] if known in self._states else []

    def _make_unknown(self, path: str, by: str, entry: CallEntry) -> None:
        old = self._states[path]
        if old.word != "unknown":
            if by == "git stash":
                self._stashed[path] = old
            self._states[path] = FileState(path, "unknown", entry.ref, by)

    def _set(self, path: str, word: FileWord, entry: CallEntry, note: str = "") -> None:
        key = self._key_of(path)
        if entry.ending == "running":
            note = f"{note}, {_NO_RESULT}" if note else f"({_NO_RESULT})"
        old = self._states.pop(key, None)
        self._stashed.pop(key, None)
        if word in ("edited", "written") and old and old.word == "created":
            is_committed = int(old.ref[1:]) <= self._committed
            word = word if is_committed else "created"
        self._take(FileState(key, word, entry.ref, note))

    def _key_of(self, path: str) -> str:
        """The path by which a file is known already: a longer or shorter way to write the same."""
        clean = path.removeprefix("./").rstrip("/") or path
        if clean in self._states:
            return clean
        others = self._by_name.get(_name_of(clean), [])
        same = [p for p in others if p.endswith(f"/{clean}") or clean.endswith(f"/{p}")]
        return same[-1] if len(same) == 1 else clean


def _name_of(path: str) -> str:
    return path.rpartition("/")[2]


INDEXED: dict[IndexKind, int] = {"file": 1, "command": 1, "error": 2}
"""The kinds of things that an index lists; of ids, addresses and numbers digests and calls tell."""

_Thing = tuple[IndexKind, str]


def index_of(
    messages: Sequence[Message],
    found: dict[int, tuple[Finding, ...]],
    later: Sequence[Message] = (),
    kinds: Collection[IndexKind] = tuple(INDEXED),
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
    return 0 if is_changed_file(item) else INDEXED[item.kind]


def is_changed_file(item: IndexItem) -> bool:
    """Whether an item is a file and tells how it was changed."""
    return item.kind == "file" and item.note.partition(" ")[0] in CHANGED

"""Keeps account of what calls really did, by their results: the states of files, commits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from mcp_compaction.core.limits import LONGEST_ANSWER
from mcp_compaction.core.log.commands import is_search
from mcp_compaction.core.log.effects import Effect, effects_of
from mcp_compaction.core.log.endings import CallEnding, ending_of_call, has_not_begun
from mcp_compaction.core.log.recent import read_recent_once
from mcp_compaction.core.log.tool_calls import Action, action_of, answers_of
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.words import one_line
from mcp_compaction.model import Message, ToolCall, ToolResult

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
_SAYS_CREATED = pattern_of(r"\b(?:[Cc]reated|[Nn]ew file)\b")
_SAYS_UNCHANGED = pattern_of(r"\(No changes\)|No replacement was performed|No changes to make")
_MAKES_COMMITS = pattern_of(r"commit|revert|cherry-pick")
_COMMIT = pattern_of(r"^\s*\[(?P<on>[^\]\n]{1,80}) (?P<id>[0-9a-f]{7,40})\] (?P<subject>.+)$")
_NO_RESULT = "no result seen"
_CHANGES = ("write", "edit")


class FileState(NamedTuple):
    """What was last done to a file, and where."""

    path: str
    word: FileWord
    ref: str
    note: str = ""  # where it was moved, what made it unknown, that no result was seen
    known_at: str = ""  # of an unknown one, where it was last known

    @property
    def text(self) -> str:
        """The state in words: `moved to b.py`, `unknown (git stash)`."""
        note = f"({self.note})" if self.note and self.word == "unknown" else self.note
        return f"{self.word} {note}".strip()

    @property
    def has_ended(self) -> bool:
        """Whether the result of the call was seen that did it."""
        return _NO_RESULT not in self.note


class CallEntry(NamedTuple):
    """One call, what it was to do, and how it ended."""

    call: ToolCall
    result: ToolResult | None
    action: Action
    ending: CallEnding
    ref: str  # of the message that made the call
    result_ref: str  # of the message that answered it, or else of the same

    @property
    def form(self) -> str:
        """What makes two calls the same: the command line, or the file to change."""
        action = self.action
        if action.kind == "run":
            return f"run {one_line(action.target)}"
        does = "change" if action.kind in _CHANGES else f"{self.call.name} {action.kind}"
        return f"{does} {action.target.removeprefix('./')}"


class Failure(NamedTuple):
    """The last call of a form that failed, and how often in a row it did."""

    entry: CallEntry
    times: int


class Commit(NamedTuple):
    """A commit that git confirmed."""

    branch: str
    id: str
    subject: str
    ref: str


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
    entries = tuple(_entries_of(messages))
    files = _Files()
    commits: list[Commit] = []
    for entry in entries:
        files.note(entry)
        commits += _commits_of(entry)
    states = files.states()
    return Ledger(entries, states, tuple(commits), tuple(_failures_of(entries, states))[::-1])


def _failures_of(entries: Iterable[CallEntry], files: dict[str, FileState]) -> Iterator[Failure]:
    """The last failure of each form that was not done since; a file that could not be changed and
    was changed since by whatever call has nothing to tell, nor has a search that found nothing."""
    standing: dict[str, Failure] = {}
    for entry in entries:
        if entry.ending in ("failed", "timed out") and not _has_searched(entry):
            before = standing.pop(entry.form, None)
            standing[entry.form] = Failure(entry, before.times + 1 if before else 1)
        elif entry.ending == "done" and standing:
            standing.pop(entry.form, None)
    return (one for one in standing.values() if not _is_changed_since(one.entry, files))


def _is_changed_since(entry: CallEntry, files: dict[str, FileState]) -> bool:
    state = files.get(entry.action.target.removeprefix("./"))
    if state is None or entry.action.kind not in _CHANGES:
        return False
    return state.word in CHANGED and int(state.ref[1:]) > int(entry.ref[1:])


def _has_searched(entry: CallEntry) -> bool:
    """Whether a search did run: that it found nothing, or not all was there, is no failure."""
    is_one = entry.action.kind == "run" and is_search(entry.action.target)
    return is_one and not (entry.result is not None and has_not_begun(entry.result))


def _entries_of(messages: Sequence[Message]) -> Iterator[CallEntry]:
    """Each call in order."""
    answers = answers_of(messages)
    for message in messages:
        for call in message.calls:
            where, result = answers.get((message.ref, call.id), (message.ref, None))
            ending = ending_of_call(result) if result is not None else "running"
            yield CallEntry(call, result, action_of(call), ending, message.ref, where)


def _commits_of(entry: CallEntry) -> Iterator[Commit]:
    if entry.result is None or not _MAKES_COMMITS.search(entry.action.target):
        return
    for line in entry.result.text[:LONGEST_ANSWER].split("\n"):
        if found := _COMMIT.match(line):
            on = found["on"].removesuffix(" (root-commit)")
            yield Commit(on, found["id"], found["subject"].strip(), entry.result_ref)


class _Files:
    """The files that calls named so far, each with what was last done to it."""

    def __init__(self) -> None:
        self._states: dict[str, FileState] = {}
        self._by_name: dict[str, list[str]] = {}

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
            case _:
                pass

    def _note_file_tool(self, entry: CallEntry) -> None:
        action, result = entry.action, entry.result
        if not action.target or entry.ending not in ("done", "running"):
            return
        word: FileWord = "read"
        if action.kind != "read":
            text = result.text[:LONGEST_ANSWER] if result else ""
            if _SAYS_UNCHANGED.match(text.lstrip()):
                return
            opening = text.lstrip().split("\n", 1)[0]
            is_new = _SAYS_CREATED.search(opening) or _is_create(entry.call)
            word = ("created" if is_new else "written") if action.kind == "write" else "edited"
        elif entry.ending == "running" or self._is_known(action.target):
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
        if is_sure and effect.does != "unknown" and not effect.is_glob:
            self._do(effect, entry)
            return
        by = f"{effect.by} {effect.path}" if effect.is_glob else effect.by
        for path in self._meant(effect):
            self._make_unknown(path, by, entry)

    def _do(self, effect: Effect, entry: CallEntry) -> None:
        word = _WORDS[effect.does]
        inside = [p for p in self._states if p.startswith(f"{effect.path.rstrip('/')}/")]
        if word in ("deleted", "moved", "reverted"):
            for path in inside:
                self._set(path, word, entry, f"to {effect.to}" if effect.to else "")
        if inside and word != "written":
            return
        self._set(effect.path, word, entry, f"to {effect.to}" if effect.to else "")
        if effect.to:
            self._set(effect.to, "written", entry)

    def _meant(self, effect: Effect) -> list[str]:
        """The known files that an effect may be about."""
        if not effect.path:
            return [p for p, state in self._states.items() if state.word in CHANGED]
        if effect.is_glob:
            glob = effect.path.lstrip("./")
            return [
                p for p in self._states if fnmatchcase(p, f"*{glob}") or fnmatchcase(p, f"{glob}/*")
            ]
        known = self._key_of(effect.path)
        return [known] if known in self._states else []

    def _make_unknown(self, path: str, by: str, entry: CallEntry) -> None:
        old = self._states[path]
        if old.word != "unknown":
            self._states[path] = FileState(path, "unknown", entry.ref, by, old.ref)

    def _set(self, path: str, word: FileWord, entry: CallEntry, note: str = "") -> None:
        key = self._key_of(path)
        if entry.ending == "running":
            note = f"{note}, {_NO_RESULT}" if note else f"({_NO_RESULT})"
        old = self._states.pop(key, None)
        if word in ("edited", "written") and old and old.word == "created":
            word = "created"
        if key not in self._by_name.setdefault(_name_of(key), []):
            self._by_name[_name_of(key)].append(key)
        self._states[key] = FileState(key, word, entry.ref, note)

    def _is_known(self, path: str) -> bool:
        return self._key_of(path) in self._states

    def _key_of(self, path: str) -> str:
        """The path by which a file is known already: a longer or shorter way to write the same."""
        clean = path.removeprefix("./").rstrip("/") or path
        if clean in self._states:
            return clean
        others = self._by_name.get(_name_of(clean), [])
        same = [p for p in others if p.endswith(f"/{clean}") or clean.endswith(f"/{p}")]
        return same[-1] if len(same) == 1 else clean


def _is_create(call: ToolCall) -> bool:
    return "create" in call.name.lower() or call.arguments.get("command") == "create"


def _name_of(path: str) -> str:
    return path.rpartition("/")[2]

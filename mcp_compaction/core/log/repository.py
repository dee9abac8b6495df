"""Tells how a repository stands by what git answered: its folder and branch, the last commit, and
where that was merged or pushed since."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from mcp_compaction.core.limits import LONGEST_ANSWER
from mcp_compaction.core.log.call_entries import CallEntry
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.shell import Command, commands_of, subcommand_of

_COMMIT = pattern_of(r"^\s*\[(?P<on>[^\]\n]{1,80}) (?P<id>[0-9a-f]{7,40})\] (?P<subject>.+)$")
_ON = pattern_of(
    r"^(?:Switched to (?:a new |and reset )?branch|Already on) '(.+)'$|^On branch (\S+)$"
)
_PUSHED = pattern_of(
    r"^ [ +*=] (?:\w+\.{2,3}(?P<id>\w+)|\[new branch\]|\[up to date\])"
    r" +(?P<own>\S+) +-> +(?P<to>\S+)"
)
_MAKES_COMMITS = ("commit", "revert", "cherry-pick")
_MAKES_BRANCH = frozenset(("-b", "-B"))
_ASKS_FIRST = "--show-current"  # prints one line and no more
_ASKS_BRANCH = frozenset((_ASKS_FIRST, "--abbrev-ref"))
_SHORTEST_ID, _HEX = 7, frozenset("0123456789abcdef")
_EARLIER = ("HEAD~", "HEAD^", "HEAD@")
_DETACHED = "detached HEAD"
_NOTHING_TO_COMMIT = ("nothing to commit", "nothing added to commit", "no changes added to commit")
_WENT_BACK = "Shell cwd was reset to "  # Claude Code


class Commit(NamedTuple):
    """A commit that git confirmed."""

    branch: str
    id: str
    subject: str
    ref: str


class NamedPlace(NamedTuple):
    """A place where something stands, and the message that says so."""

    name: str
    ref: str


class Repository(NamedTuple):
    """How a repository stands; what no call told is None."""

    folder: NamedPlace | None = None  # in which git ran last, where its line names it as a whole
    branch: NamedPlace | None = None
    commit: Commit | None = None
    merged: tuple[NamedPlace, ...] = ()  # the branches that hold the last commit since
    pushed: NamedPlace | None = None  # where it was pushed to


def commits_of(entry: CallEntry) -> Iterator[Commit]:
    """The commits that a call made, by its result."""
    if entry.result is None or not any(name in entry.action.target for name in _MAKES_COMMITS):
        return
    for line in entry.result.text[:LONGEST_ANSWER].split("\n"):
        if found := _COMMIT.match(line):
            on = found["on"].removesuffix(" (root-commit)")
            yield Commit(on, found["id"], found["subject"].strip(), entry.result_ref)


def commits_after(known: Iterable[Commit], entries: Iterable[CallEntry]) -> tuple[Commit, ...]:
    """The commits that are known and those that calls made since, without what a revert, a reset
    or an amended commit took back."""
    standing: list[Commit] = list(known)
    for entry in entries:
        made = [*commits_of(entry)]
        is_done = entry.action.kind == "run" and entry.ending == "done"
        for command in (commands_of(entry.action.target) or ()) if is_done else ():
            name, *words = subcommand_of(command.name, command.words[1:]) or ("",)
            if command.name == "git" and name == "commit" and "--amend" in words:
                del standing[-1:]
            elif command.name == "git" and name == "reset" and any(map(_is_commit, words)):
                standing = []  # what is left of them is not told
        for one in made:
            taken = one.subject.removeprefix('Revert "').removesuffix('"')
            standing = [s for s in standing if s.subject != taken or taken == one.subject]
        standing += made
    return tuple(standing)


def repository_of(entries: Iterable[CallEntry]) -> Repository:
    """How the repository stands in which git last told where it stands."""
    standing = _Standing()
    for entry in entries:
        if entry.action.kind == "run" and entry.ending in ("done", "failed"):
            standing.note(entry)
    return standing.newest


class _Standing:
    """How repositories stand so far, by their folders as lines name them; a line that names none is
    for the folder that a line before went to, or for the one to which the host went back."""

    def __init__(self) -> None:
        self._known: dict[str, Repository] = {"": Repository()}  # the newest last
        self._stays = ""  # the folder for lines that name none
        self._folder = ""

    @property
    def newest(self) -> Repository:
        """The repository of which something was told last."""
        return next(reversed(self._known.values()))

    @property
    def _here(self) -> Repository:
        return self._known.get(self._folder, Repository())

    def note(self, entry: CallEntry) -> None:
        """Take down what a call of git did, by its result."""
        text = entry.result.text[:LONGEST_ANSWER] if entry.result is not None else ""
        if "git " in entry.action.target:
            said = _Said(entry, text.split("\n"))
            for command in commands_of(entry.action.target) or ():
                words = subcommand_of(command.name, command.words[1:])
                if command.name == "git" and words:
                    self._stays = command.folder or self._stays
                    self._folder = _folder_of(command) or self._stays
                    self._note_command(words[0], words[1:], said)
            while said.commits:  # of a line that cannot be read, or of a program that it runs
                self._note_commit(said)
            for found in filter(None, map(_PUSHED.match, said.lines)):
                self._note_push(found["id"] or "", found["own"], found["to"], said)
        back = text.rpartition(_WENT_BACK)[2].strip() if _WENT_BACK in text else None
        if back is not None:
            self._stays = back if back in self._known else ""

    def _tell(self, **told: Any) -> None:
        self._known[self._folder] = self._known.pop(self._folder, Repository())._replace(**told)

    def _stand_on(self, branch: str, said: _Said) -> None:
        is_whole = self._folder.startswith(("/", "~"))
        folder = NamedPlace(self._folder, said.entry.ref) if is_whole else None
        self._tell(branch=NamedPlace(branch, said.entry.result_ref), folder=folder)

    def _note_command(self, name: str, words: tuple[str, ...], said: _Said) -> None:
        plain = [word for word in words if not word.startswith("-")]
        match name:
            case "commit" | "revert" | "cherry-pick":
                self._note_commit(said)
            case "checkout" | "switch" if to := said.switched_to(name, words, plain):
                self._stand_on(to, said)
            case "status" if said.branches:
                self._stand_on(said.branches[-1], said)
            case "branch" | "rev-parse" if _ASKS_BRANCH.intersection(words) and said.only_word:
                self._stand_on(said.only_word, said)
            case "merge" | "pull" if said.is_done and _names_of(self._here).intersection(plain):
                if self._here.branch is not None:
                    place = NamedPlace(self._here.branch.name, said.entry.result_ref)
                    self._tell(merged=(*self._here.merged, place))
            case "push" if said.is_done and "Everything up-to-date" in said.lines:
                branch = self._here.branch
                self._note_push("", branch.name if branch else "", "", said)
            case "rebase":
                self._tell(commit=None, merged=(), pushed=None)
            case "reset" if plain and ("--hard" in words or _is_commit(plain[0])):
                self._tell(commit=None, merged=(), pushed=None)
            case _:
                pass

    def _note_commit(self, said: _Said) -> None:
        commit = said.commits.pop(0) if said.commits else None
        if commit is not None and not commit.branch.startswith(_DETACHED):
            self._stand_on(commit.branch, said)
        if commit is not None or (said.is_done and not said.has_nothing_to_commit):
            # Of a quiet one nobody saw the id.
            self._tell(commit=commit, merged=(), pushed=None)

    def _note_push(self, id: str, own: str, to: str, said: _Said) -> None:
        """Take a push down where it took the last commit along."""
        branch = self._here.branch
        own = branch.name if own == "HEAD" and branch is not None else own
        commit = self._here.commit
        is_same = commit is not None and id.startswith(commit.id[:7])
        if is_same or own in _names_of(self._here):
            name = "/".join(filter(None, (said.remote, to or own)))
            self._tell(pushed=NamedPlace(name, said.entry.result_ref))


class _Said:
    """What the result of one call of git says."""

    def __init__(self, entry: CallEntry, lines: list[str]) -> None:
        self.entry, self.lines = entry, lines
        self.commits = list(commits_of(entry))
        self.branches = [one[1] or one[2] for one in map(_ON.match, lines) if one]

    @property
    def is_done(self) -> bool:
        """Whether nothing of the line failed."""
        return self.entry.ending == "done"

    @property
    def has_nothing_to_commit(self) -> bool:
        """Whether git says so."""
        return any(said in line for line in self.lines for said in _NOTHING_TO_COMMIT)

    @property
    def only_word(self) -> str:
        """The word of a result that is no more than one, or of its first line where that answers
        what was asked first; blank: there are more, or none."""
        line = self.entry.action.target
        first = next(iter(commands_of(line) or ()), Command(()))
        is_first = _ASKS_FIRST in first.words and line.count(_ASKS_FIRST) == 1
        words = " ".join(self.lines[:1] if is_first else self.lines).split()
        return words[0] if len(words) == 1 and words[0] != "HEAD" and self.is_done else ""

    @property
    def remote(self) -> str:
        """The remote that a push names."""
        words = self.entry.action.target.partition(" push ")[2].split()
        return next((word for word in words if not word.startswith("-")), "") if words else ""

    def switched_to(self, name: str, words: Sequence[str], plain: Sequence[str]) -> str:
        """The branch that the next switch of the line went to; blank where none is certain."""
        if self.branches:
            return self.branches.pop(0) if len(self.branches) > 1 else self.branches[0]
        is_branch = name == "switch" or not _MAKES_BRANCH.isdisjoint(words)
        return plain[0] if is_branch and plain and self.is_done else ""


def _names_of(repository: Repository) -> set[str]:
    """The names by which the last commit can be meant: its id, its branch, those that hold it."""
    commit = repository.commit
    own = (commit.branch, commit.id) if commit is not None else ()
    return {*own, *(place.name for place in repository.merged)} if own else set()


def _is_commit(word: str) -> bool:
    """Whether a word names another commit than the last, and no file."""
    return word.startswith(_EARLIER) or (len(word) >= _SHORTEST_ID and not set(word) - _HEX)


def _folder_of(command: Command) -> str:
    """The folder that a command of git is for, as its line names it."""
    options = command.words[1:3]
    given = options[1] if options[:1] == ("-C",) and len(options) == 2 else ""
    return (
        given if given.startswith(("/", "~")) else "/".join(filter(None, (command.folder, given)))
    )

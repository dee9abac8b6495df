"""Brings the digests of earlier spans up to date by what later calls did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from mcp_compaction.core.digest.outcomes import MOST_SINCE, changed_after, with_changes
from mcp_compaction.core.digest.render import is_passing
from mcp_compaction.core.log.commands import program_of
from mcp_compaction.core.log.ledger import CHANGED, CallEntry, FileState, Ledger, files_after
from mcp_compaction.core.log.repository import Commit, commits_after
from mcp_compaction.model import (
    AccountValue,
    Digest,
    IndexItem,
    Item,
    RunningJob,
    SectionName,
    ValueKind,
)

# What holds at the end of a span only; what a user told holds until something is done, and what
# tests said until they run again.
_PASSING: tuple[SectionName, ...] = ("STATE", "NEXT", "ASKED")
_PLAIN = AccountValue(kind="label")  # of a line that has no value


def bring_up_to_date(
    digest: Digest,
    ledger: Ledger,
    is_followed: bool,
    running: Iterable[RunningJob] = (),
    *,
    is_asked: bool = False,
) -> Digest:
    """The digest without what later calls made untrue; where newer messages are digested after it,
    also without what only held at its end. `is_asked`: the user has asked something since."""
    if not digest.messages:  # the agent's own words, which stand for no messages
        return digest
    jobs = frozenset(job.ref for job in running)
    later = _Later(digest, ledger, is_followed, jobs, is_asked)
    sections = (
        (name, tuple(told for item in items if (told := later.told_now(name, item)) is not None))
        for name, items in digest.sections
    )
    return digest.model_copy(
        update={
            "sections": tuple((name, items) for name, items in sections if items),
            "index": tuple(_with_state(item, later.files) for item in digest.index),
        }
    )


@dataclass(frozen=True)
class _Later:
    """What calls did after a digest, and whether a newer digest follows it."""

    digest: Digest
    ledger: Ledger
    is_followed: bool
    running: frozenset[str]  # the calls that started what still runs
    is_asked: bool  # whether the user has asked something since

    @cached_property
    def _entries(self) -> list[CallEntry]:
        return [e for e in self.ledger.entries if int(e.ref[1:]) > self.digest.last]

    @property
    def is_past(self) -> bool:
        """Whether what failed before has been gone on from."""
        return self.is_asked or len(self._entries) >= MOST_SINCE

    @cached_property
    def _done(self) -> set[str]:
        return {entry.form for entry in self._entries if entry.ending == "done"}

    @cached_property
    def _run(self) -> set[str]:
        runs = (e for e in self._entries if e.action.kind == "run" and e.ending != "refused")
        return {program_of(entry.action.target) for entry in runs}

    @cached_property
    def files(self) -> Mapping[str, FileState]:
        """The files that were changed since, as they stand."""
        told = [(one.text, one.note, one.refs) for one in self.digest.index]
        told += self._told_of("file")
        known = [
            FileState(path, word, refs[-1])
            for path, note, refs in told
            if refs and int(refs[-1][1:]) <= self.digest.last
            for word in CHANGED.intersection(note.split()[:1])
        ]
        return {
            path: state
            for path, state in files_after(known, self._entries).items()
            if int(state.ref[1:]) > self.digest.last and state.word != "read"
        }

    @cached_property
    def commits(self) -> set[str]:
        """The ids of the digest's commits that stand."""
        known = [
            Commit("", id, what, "".join(refs[:1])) for what, id, refs in self._told_of("commit")
        ]
        return {one.id for one in commits_after(reversed(known), self._entries)}

    def _told_of(self, kind: ValueKind) -> list[tuple[str, str, tuple[str, ...]]]:
        """What was done to things of a kind: the thing, how it stands, and where that is told."""
        done = ((one.text, one.value or _PLAIN, one.refs) for one in self.digest.items("DONE"))
        return [(text, value.status, refs) for text, value, refs in done if value.kind == kind]

    def told_now(self, section: SectionName, item: Item) -> Item | None:
        """An item as it stands now; None where it no longer holds."""
        value = item.value or _PLAIN
        holds = True
        if value.kind == "tests":
            if self.is_followed:
                item = with_changes(item, changed_after(self.files, self.digest.last))
                holds = value.key not in self._run
        elif self.is_followed and (section in _PASSING or is_passing(section, item)):
            holds = item.must_stay and not self._entries
        elif value.kind == "job":
            holds = not self.running.isdisjoint(item.refs)
        elif value.kind == "failure":
            holds = value.key not in self._done and not self.is_past
        elif value.kind == "file":
            holds = self._still_stands(item)
        elif value.kind == "commit":
            holds = value.status in self.commits
        elif value.kind == "request" and value.status == "newest" and self.is_followed:
            before = value.model_copy(update={"status": "before"})
            item = item.model_copy(update={"value": before, "provenance": "extracted"})
        return item if holds else None

    def _still_stands(self, item: Item) -> bool:
        """Whether a state of a file holds: nothing else was done to it since, no newer digest
        tells it, and what it tells of a step after the span was not refused or taken out."""
        state = self.files.get(item.text)
        if state is None:
            return all(int(ref[1:]) <= self.digest.last for ref in item.refs)
        return not self.is_followed and state.ref in item.refs


def _with_state(item: IndexItem, since: Mapping[str, FileState]) -> IndexItem:
    if item.kind != "file" or item.text not in since:
        return item
    state = since[item.text]
    if state.word == "unknown":
        return item.model_copy(update={"note": ""})
    refs = tuple(dict.fromkeys((*item.refs[:1], state.ref)))
    return item.model_copy(update={"note": state.text, "refs": refs})

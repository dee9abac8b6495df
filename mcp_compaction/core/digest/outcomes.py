"""Reads what calls came to: how things stand, what was done, what failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import cast

from mcp_compaction.core.digest.render import MOST_CHANGED
from mcp_compaction.core.limits import LONGEST_LINE, SHORTEST_PREVIEW
from mcp_compaction.core.log.call_entries import CallEntry
from mcp_compaction.core.log.commands import command_line_of, last_line_of, only_reads, program_of
from mcp_compaction.core.log.conversation import Conversation, conversation_of
from mcp_compaction.core.log.endings import causes_of, ending_of, is_run_of_tests
from mcp_compaction.core.log.failures import Failure
from mcp_compaction.core.log.ledger import CHANGED, FileState, Ledger, ledger_of
from mcp_compaction.core.log.repository import Repository, repository_of
from mcp_compaction.core.log.tool_calls import read_tasks
from mcp_compaction.core.text.words import first_line, one_line, shorten
from mcp_compaction.model import AccountValue, Digest, Item, JobKind, RunningJob, SummaryRequest

MOST_LINES = 8
"""Lines of one kind in a digest: more crowd out the others, and recall has them."""
MOST_SINCE = 10
"""Calls after which a failure is past: whoever went on for so long did without."""


@dataclass(frozen=True)
class Reading:
    """A span and what stays in the window around it, which tells how things ended."""

    request: SummaryRequest

    @cached_property
    def window(self) -> Conversation:
        """The conversation of the span, before it and after it, as far as the window holds it."""
        request = self.request
        return conversation_of((*request.earlier, *request.messages, *request.later))

    @cached_property
    def messages(self) -> Conversation:
        """The conversation of the span."""
        return Conversation(m for m in self.window if self.is_in_span(m.ref))

    @cached_property
    def ledger(self) -> Ledger:
        """What calls did in the window."""
        return ledger_of(self.window)

    def is_in_span(self, ref: str) -> bool:
        """Whether a message is one of the span."""
        return self.request.first <= int(ref[1:]) <= self.request.last


_PROSE = (".md", ".rst", ".adoc")


def state_items(reading: Reading) -> Iterator[Item]:
    """How things stand: the last result of each program that tests or builds, and the last
    commit."""
    last: dict[str, CallEntry] = {}
    for entry in reading.ledger.entries:
        is_run = entry.action.kind == "run" and entry.ending != "refused"
        if is_run and not only_reads(entry.action.target):
            program = program_of(entry.action.target)
            result = entry.result if entry.ending in ("done", "failed") else None
            is_told = result is not None and is_run_of_tests(result)
            before = last.get(program)
            if before and (is_told or before.form == entry.form):
                del last[program]  # also where the same run did not say how it ended
            if is_told:
                last[program] = entry
    failed = {one.entry.form for one in reading.ledger.failures}
    standing = [(p, e) for p, e in last.items() if e.ending == "done" or e.form in failed]
    for program, entry in islice(reversed(standing), MOST_LINES):
        assert entry.result is not None
        status = ending_of(entry.result)
        causes = causes_of(entry.result)[:2] if entry.ending == "failed" else ()
        more = shorten(
            "; ".join(one for one in causes if one_line(one) not in status), SHORTEST_PREVIEW
        )
        value = AccountValue(kind="tests", status=status, more=more, key=program)
        target = entry.action.target
        line = target if len(target) <= LONGEST_LINE and "\n" not in target.strip() else ""
        line = one_line(line) or command_line_of(last_line_of(target))  # to be run again as it was
        item = Item(text=line, refs=_refs_of(entry), value=value)
        yield with_changes(item, changed_after(reading.ledger.files, int(entry.result_ref[1:])))
    yield from _repository_items(repository_of(reading.ledger.entries))
    for job in reading.request.running:
        at = job.at.isoformat() if job.at is not None else ""
        value = AccountValue(kind="job", status=job.kind, key=job.id, more=at)
        yield Item(text=shorten(job.text, SHORTEST_PREVIEW), refs=(job.ref,), value=value)


def jobs_in(digest: Digest) -> Iterator[RunningJob]:
    """The jobs that ran when a digest was written, of which a later call may tell the end."""
    for item in digest.items("STATE"):
        value = item.value
        if value is not None and value.kind == "job" and value.key and item.refs:
            at = datetime.fromisoformat(value.more) if value.more else None
            kind = cast("JobKind", value.status)
            yield RunningJob(kind, value.key, item.text, item.refs[0], at)


def _repository_items(repository: Repository) -> Iterator[Item]:
    """Where git works, on which branch, its last commit, and what became of that."""
    commit, branch, pushed = repository.commit, repository.branch, repository.pushed
    if commit is not None:
        value = AccountValue(kind="commit", status=commit.id, more=commit.branch)
        yield Item(text=shorten(commit.subject, SHORTEST_PREVIEW), refs=(commit.ref,), value=value)
    standing = [("branch", branch), ("folder of git", repository.folder), ("pushed to", pushed)]
    standing += [("merged into", one) for one in repository.merged]
    for what, place in standing:
        is_told = what == "branch" and commit is not None and place == (commit.branch, commit.ref)
        if place is not None and not is_told:
            value = AccountValue(kind="label", status=what)
            yield Item(text=place.name, refs=(place.ref,), value=value)


def _refs_of(entry: CallEntry) -> tuple[str, ...]:
    return tuple(dict.fromkeys((entry.ref, entry.result_ref)))


def changed_after(files: Mapping[str, FileState], seq: int) -> list[FileState]:
    """The files that were changed after a message, the newest first; no prose, which no test
    reads."""
    read = (state for state in files.values() if not state.path.endswith(_PROSE))
    return [one for one in read if one.is_changed and int(one.ref[1:]) > seq][::-1]


def with_changes(item: Item, changed: Sequence[FileState]) -> Item:
    """A run of tests, with the files that were changed after it."""
    if not changed or item.value is None:
        return item
    names = (one.note if one.word == "unknown" else one.path for one in changed)  # `git stash`
    paths = dict.fromkeys((*names, *item.value.since))
    value = item.value.model_copy(update={"since": tuple(paths)[: MOST_CHANGED + 1]})
    refs = tuple(dict.fromkeys((*item.refs[:2], changed[0].ref)))
    return item.model_copy(update={"value": value, "refs": refs})


def done_items(reading: Reading) -> list[Item]:
    """What was done: how files stand, tasks closed of a list with others open, commits."""
    tasks = read_tasks(reading.messages).entries
    unfinished = {one.list_ref for one in tasks if not one.task.is_closed}
    closed = [
        Item(
            text=entry.task.text,
            refs=tuple(dict.fromkeys((entry.ref, entry.changed))),
            value=AccountValue(kind="request", status="done"),
        )
        for entry in tasks
        if entry.task.state == "done" and entry.list_ref in unfinished
    ]
    commits = [
        Item(
            text=shorten(commit.subject, SHORTEST_PREVIEW),
            refs=(commit.ref,),
            value=AccountValue(kind="commit", status=commit.id),
        )
        for commit in reversed(reading.ledger.commits)
        if reading.is_in_span(commit.ref)
    ]
    return [*_file_items(reading), *closed, *commits]


def _file_items(reading: Reading) -> Iterator[Item]:
    """How each file stands that was changed in the span, the newest first; in the newest digest
    also those that steps after the span changed, until a digest of theirs tells of them."""
    is_newest, last = reading.request.is_newest, reading.request.last
    for state in reversed(reading.ledger.files.values()):
        is_later = is_newest and int(state.ref[1:]) > last and state.has_ended
        if state.word in CHANGED and (is_later or reading.is_in_span(state.ref)):
            yield _file_item(state)


def _file_item(state: FileState) -> Item:
    value = AccountValue(kind="file", status=state.word, more=state.note)
    return Item(text=state.path, refs=(state.ref,), value=value)


def error_items(reading: Reading) -> list[Item]:
    """What failed in the span, since the user's last words and not long ago, and was not done again
    since, the newest first: each command line and each file by itself. Earlier failures stand in
    the lines of their calls, where also what followed stands."""
    asked = max((one.seq for one in reading.window if one.is_request), default=0)
    recent = {one.ref for one in reading.ledger.entries[-MOST_SINCE:] if int(one.ref[1:]) >= asked}
    found = [
        one
        for one in reading.ledger.failures
        if one.entry.ref in recent and reading.is_in_span(one.entry.ref)
    ]
    return [_failure_item(one) for one in found[:MOST_LINES]]


def _failure_item(failure: Failure) -> Item:
    """A failure as a line tells it, with the lines of its result that say why."""
    entry = failure.entry
    is_run = entry.action.kind == "run"
    target = entry.action.target
    line = command_line_of(last_line_of(target), 50)
    what = line if is_run else f"{entry.call.name} {first_line(target)}".strip()
    found = causes_of(entry.result) if entry.result is not None and entry.ending == "failed" else ()
    value = AccountValue(
        kind="failure",
        status=entry.ending,
        more=shorten("; ".join(one for one in found if one not in target), SHORTEST_PREVIEW),
        times=failure.times,
        key=entry.form,
    )
    return Item(text=what, refs=_refs_of(entry), value=value)

"""Reads how things stand at the end of a span, and what was done to get there."""

from __future__ import annotations

from collections.abc import Iterator

from mcp_compaction.core.digest.reading import Reading, short
from mcp_compaction.core.log.commands import command_line_of, program_of
from mcp_compaction.core.log.endings import causes_of, ending_of, is_run_of_tests
from mcp_compaction.core.log.ledger import CHANGED, CallEntry, FileState
from mcp_compaction.core.log.tasks import read_tasks
from mcp_compaction.core.log.tool_calls import is_background
from mcp_compaction.core.text.paths import is_inside
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.words import first_line
from mcp_compaction.model import AccountValue, Item

_MOST_RUNS = 3
_MOST_UNKNOWN = 8
MOST_CHANGED = 2  # files named as changed since a run of tests; DONE names them all
_BRANCH = pattern_of(r"^\s*On branch (\S+)|^Switched to (?:a new )?branch '([^']+)'")
_JOB = pattern_of(r"\b(?:id|ID|pid|PID)\b\W{1,4}([\w-]{3,64})")


def state_items(reading: Reading) -> list[Item]:
    """How things stand: test runs, the repository, what runs."""
    return [*_test_runs(reading), *_repository(reading), *_jobs(reading)]


def _test_runs(reading: Reading) -> Iterator[Item]:
    """The last result of each program that tests or builds, and what was changed after it; none
    where a later run of it did not say how it ended."""
    last: dict[str, CallEntry] = {}
    for entry in reading.ledger.entries:
        if entry.action.kind == "run" and entry.ending != "refused":
            program = f"{program_of(entry.action.target)}{reading.where(entry)}"
            last.pop(program, None)
            result = entry.result if entry.ending in ("done", "failed") else None
            if result is not None and is_run_of_tests(result):
                last[program] = entry
    for entry in [*last.values()][: -_MOST_RUNS - 1 : -1]:
        assert entry.result is not None
        cause = causes_of(entry.result)[:1] if entry.ending == "failed" else ()
        changed = _changed_after(reading, entry)[-MOST_CHANGED:]
        value = AccountValue(
            kind="tests",
            status=ending_of(entry.result),
            more="".join(short(one, 120) for one in cause),
            since=tuple(state.path.rpartition("/")[2] for state in changed),
            key=program_of(entry.action.target),
        )
        refs = (entry.ref, entry.result_ref, *(state.ref for state in changed))
        line = f"{command_line_of(entry.action.target)}{reading.where(entry)}"
        yield Item(text=line, refs=tuple(dict.fromkeys(refs)), value=value)


def _changed_after(reading: Reading, entry: CallEntry) -> list[FileState]:
    after = int(entry.result_ref[1:])
    return [
        state
        for state in reading.ledger.files.values()
        if state.word in CHANGED
        and int(state.ref[1:]) > after
        and _may_be_in(state.path, entry.folder)
    ]


def _may_be_in(path: str, folder: str) -> bool:
    return not folder or not path.startswith("/") or is_inside(path, folder)


def _repository(reading: Reading) -> Iterator[Item]:
    """The last commit with its branch, or else the branch."""
    if reading.ledger.commits:
        commit = reading.ledger.commits[-1]
        value = AccountValue(kind="commit", status=commit.id, more=commit.branch)
        yield Item(text=short(commit.subject, 100), refs=(commit.ref,), value=value)
        return
    branch, where = "", ""
    for entry in reading.ledger.entries:
        text = entry.result.text[:400] if entry.result else ""
        if "git" in entry.action.target and (found := _BRANCH.search(text)):
            branch, where = next(filter(None, found.groups())), entry.result_ref
    if branch:
        yield Item(text=branch, refs=(where,), value=AccountValue(kind="label", status="branch"))


def _jobs(reading: Reading) -> Iterator[Item]:
    """What was started in the background and no later call speaks of, the newest first."""
    entries = reading.ledger.entries
    for place in range(len(entries) - 1, -1, -1):
        entry = entries[place]
        if not is_background(entry.call) or entry.ending not in ("done", "running"):
            continue
        named = _JOB.search(entry.result.text[:2_000]) if entry.result is not None else None
        later = (str(one.call.arguments) for one in entries[place + 1 :])
        if named is None or not any(named[1] in told for told in later):
            what = first_line(entry.action.target) or entry.call.name
            refs = tuple(dict.fromkeys((entry.ref, entry.result_ref)))
            yield Item(text=what, refs=refs, value=AccountValue(kind="job"))


def done_items(reading: Reading) -> list[Item]:
    """What was done: commits, how files stand, tasks closed."""
    commits = [
        Item(
            text=short(commit.subject, 120),
            refs=(commit.ref,),
            value=AccountValue(kind="commit", status=commit.id),
        )
        for commit in reversed(reading.ledger.commits)
        if reading.is_in_span(commit.ref)
    ]
    done = AccountValue(kind="request", status="done")
    closed = [
        Item(text=entry.task.text, refs=(entry.ref,), value=done)
        for entry in read_tasks(reading.messages).entries
        if entry.task.state == "done"
    ]
    return [*commits[:2], *_file_items(reading), *closed, *commits[2:]]


def _file_items(reading: Reading) -> Iterator[Item]:
    """How each file stands that was changed in the span, the newest first; in the newest digest
    then those that steps after the span changed, until a digest of theirs tells of them."""
    newest_first = [s for s in reversed(reading.ledger.files.values()) if s.word != "read"]
    in_span = [state for state in newest_first if reading.is_in_span(state.ref)]
    later = newest_first if reading.request.is_newest else []
    later = [state for state in later if int(state.ref[1:]) > reading.request.last]
    yield from (_file_item(state) for state in in_span if state.word != "unknown")
    unknown = [s for s in (*in_span, *later) if s.word == "unknown"][:_MOST_UNKNOWN]
    if unknown:
        state = unknown[0]
        since = f"{state.ref}{f' ({state.note})' if state.note else ''}"
        yield Item(
            text=", ".join(state.path for state in unknown),
            refs=tuple(dict.fromkeys(state.known_at for state in unknown)),
            value=AccountValue(kind="file", status="unknown", more=since),
        )
    yield from (_file_item(s) for s in later if s.word != "unknown" and s.has_ended)


def _file_item(state: FileState) -> Item:
    value = AccountValue(kind="file", status=state.word, more=state.note)
    return Item(text=state.path, refs=(state.ref,), value=value)

"""Reads how things stand at the end of a span, and what was done to get there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from mcp_compaction.core.digest.reading import Reading, Speech, short
from mcp_compaction.core.digest.wishes import closing_speeches, is_rejection
from mcp_compaction.core.log.failures import causes_of, ending_of, is_run_of_tests
from mcp_compaction.core.log.families import command_line_of, family_of, is_search
from mcp_compaction.core.log.ledger import (
    CHANGED,
    CallEntry,
    Commit,
    FileState,
    may_be_one_place,
)
from mcp_compaction.core.log.shell import parts_of
from mcp_compaction.core.log.tasks.jobs import running_jobs
from mcp_compaction.core.log.tasks.plans import read_tasks
from mcp_compaction.core.text.paths import is_inside
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.sentences import Sentence
from mcp_compaction.core.text.signs import find_sign
from mcp_compaction.core.text.words import shorten, telling_words
from mcp_compaction.model import Item

_MOST_RUNS = 3
_FIRST_COMMITS = 2
_MOST_FILES_NAMED = 4
_MOST_NAMED_SINCE_TESTS = 2  # DONE names them all
_MOST_COMMANDS = 6
_MOST_CLAIMS = 6
_MOST_TAKEN_BACK = 40
_MOST_UNKNOWN = 8
_BRANCH = pattern_of(r"^\s*On branch (\S+)|^Switched to (?:a new )?branch '([^']+)'")
_REVERTS = pattern_of(r'Revert "(.+)"$')
_CLEAN = pattern_of(r"nothing to commit, working tree clean")


def state_items(reading: Reading) -> list[Item]:
    """How things stand: test runs, the repository, what runs, the folder, the last edit."""
    request = reading.request
    return [
        *_test_runs(reading),
        *_repository(reading),
        *running_jobs((*request.earlier, *request.messages, *request.later)),
        *_folder(reading),
        *_last_edit(reading),
    ]


def _test_runs(reading: Reading) -> Iterator[Item]:
    """The last result of each kind of test or build, and what was changed after it; none where a
    later run of the kind did not say how it ended."""
    last: dict[str, dict[str, CallEntry]] = {}  # by family and folder
    for entry in reading.window.entries:
        if entry.action.kind != "run" or entry.ending == "refused":
            continue
        runs = last.setdefault(family_of(entry.action.target), {})
        for folder in [one for one in runs if may_be_one_place(one, entry.folder)]:
            del runs[folder]
        result = entry.result if entry.ending in ("done", "failed") else None
        if result is not None and is_run_of_tests(result):
            runs[entry.folder] = entry
        if len(runs) > _MOST_RUNS:
            del runs[next(iter(runs))]
    told_runs = [entry for runs in last.values() for entry in runs.values()]
    told_runs.sort(key=lambda entry: int(entry.ref[1:]), reverse=True)
    for entry in told_runs[:_MOST_RUNS]:
        assert entry.result is not None
        cause = causes_of(entry.result)[:1] if entry.ending == "failed" else ()
        told = f"{ending_of(entry.result)}{''.join(f' ({short(c, 120)})' for c in cause)}"
        since = _changed_since(reading, entry)
        command = f"{command_line_of(entry.action.target)}{entry.where}"
        text = f"tests: {told}, at {command}{f'; changed since: {since}' if since else ''}"
        refs = tuple(dict.fromkeys((entry.ref, entry.result_ref)))
        yield Item(text=text, refs=(*refs, *_refs_of_changes(reading, entry)))


def _changes_after(reading: Reading, entry: CallEntry) -> list[tuple[str, str]]:
    after = int(entry.result_ref[1:])
    return [
        (state.path, state.ref)
        for state in reading.window.files.values()
        if state.word in CHANGED
        and int(state.ref[1:]) > after
        and _may_be_in(state.path, entry.folder)
    ]


def _may_be_in(path: str, folder: str) -> bool:
    return not folder or not path.startswith("/") or is_inside(path, folder)


def _changed_since(reading: Reading, entry: CallEntry) -> str:
    names = [path.rpartition("/")[2] for path, _ in _changes_after(reading, entry)]
    more = len(names) - _MOST_NAMED_SINCE_TESTS
    shown = ", ".join(names[-_MOST_NAMED_SINCE_TESTS:])
    return f"{shown} and {more} more" if more > 0 else shown


def _refs_of_changes(reading: Reading, entry: CallEntry) -> tuple[str, ...]:
    refs = [ref for _, ref in _changes_after(reading, entry)][-_MOST_NAMED_SINCE_TESTS:]
    return tuple(dict.fromkeys(refs))


def _repository(reading: Reading) -> Iterator[Item]:
    """The branch and the last commit, and the files changed since."""
    branch, where = "", ""
    for entry in reading.window.entries:
        text = entry.result.text[:400] if entry.result else ""
        if "git" in entry.action.target and (found := _BRANCH.search(text)):
            branch, where = next(filter(None, found.groups())), entry.result_ref
    commit: Commit | None = reading.window.commits[-1] if reading.window.commits else None
    if commit is not None:
        line = f"last commit: {commit.id} {short(commit.subject, 100)}, on {commit.branch}"
        yield Item(text=line, refs=(commit.ref,))
        left = [
            state
            for state in reading.window.files.values()
            if state.word in CHANGED and int(state.ref[1:]) > int(commit.ref[1:])
        ][-_MOST_FILES_NAMED:]
        if left and not _is_clean_since(reading, commit):
            named = ", ".join(state.path for state in left)
            refs = tuple(dict.fromkeys(state.ref for state in left))
            yield Item(text=f"changed since that commit: {named}", refs=refs)
    elif branch:
        yield Item(text=f"branch: {branch}", refs=(where,))


def _is_clean_since(reading: Reading, commit: Commit) -> bool:
    return any(
        int(entry.ref[1:]) > int(commit.ref[1:])
        and entry.result is not None
        and bool(_CLEAN.search(entry.result.text[-400:]))
        for entry in reading.window.entries
    )


def _folder(reading: Reading) -> Iterator[Item]:
    """The folder that commands last went to, where they do so again and again."""
    last, ref, times = "", "", 0
    for entry in reading.window.entries:
        if entry.action.kind != "run" or "cd " not in entry.action.target[:300]:
            continue
        parts = parts_of(entry.action.target[:300])
        folder = parts[-1].folder if parts else ""
        if folder.startswith(("/", "~")):
            times = times + 1 if folder == last else 1
            last, ref = folder, entry.ref
    if times > 1:
        yield Item(text=f"folder: {last}", refs=(ref,))


def _last_edit(reading: Reading) -> Iterator[Item]:
    """The lines that were last put into a file, where a call says them."""
    for entry in reversed(reading.ledger.entries):
        if entry.action.kind == "edit" and entry.ending == "done":
            new = entry.call.arguments.get("new_string", entry.call.arguments.get("new_str"))
            if isinstance(new, str) and new.strip() and reading.is_in_span(entry.ref):
                text = f"last edit of {entry.action.target}: {shorten(new, 200)}"
                yield Item(text=text, refs=(entry.ref,))
            return


def done_items(reading: Reading) -> list[Item]:
    """What was done: commits, tasks closed, how files stand, what was said to be reached."""
    commits = [
        Item(text=f"commit {commit.id}: {short(commit.subject, 120)}", refs=(commit.ref,))
        for commit in _standing_commits(reading.ledger.commits)
        if reading.is_in_span(commit.ref)
    ]
    closed = [
        Item(text=f"done: {entry.task.text}", refs=(entry.ref,))
        for entry in read_tasks(reading.messages).entries
        if entry.task.state == "done"
    ]
    first, more = commits[:_FIRST_COMMITS], commits[_FIRST_COMMITS:]
    # In plain talk all tell what they did; passages tell it better.
    claims = () if reading.is_talk else _claims(reading)
    rest = [*closed, *more, *claims, *_commands(reading)]
    return [*first, *_file_items(reading), *rest]


def _standing_commits(commits: Sequence[Commit]) -> Sequence[Commit]:
    """The commits that no later one reverted, the newest first; where two have the subject that a
    revert names, nobody knows which is meant."""
    standing: dict[str, Commit] = {}
    by_subject: dict[str, list[str]] = {}
    for commit in commits:
        reverts = _REVERTS.match(commit.subject)
        meant = by_subject.get(reverts[1], []) if reverts else []
        if len(meant) == 1:
            standing.pop(meant.pop(), None)
        standing[commit.id] = commit
        by_subject.setdefault(commit.subject, []).append(commit.id)
    return list(standing.values())[::-1]


def _file_items(reading: Reading) -> Iterator[Item]:
    """How each file stands that was changed in the span, the newest first; in the newest digest
    then those that steps after the span changed, until a digest of theirs tells of them."""
    newest_first = [s for s in reversed(reading.ledger.files.values()) if s.word != "read"]
    in_span = [state for state in newest_first if _is_named_in_span(reading, state)]
    unknown = [state for state in in_span if state.word == "unknown"]
    for state in in_span:
        if state.word != "unknown":
            yield Item(text=f"{state.path} {state.text}", refs=(state.ref,))
    if unknown:
        named = ", ".join(state.path for state in unknown[:_MOST_UNKNOWN])
        refs = tuple(dict.fromkeys(state.known_at for state in unknown[:_MOST_UNKNOWN]))
        yield Item(text=f"{unknown[0].text}: {named}", refs=refs)
    for state in newest_first if reading.request.is_newest else ():
        if state not in in_span and state.word != "unknown" and state.has_ended:
            yield Item(text=f"{state.path} {state.text}", refs=(state.ref,))


def _is_named_in_span(reading: Reading, state: FileState) -> bool:
    """Whether the span names a file that was changed there, or later if no digest follows."""
    if reading.is_in_span(state.ref) or not reading.request.is_newest:
        return reading.is_in_span(state.ref)
    name = state.path.rpartition("/")[2]
    return any(name in entry.action.target for entry in reading.entries)


def _claims(reading: Reading) -> Iterator[Item]:
    """What an assistant said it had reached, unless that was taken back since."""
    said = [*reading.said, *reading.said_later]
    taken_back = [
        (one.message.seq, frozenset(telling_words(sentence.text)))
        for one in said
        for sentence in one.sentences
        if find_sign("takes-back", sentence) is not None
    ][-_MOST_TAKEN_BACK:]
    following = {one.message.seq: after for one, after in pairwise(said)}
    found: list[Item] = []
    for one in closing_speeches(reversed(reading.said)):
        if len(found) >= _MOST_CLAIMS:
            break
        if _is_rejected_by(following.get(one.message.seq)):
            continue
        claim = next(filter(_tells_a_deed, one.sentences), None)
        if claim is not None and not reading.is_outdated(claim.text, one.message):
            words = frozenset(telling_words(claim.text))
            later = (told for seq, told in taken_back if seq > one.message.seq)
            if not any(len(words & told) > 1 for told in later):
                found.append(Item(text=short(claim.text), refs=(one.message.ref,)))
    yield from found


def _tells_a_deed(sentence: Sentence) -> bool:
    is_told = find_sign("deed", sentence, by_user=False) is not None
    return is_told and not sentence.text.endswith((":", "?"))


def _is_rejected_by(following: Speech | None) -> bool:
    return (
        following is not None
        and following.message.role == "user"
        and any(map(is_rejection, following.sentences))
    )


def _commands(reading: Reading) -> Iterator[Item]:
    """How other commands ended that said so, the newest first."""
    last: dict[str, Item] = {}
    for entry in reading.entries:
        if entry.action.kind != "run" or entry.result is None or entry.ending != "done":
            continue
        how = ending_of(entry.result)
        if how and not is_run_of_tests(entry.result) and not is_search(entry.action.target):
            command = f"{command_line_of(entry.action.target)}{entry.where}"
            last.pop(command, None)
            refs = tuple(dict.fromkeys((entry.ref, entry.result_ref)))
            last[command] = Item(text=f"ran {command}: {how}", refs=refs)
    yield from list(reversed(last.values()))[:_MOST_COMMANDS]

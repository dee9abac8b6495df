"""Reads what calls came to: how things stand, what was done, what failed, what was found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import islice

from mcp_compaction.core.digest.reading import MOST_LINES, Reading, short
from mcp_compaction.core.digest.render import FOUND_NOTHING
from mcp_compaction.core.limits import LONGEST_ANSWER
from mcp_compaction.core.log.commands import command_line_of, is_search, program_of
from mcp_compaction.core.log.content import words_of
from mcp_compaction.core.log.endings import (
    causes_of,
    ending_of,
    has_not_begun,
    is_run_of_tests,
    telling_lines,
)
from mcp_compaction.core.log.findings import used_lines
from mcp_compaction.core.log.ledger import CHANGED, CallEntry, Failure, FileState, Ledger
from mcp_compaction.core.log.tasks import read_tasks
from mcp_compaction.core.text.all_languages import part_in_all
from mcp_compaction.core.text.injection import is_planted
from mcp_compaction.core.text.rules import find_rules
from mcp_compaction.core.text.words import first_line, fold
from mcp_compaction.lexicon.tools import answer_of_an_empty_search
from mcp_compaction.model import AccountValue, Item


def state_items(reading: Reading) -> Iterator[Item]:
    """How things stand: the last result of each program that tests or builds, and the last
    commit."""
    last: dict[str, CallEntry] = {}
    for entry in reading.ledger.entries:
        if entry.action.kind == "run" and entry.ending != "refused":
            program = program_of(entry.action.target)
            last.pop(program, None)  # also where the later run did not say how it ended
            result = entry.result if entry.ending in ("done", "failed") else None
            if result is not None and is_run_of_tests(result):
                last[program] = entry
    for program, entry in islice(reversed(last.items()), MOST_LINES):
        assert entry.result is not None
        cause = causes_of(entry.result)[:1] if entry.ending == "failed" else ()
        value = AccountValue(
            kind="tests", status=ending_of(entry.result), more="".join(cause), key=program
        )
        item = Item(text=command_line_of(entry.action.target), refs=_refs_of(entry), value=value)
        yield with_change(item, changed_after(reading.ledger, int(entry.result_ref[1:])))
    for commit in reading.ledger.commits[-1:]:
        value = AccountValue(kind="commit", status=commit.id, more=commit.branch)
        yield Item(text=short(commit.subject), refs=(commit.ref,), value=value)


def _refs_of(entry: CallEntry) -> tuple[str, ...]:
    return tuple(dict.fromkeys((entry.ref, entry.result_ref)))


def changed_after(ledger: Ledger, seq: int) -> FileState | None:
    """The file that was changed last, where that was after a message."""
    changed = [state for state in ledger.files.values() if state.word in CHANGED]
    return changed[-1] if changed and int(changed[-1].ref[1:]) > seq else None


def with_change(item: Item, changed: FileState | None) -> Item:
    """A run of tests, with the file that was changed after it."""
    if changed is None or item.value is None or item.value.since:
        return item
    value = item.value.model_copy(update={"since": (changed.path.rpartition("/")[2],)})
    refs = tuple(dict.fromkeys((*item.refs, changed.ref)))
    return item.model_copy(update={"value": value, "refs": refs})


def done_items(reading: Reading) -> list[Item]:
    """What was done: how files stand, tasks closed, commits."""
    closed = [
        Item(
            text=entry.task.text,
            refs=(entry.ref,),
            value=AccountValue(kind="request", status="done"),
        )
        for entry in read_tasks(reading.messages).entries
        if entry.task.state == "done"
    ]
    commits = [
        Item(
            text=short(commit.subject),
            refs=(commit.ref,),
            value=AccountValue(kind="commit", status=commit.id),
        )
        for commit in reversed(reading.ledger.commits)
        if reading.is_in_span(commit.ref)
    ]
    return [*_file_items(reading), *closed, *commits]


def _file_items(reading: Reading) -> Iterator[Item]:
    """How each file stands that was changed in the span, the newest first; in the newest digest
    then those that steps after the span changed, until a digest of theirs tells of them."""
    newest_first = [s for s in reversed(reading.ledger.files.values()) if s.word != "read"]
    in_span = [state for state in newest_first if reading.is_in_span(state.ref)]
    later = newest_first if reading.request.is_newest else []
    later = [state for state in later if int(state.ref[1:]) > reading.request.last]
    yield from (_file_item(state) for state in in_span if state.word != "unknown")
    unknown = [s for s in (*in_span, *later) if s.word == "unknown"][:MOST_LINES]
    if unknown:
        first = unknown[0]
        yield Item(
            text=", ".join(state.path for state in unknown),
            refs=tuple(dict.fromkeys(state.known_at for state in unknown)),
            value=AccountValue(kind="file", status="unknown", more=first.note, since=(first.ref,)),
        )
    yield from (_file_item(s) for s in later if s.word != "unknown" and s.has_ended)


def _file_item(state: FileState) -> Item:
    value = AccountValue(kind="file", status=state.word, more=state.note)
    return Item(text=state.path, refs=(state.ref,), value=value)


def error_items(reading: Reading) -> list[Item]:
    """What failed in the span and was not done again since, the newest first: each command line
    and each file by itself."""
    found = [one for one in reading.ledger.failures if reading.is_in_span(one.entry.ref)]
    return [failure_item(one, reading) for one in found[:MOST_LINES]]


def failure_item(failure: Failure, reading: Reading) -> Item:
    """A failure as a line tells it, with its cause: of its result, and as the agent said next."""
    entry = failure.entry
    is_run = entry.action.kind == "run"
    target = entry.action.target
    what = (
        command_line_of(target, 50) if is_run else f"{entry.call.name} {first_line(target)}".strip()
    )
    found = causes_of(entry.result) if entry.result is not None and entry.ending == "failed" else ()
    cause, refs = _cause_said(entry, reading)
    value = AccountValue(
        kind="failure",
        status=entry.ending,
        more="; ".join(dict.fromkeys(filter(None, (short("; ".join(found)), cause)))),
        times=failure.times,
        key=entry.form,
    )
    return Item(text=what, refs=(*_refs_of(entry), *refs), value=value)


def _cause_said(entry: CallEntry, reading: Reading) -> tuple[str, tuple[str, ...]]:
    """The sentence in which the agent's next words name the cause of a failure, with its ref."""
    after = (one for one in reading.said if one.message.seq > int(entry.result_ref[1:]))
    one = next((one for one in after if one.message.role == "assistant"), None)
    for sentence in one.sentences if one is not None else ():
        if one is not None and part_in_all("tells_cause").match(sentence.bare):
            return short(sentence.text), (one.message.ref,)
    return "", ()


def fact_items(reading: Reading) -> list[Item]:
    """The lines of results that were used most lately, and what was not found."""
    lines = used_lines(reading.window)
    told = {fold(line.text): line for line in lines if reading.is_in_span(line.ref)}
    ranked = sorted(told.values(), key=lambda one: -one.last_use)
    # A tool's words bind nobody.
    unbound = (line for line in ranked if not is_planted(line.text) and not find_rules(line.text))
    found = (Item(text=one.text, refs=(one.ref,)) for one in unbound)
    return [*islice(found, MOST_LINES), *islice(_not_found(reading), MOST_LINES)]


def _not_found(reading: Reading) -> Iterator[Item]:
    """The searches that found nothing when they were last made, the newest first."""
    last = {key_of_search(entry): entry for entry in reading.ledger.entries}
    for key, entry in reversed(last.items()):
        if reading.is_in_span(entry.ref) and _has_found_nothing(entry):
            is_line = entry.action.kind == "run"
            what = entry.action.target if is_line else words_of(entry.call)
            value = AccountValue(kind="failure", status=FOUND_NOTHING, key=key)
            yield Item(text=command_line_of(what), refs=_refs_of(entry), value=value)


def key_of_search(entry: CallEntry) -> str:
    """What two calls have in common that look for the same."""
    return entry.form if entry.action.kind == "run" else f"{entry.form} {words_of(entry.call)}"


def _has_found_nothing(entry: CallEntry) -> bool:
    if entry.result is None or entry.result.has_media or entry.ending not in ("done", "failed"):
        return False
    lines = telling_lines(entry.result.text[:LONGEST_ANSWER])
    if entry.action.kind == "run":
        is_silent = all(map(_empty_answer().fullmatch, lines)) and not has_not_begun(entry.result)
        return is_silent and is_search(entry.action.target, by_output=True)
    answer = "\n".join(lines)
    return entry.action.kind == "other" and bool(_empty_answer().fullmatch(answer))


@cache
def _empty_answer() -> re.Pattern[str]:
    return re.compile(answer_of_an_empty_search())

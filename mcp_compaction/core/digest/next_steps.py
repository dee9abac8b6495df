"""Reads what comes next, from the last turns only: the request in work, what fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mcp_compaction.core.digest.learned import failure_item
from mcp_compaction.core.digest.reading import Reading, Speech, short
from mcp_compaction.core.digest.requests import request_in_force
from mcp_compaction.core.log.content import words_of
from mcp_compaction.core.log.identifiers import find_identifiers
from mcp_compaction.core.log.tasks import TaskEntry, read_tasks
from mcp_compaction.core.log.used_names import is_of_library
from mcp_compaction.core.text.patterns import FENCED
from mcp_compaction.model import AccountValue, Item

_LAST_MESSAGES = 10
_MOST_FILES = 6


def next_items(reading: Reading) -> list[Item]:
    """What is in work, what of it nobody has touched, and what just failed."""
    since = reading.end - _LAST_MESSAGES
    newest = reading.ledger.failures[:1]
    failing = [failure_item(f, reading) for f in newest if int(f.entry.result_ref[1:]) > since]
    ahead = [*_in_work(reading), *failing]
    return ahead or [*_end_of_turn(reading)]


def _end_of_turn(reading: Reading) -> Iterator[Item]:
    """That the user is to speak, where closing words end the window and no task is open."""
    said = (*reading.said, *reading.said_later)
    last = said[-1].message if said else None
    is_open = any(name == "OPEN" for name, _ in reading.request.must_keep)
    if last is None or last.role != "assistant" or last.calls or last.seq != reading.end:
        return
    if not is_open:
        yield _labelled("the turn is over", "the user speaks next", last.ref)


def _in_work(reading: Reading) -> Iterator[Item]:
    """Of the request that no closing words have ended, and that stands in the window itself: the
    task of its plan that is at hand, and the files it names that nobody touched."""
    asked = request_in_force(reading)
    if asked is None:
        return
    after = [m for m in (*reading.messages, *reading.later) if m.seq > asked.message.seq]
    if any(m.role == "assistant" and m.text and not m.calls for m in after):
        return
    task = _task_at_hand(read_tasks(after).entries)
    if task is not None:
        yield _labelled("finish", short(task.task.text, 140), task.ref)
    if left := _untouched_files(asked, reading):
        text = ", ".join(left[:_MOST_FILES])
        yield _labelled("named in the request, not touched so far", text, asked.message.ref)


def _task_at_hand(planned: Sequence[TaskEntry]) -> TaskEntry | None:
    """The task that somebody works on, or else the first that is open."""
    left = [entry for entry in planned if not entry.task.is_closed]
    return next((e for e in left if e.task.state == "active"), next(iter(left), None))


def _untouched_files(asked: Speech, reading: Reading) -> list[str]:
    """The files that a request names and no call touched, before it or since; none before the
    first call after it."""
    messages = (*reading.messages, *reading.later)
    if not any(m.calls for m in messages if m.seq > asked.message.seq):
        return []
    found = find_identifiers(FENCED.sub("", asked.text))
    files = dict.fromkeys(f.text.removeprefix("@") for f in found if f.kind == "file")
    touched = "\n".join(
        words_of(part)
        for m in messages
        for part in (m.parts if m.seq > asked.message.seq else m.calls)
    )
    return [n for n in files if not is_of_library(n) and n.rpartition("/")[2] not in touched]


def _labelled(label: str, text: str, ref: str) -> Item:
    return Item(text=text, refs=(ref,), value=AccountValue(kind="label", status=label))

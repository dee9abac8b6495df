"""Reads the tasks that the calls which write plans leave standing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mcp_compaction.core.log.recent import read_recent_once
from mcp_compaction.core.log.tool_calls import (
    Task,
    is_plan,
    is_task,
    shown_checklist_of,
    task_change_of,
    tasks_of,
)
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.model import Message, ToolCall, Value

_MOST_CHARS, _OPENING = 4_000, 400  # of an answer: a whole plan, or what a task is called


class TaskEntry(Value):
    """A task as it stands, and the message it was planned in."""

    ref: str
    task: Task
    is_single: bool = False  # its tool handles tasks one by one: no plan settles it


class TaskList(Value):
    """The tasks that stand: of the newest plan written whole, and those kept one by one."""

    plan: str = ""  # the ref of the newest plan written whole
    entries: tuple[TaskEntry, ...] = ()


def read_tasks(messages: Iterable[Message]) -> TaskList:
    """The tasks that stand at the end of some messages, by the calls that write plans and tasks."""
    return _read_calls(m for m in messages if m.calls or m.results)


@read_recent_once
def _read_calls(messages: Sequence[Message]) -> TaskList:
    plan = ""
    entries: dict[str, TaskEntry] = {}
    answers: dict[tuple[str, str], _Answer] | None = None
    for message in messages:
        for call in message.calls:
            if is_plan(call):
                if answers is None and not tasks_of(call):
                    answers = _answers_by_call(messages)
                shown = (answers or {}).get((message.ref, call.id), _Answer(message.ref, ""))
                written = tasks_of(call) or shown_checklist_of(shown.text[:_MOST_CHARS])
                if not written:
                    continue
                plan = message.ref if tasks_of(call) else shown.ref
                entries = {key: entry for key, entry in entries.items() if entry.is_single}
                entries |= {f"plan {n}": TaskEntry(ref=plan, task=t) for n, t in enumerate(written)}
            elif is_task(call):
                if answers is None:
                    answers = _answers_by_call(messages)
                answer = answers.get((message.ref, call.id), _Answer(message.ref, ""))
                _apply_change(entries, message.ref, call, answer.text[:_OPENING])
    return TaskList(plan=plan, entries=tuple(entries.values()))


_NUMBER = pattern_of(r"#(\d{1,6})\b|\"?\b(?:task_?)?id\"?[ :=]{1,3}\"?([\w-]{1,40})", re.I)


class _Answer(NamedTuple):
    """The message that answers a call, and what it says."""

    ref: str
    text: str


def _answers_by_call(messages: Sequence[Message]) -> dict[tuple[str, str], _Answer]:
    """The answer to each call, by the message that made it."""
    made: dict[str, str] = {}
    found: dict[tuple[str, str], _Answer] = {}
    for message in messages:
        for result in message.results:
            if result.call in made:
                found[made[result.call], result.call] = _Answer(message.ref, result.text)
        for call in message.calls:
            made[call.id] = message.ref
    return found


def _apply_change(entries: dict[str, TaskEntry], ref: str, call: ToolCall, answer: str) -> None:
    change = task_change_of(call)
    number = change.id
    if not number:  # only the answer says what a new task is called
        named = _NUMBER.search(answer)
        number = next(filter(None, named.groups()), "") if named else ""
    key = f"task {number}" if number else f"unnumbered {ref} {call.id}"
    old = entries.get(key)
    text = change.text or (old.task.text if old else "")
    state = change.state or (old.task.state if old else "open")
    if text:
        known = old.ref if old else ref
        task = Task(text=text, state=state, id=number)
        entries[key] = TaskEntry(ref=known, task=task, is_single=True)

"""Reads the tasks of a session from the calls that write plans and tasks, and close them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from mcp_compaction.core.limits import LONGEST_SENTENCE
from mcp_compaction.core.log.recent import read_recent_once
from mcp_compaction.core.log.tool_calls import (
    CLOSED,
    Task,
    answers_of,
    is_plan,
    is_task,
    task_change_of,
    tasks_of,
)
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.model import Item, Message, ToolCall, Value


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
    calls = [(m.ref, call) for m in messages for call in m.calls if is_plan(call) or is_task(call)]
    answers = answers_of(messages) if calls else {}
    for ref, call in calls:
        answer = answers.get((ref, call.id))
        if is_task(call):
            said = answer[1].text if answer else ""
            _apply_change(entries, ref, call, said[:LONGEST_SENTENCE])
        elif written := tasks_of(call):
            plan = ref
            entries = {key: entry for key, entry in entries.items() if entry.is_single}
            entries |= {f"plan {n}": TaskEntry(ref=plan, task=t) for n, t in enumerate(written)}
    return TaskList(plan=plan, entries=tuple(entries.values()))


_NUMBER = pattern_of(r"#(\d{1,6})\b|\"?\b(?:task_?)?id\"?[ :=]{1,3}\"?([\w-]{1,40})", re.I)


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


def unfinished_tasks(items: Sequence[Item], later: Sequence[Message]) -> tuple[Item, ...]:
    """The open tasks that no later call closes, by the number that a tool gave them."""
    changes = (task_change_of(call) for m in later for call in m.calls if is_task(call))
    closed = {c.id: c.state in CLOSED for c in changes if c.id and c.state is not None}
    return tuple(item for item in items if not closed.get(_number_of(item)))


def _number_of(item: Item) -> str:
    """The number that a tool gave a task."""
    return item.value.key if item.value is not None and item.value.kind == "task" else ""

"""Reads what a tool call does from its name and arguments: read, run, plan, start an agent. Tells
the tasks that stand by the calls that plan and close them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Literal, NamedTuple, cast

from mcp_compaction.core.limits import LONGEST_LINE, LONGEST_SENTENCE
from mcp_compaction.core.log.content import compact_json
from mcp_compaction.core.reading import read_recent_once
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.lexicon.tools import TaskState, ToolKind, known_tools
from mcp_compaction.model import Item, JsonObject, JsonValue, Message, ToolCall, ToolResult, Value

ActionKind = ToolKind | Literal["other"]

_EDITOR_COMMANDS: dict[str, ActionKind] = {"view": "read", "create": "write"}
_CLOSES = {"completetask", "taskcomplete"}
_PATH_KEYS = ("file_path", "path", "filename", "file", "absolute_path", "notebook_path", "uri")
_COMMAND_KEYS = ("command", "cmd", "script", "code")
_LABEL = pattern_of(r"^(?:file_)?path: ")  # some transcripts repeat the key in the value
_AGENT_KEYS = ("description", "title", "name", "prompt", "task", "message", "instructions")
_TASK_KEYS = ("content", "step", "subject", "title", "text", "task", "name", "description")
_RANGE_KEYS = ("offset", "limit", "start_line", "end_line", "view_range", "start", "end", "pages")
_ID_KEYS = ("taskId", "task_id", "id", "todo_id", "number")

CLOSED: tuple[TaskState, ...] = ("done", "dropped")
_CHECKBOX = pattern_of(r"^[ \t]*(?:(?:[-*+]|\d+[.)])[ \t]+\[(.)\]|([☐☑☒◻◼◐]))[ \t]+(\S.*)$", re.M)


class Action(NamedTuple):
    """What a call does: its kind, and the path or command it is done to."""

    kind: ActionKind
    target: str = ""
    detail: str = ""  # what else tells two calls apart, such as a line range

    @property
    def line(self) -> str:
        """The first line of a command, as it is indexed and shown."""
        return self.target.strip().split("\n", 1)[0][:LONGEST_LINE]


class Task(Value):
    """One entry of a plan or todo list."""

    text: str
    state: TaskState
    id: str = ""  # what its tool calls it, where tasks are changed one by one

    @property
    def is_closed(self) -> bool:
        """Whether nothing is left to do."""
        return self.state in CLOSED


class TaskChange(Value):
    """What a call does to one task; what it does not say stays as it was."""

    id: str = ""
    text: str = ""
    state: TaskState | None = None


def action_of(call: ToolCall) -> Action:
    """The action of a call: its kind, and what it is done to."""
    kind = _kind_of(call.name)
    match kind:
        case "recall" | "plan" | "task" | "submit":
            return Action(kind)
        case "agent":
            return Action(kind, _argument_of(call, _AGENT_KEYS))
        case "run":
            return Action(kind, _argument_of(call, _COMMAND_KEYS))
        case "edit":
            kind = _EDITOR_COMMANDS.get(str(call.arguments.get("command")), kind)
        case _:
            pass
    path = _LABEL.sub("", _argument_of(call, _PATH_KEYS)).strip('"')
    given = {k: call.arguments[k] for k in _RANGE_KEYS if call.arguments.get(k) is not None}
    return Action(kind, path, compact_json(given) if given and kind == "read" else "")


@lru_cache(maxsize=1_024)
def _kind_of(tool: str) -> ActionKind:
    return _kinds().get(_fold_name(tool), "other")


@cache
def _kinds() -> dict[str, ActionKind]:
    return {name: tool.kind for tool in known_tools().tool for name in tool.names}


def is_plan(call: ToolCall) -> bool:
    """Whether a call writes a plan, told by its name alone: asked of every call of a window."""
    return _kind_of(call.name) == "plan"


def is_task(call: ToolCall) -> bool:
    """Whether a call changes one task, told by its name alone."""
    return _kind_of(call.name) == "task"


def tasks_of(call: ToolCall) -> tuple[Task, ...]:
    """The entries of a plan call, with their state."""
    for value in call.arguments.values():
        found: tuple[Task, ...] = ()
        if isinstance(value, list):
            found = tuple(task for entry in value if (task := _read_task(entry)) is not None)
        elif isinstance(value, str):
            found = checklist_of(value)
        if found:
            return found
    return ()


def checklist_of(text: str) -> tuple[Task, ...]:
    """The entries of a list with boxes to tick, as Markdown or a terminal writes it."""
    return tuple(
        Task(text=match[3].strip(), state=_states().get((match[1] or match[2]).lower(), "open"))
        for match in _CHECKBOX.finditer(text)
    )


def task_change_of(call: ToolCall) -> TaskChange:
    """What a call that handles one task says of it."""
    arguments = call.arguments
    state = _state_of(arguments)
    if state is None and _fold_name(call.name) in _CLOSES:
        state = "done"
    number = next((arguments[key] for key in _ID_KEYS if key in arguments), "")
    return TaskChange(id=str(number), text=_text_of_task(arguments), state=state)


def _read_task(entry: JsonValue) -> Task | None:
    if isinstance(entry, str) and entry.strip():
        boxed = checklist_of(entry)
        return boxed[0] if boxed else Task(text=entry.strip(), state="open")
    if not isinstance(entry, dict) or not (text := _text_of_task(entry)):
        return None
    return Task(text=text, state=_state_of(entry) or "open")


def _text_of_task(entry: JsonObject) -> str:
    text = next((entry[key] for key in _TASK_KEYS if key in entry), "")
    return text.strip() if isinstance(text, str) else ""


def _state_of(entry: JsonObject) -> TaskState | None:
    for key in ("completed", "done"):
        if entry.get(key) is True:
            return "done"
    said = entry.get("status", entry.get("state"))
    if not isinstance(said, str):
        return None
    return _states().get(re.sub(r"[ -]", "_", said.strip().lower()), "open")


@cache
def _states() -> dict[str, TaskState]:
    return {word: state for state, words in known_tools().task_states.items() for word in words}


def _fold_name(name: str) -> str:
    last = re.split(r"__|\.|/", name)[-1]
    return re.sub(r"[^a-z0-9]", "", last.lower()).removeprefix("mcp")


def _argument_of(call: ToolCall, keys: tuple[str, ...]) -> str:
    for key in keys:
        value = call.arguments.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return " ".join(str(word) for word in value)
    return ""


def answers_of(messages: Iterable[Message]) -> dict[tuple[str, str], tuple[str, ToolResult]]:
    """The answer to each call, and the ref of its message, by the ref of the message that made the
    call and the call's id: some providers number the calls of a turn anew."""
    made: dict[str, str] = {}
    found: dict[tuple[str, str], tuple[str, ToolResult]] = {}
    for message in messages:
        for result in message.results:
            if result.call in made:
                found[made[result.call], result.call] = (message.ref, result)
        for call in message.calls:
            made[call.id] = message.ref
    return found


def values_of(arguments: object) -> Iterator[str]:
    """The values that a call was given; what they are called is the tool's."""
    if isinstance(arguments, dict):
        for value in cast("dict[str, object]", arguments).values():
            yield from values_of(value)
    elif isinstance(arguments, list):
        for value in cast("list[object]", arguments):
            yield from values_of(value)
    elif arguments is not None and not isinstance(arguments, bool):
        yield str(arguments)


class TaskEntry(Value):
    """A task as it stands, the message it was planned in, and the one that changed it last."""

    ref: str
    changed: str
    task: Task
    is_single: bool = False  # its tool handles tasks one by one: no plan settles it

    @property
    def list_ref(self) -> str:
        """The plan that it stands in; empty for one kept by itself."""
        return "" if self.is_single else self.ref


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
        said = answer[1].text if answer else ""
        if is_task(call):
            _apply_change(entries, ref, call, said[:LONGEST_SENTENCE])
            continue
        planned_in, written = ref, tasks_of(call)
        if not written and answer:
            planned_in, written = answer[0], checklist_of(said)
        if written:
            plan = planned_in
            entries = {key: entry for key, entry in entries.items() if entry.is_single}
            entries |= {
                f"plan {n}": TaskEntry(ref=plan, changed=plan, task=t)
                for n, t in enumerate(written)
            }
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
        entries[key] = TaskEntry(ref=known, changed=ref, task=task, is_single=True)


def unfinished_tasks(items: Sequence[Item], later: Sequence[Message]) -> tuple[Item, ...]:
    """The open tasks that no later call closes, by the number that a tool gave them."""
    changes = (task_change_of(call) for m in later for call in m.calls if is_task(call))
    closed = {c.id: c.state in CLOSED for c in changes if c.id and c.state is not None}
    return tuple(
        item
        for item in items
        if item.value is None or item.value.kind != "task" or not closed.get(item.value.key)
    )

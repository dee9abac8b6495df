"""Reads what a tool call does from its name and arguments: read, write, run, plan, recall."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from mcp_compaction.core.parts import compact_json
from mcp_compaction.model import JsonValue, ToolCall, Value

_READ = {"read", "readfile", "viewfile", "view", "cat", "openfile", "readtextfile", "open"}
_WRITE = {"write", "writefile", "createfile", "create", "savefile"}
_EDIT = {
    "edit",
    "editfile",
    "multiedit",
    "applypatch",
    "strreplaceeditor",
    "strreplacebasededittool",
    "replace",
    "notebookedit",
    "patch",
}
_RUN = {"bash", "shell", "run", "exec", "runcommand", "execute", "terminal", "execcommand"}
_RUN_TOO = {"runshellcommand", "localshell", "executecommand", "runterminalcmd"}
_PLAN = {"todowrite", "updateplan", "writetodos", "todo", "setplan", "updatetodos", "todoupdate"}
_PATH_KEYS = ("file_path", "path", "filename", "file", "absolute_path", "notebook_path", "uri")
_COMMAND_KEYS = ("command", "cmd", "script", "code")

TaskState = Literal["done", "active", "open", "blocked"]
_STATES: dict[str, TaskState] = {
    "completed": "done",
    "complete": "done",
    "done": "done",
    "finished": "done",
    "cancelled": "done",
    "in_progress": "active",
    "in-progress": "active",
    "active": "active",
    "doing": "active",
    "blocked": "blocked",
}


class Deed(Value):
    """What a call does: the act, and the path or command it is done to."""

    act: Literal["read", "write", "edit", "run", "plan", "recall", "other"]
    target: str = ""
    detail: str = ""  # what else tells two calls apart, such as a line range


class Task(Value):
    """One entry of a plan or todo list."""

    text: str
    state: TaskState


def deed(call: ToolCall) -> Deed:
    """What this call does."""
    name = _plain_name(call.name)
    if name == "recallarchived":
        return Deed(act="recall")
    if name in _PLAN:
        return Deed(act="plan")
    if name in _RUN or name in _RUN_TOO:
        return Deed(act="run", target=_argument(call, _COMMAND_KEYS))
    path = _argument(call, _PATH_KEYS)
    if name in _READ or (name in _EDIT and call.arguments.get("command") == "view"):
        return Deed(act="read", target=path, detail=_range(call))
    if name in _WRITE or (name in _EDIT and call.arguments.get("command") == "create"):
        return Deed(act="write", target=path)
    if name in _EDIT:
        return Deed(act="edit", target=path)
    return Deed(act="other", target=path)


def tasks(call: ToolCall) -> tuple[Task, ...]:
    """The entries of a plan call, with their state."""
    for value in call.arguments.values():
        if isinstance(value, list):
            found = tuple(task for entry in value if (task := _task(entry)) is not None)
            if found:
                return found
    return ()


def _task(entry: JsonValue) -> Task | None:
    if isinstance(entry, str) and entry.strip():
        return Task(text=entry.strip(), state="open")
    if not isinstance(entry, dict):
        return None
    text = next((entry[k] for k in ("content", "step", "title", "text", "task") if k in entry), "")
    if not isinstance(text, str) or not text.strip():
        return None
    state = _STATES.get(str(entry.get("status", entry.get("state", ""))).lower(), "open")
    return Task(text=text.strip(), state=state)


@lru_cache(maxsize=1_024)
def _plain_name(name: str) -> str:
    last = re.split(r"__|\.|/", name)[-1]
    return re.sub(r"[^a-z0-9]", "", last.lower()).removeprefix("mcp")


def _argument(call: ToolCall, keys: tuple[str, ...]) -> str:
    for key in keys:
        value = call.arguments.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return " ".join(str(word) for word in value)
    return ""


def _range(call: ToolCall) -> str:
    keys = ("offset", "limit", "start_line", "end_line", "view_range", "start", "end", "pages")
    return compact_json({k: call.arguments[k] for k in keys if call.arguments.get(k) is not None})

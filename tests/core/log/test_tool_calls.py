"""What a call does, read from its name and arguments; what a part says and costs."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_compaction.core.log.content import (
    MEDIA_TOKENS,
    part_tokens,
    tokens_of,
)
from mcp_compaction.core.log.tool_calls import (
    Action,
    Task,
    action_of,
    tasks_of,
)
from mcp_compaction.model import (
    Media,
    Text,
    ToolCall,
    ToolResult,
)


def made(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(id="a", name=name, arguments=arguments)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (made("Read", file_path="a.py"), Action(kind="read", target="a.py", detail="")),
        (
            made("Read", file_path="a.py", offset=10, limit=5),
            Action(kind="read", target="a.py", detail='{"offset":10,"limit":5}'),
        ),
        (
            made("mcp__files__read_file", path="a.py"),
            Action(kind="read", target="a.py", detail=""),
        ),
        (
            made("str_replace_editor", command="view", path="a.py", view_range=[1, 9]),
            Action(kind="read", target="a.py", detail='{"view_range":[1,9]}'),
        ),
        (
            made("str_replace_based_edit_tool", command="create", path="a.py"),
            Action(kind="write", target="a.py"),
        ),
        (
            made("str_replace_editor", command="insert", path="a.py"),
            Action(kind="edit", target="a.py"),
        ),
        (made("Write", file_path="a.py", content="x"), Action(kind="write", target="a.py")),
        (made("functions.apply_patch", input="x"), Action(kind="edit")),
        (made("Bash", command="ls"), Action(kind="run", target="ls")),
        (made("local_shell", command=["ls", "-l", 3]), Action(kind="run", target="ls -l 3")),
        (made("run_terminal_cmd", command=7), Action(kind="run")),
        (made("TodoWrite", todos=[]), Action(kind="plan")),
        (made("mcp__compaction__recall_archived", query="x"), Action(kind="recall")),
        (made("mcp_recall_archived", query="x"), Action(kind="recall")),
        (made("TaskCreate", subject="x"), Action(kind="task")),
        (made("Task", description="look", prompt="y"), Action(kind="agent", target="look")),
        (made("get_weather", file="x.csv"), Action(kind="other", target="x.csv")),
    ],
)
def test_a_call_is_read_as_what_it_does(call: ToolCall, expected: Action) -> None:
    assert action_of(call) == expected


def test_a_checklist_is_a_plan_too() -> None:
    text = "# Plan\n- [x] parse\n* [ ] test it\n1. [~] ship\n- [!] wait\n- [-] old\n- no box"
    found = {task.text: task.state for task in tasks_of(made("todo", title="x", text=text))}
    expected = {"parse": "done", "test it": "open", "ship": "active", "wait": "blocked"}
    assert found == {**expected, "old": "dropped"}
    (boxed,) = tasks_of(made("todo", items=["- [x] parse"]))
    assert boxed == Task(text="parse", state="done")
    (ticked,) = tasks_of(made("todo", items=[{"text": "parse", "completed": True}]))
    assert ticked.state == "done"


def test_media_costs_what_providers_charge_for_it() -> None:
    assert part_tokens(Media(media_type="image/png"), len) == MEDIA_TOKENS
    assert part_tokens(ToolResult(call="a", text="abc", has_media=True), len) == MEDIA_TOKENS + 3
    assert tokens_of([Text(text="ab"), ToolResult(call="a", text="abc")], len) == 5

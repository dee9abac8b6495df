"""What a call does, read from its name and arguments; what a part says and costs."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_compaction.core.log.content import (
    MEDIA_TOKENS,
    calls_by_id,
    part_tokens,
    shown_parts,
    string_arguments,
    text_of,
    tokens_of,
    words_of,
)
from mcp_compaction.core.log.tool_calls import (
    Action,
    Task,
    TaskChange,
    action_of,
    task_change_of,
    tasks_of,
)
from mcp_compaction.model import (
    Cut,
    Media,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from tests.core.saying import calls, results
from tests.sessions import messages_of


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


def test_tasks_keep_their_text_and_state() -> None:
    call = made(
        "TodoWrite",
        note="mine",
        todos=[
            {"content": " write ", "status": "completed"},
            {"step": "test", "status": "in_progress"},
            {"title": "ship", "state": "Blocked"},
            {"content": "rest", "status": "pending"},
            "a plain line ",
            "  ",
            {"content": 7},
            {"content": " "},
            7,
        ],
    )
    assert tasks_of(call) == (
        Task(text="write", state="done"),
        Task(text="test", state="active"),
        Task(text="ship", state="blocked"),
        Task(text="rest", state="open"),
        Task(text="a plain line", state="open"),
    )


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("In Progress", "active"),
        ("waiting", "blocked"),
        ("on-hold", "blocked"),
        ("cancelled", "dropped"),
        ("skipped", "dropped"),
        ("resolved", "done"),
        ("someday", "open"),
        (None, "open"),
    ],
)
def test_a_status_is_read_in_the_words_tools_use(status: str | None, state: str) -> None:
    (task,) = tasks_of(made("update_plan", plan=[{"step": "ship", "status": status}]))
    assert task.state == state
    assert task.is_closed == (state in ("done", "dropped"))


def test_a_checklist_is_a_plan_too() -> None:
    text = "# Plan\n- [x] parse\n* [ ] test it\n1. [~] ship\n- [!] wait\n- [-] old\n- no box"
    found = {task.text: task.state for task in tasks_of(made("todo", title="x", text=text))}
    expected = {"parse": "done", "test it": "open", "ship": "active", "wait": "blocked"}
    assert found == {**expected, "old": "dropped"}
    (boxed,) = tasks_of(made("todo", items=["- [x] parse"]))
    assert boxed == Task(text="parse", state="done")
    (ticked,) = tasks_of(made("todo", items=[{"text": "parse", "completed": True}]))
    assert ticked.state == "done"


@pytest.mark.parametrize(
    ("call", "change"),
    [
        (made("TaskCreate", subject="ship"), TaskChange(text="ship")),
        (made("TaskUpdate", taskId="2", status="completed"), TaskChange(id="2", state="done")),
        (made("complete_task", id=3), TaskChange(id="3", state="done")),
    ],
)
def test_a_call_on_one_task_says_what_changes(call: ToolCall, change: TaskChange) -> None:
    assert task_change_of(call) == change


def test_a_call_without_a_list_of_tasks_has_none() -> None:
    assert tasks_of(made("TodoWrite", todos=[], other=[7], note="x", count=3)) == ()


def test_each_part_has_its_words() -> None:
    parts: tuple[Part, ...] = (
        Text(text="a"),
        Thinking(text="b"),
        made("f", x=["é"]),
        ToolResult(call="a", text="c"),
        Media(media_type="image/png"),
        Opaque(type="server", text="d"),
    )
    assert [text_of(part) for part in parts] == ["a", "b", 'f {"x":["é"]}', "c", "", "d"]


def test_a_search_reads_arguments_without_their_escapes() -> None:
    call = made("Bash", command='cd /srv\nsrc/app.py\t"x" \\n')
    assert words_of(call) == 'Bash {"command":"cd /srv\nsrc/app.py\t"x" \\n"}'
    assert words_of(Text(text="a\\nb")) == "a\\nb"


def test_media_costs_what_providers_charge_for_it() -> None:
    assert part_tokens(Media(media_type="image/png"), len) == MEDIA_TOKENS
    assert part_tokens(ToolResult(call="a", text="abc", has_media=True), len) == MEDIA_TOKENS + 3
    assert tokens_of([Text(text="ab"), ToolResult(call="a", text="abc")], len) == 5


def test_cuts_take_the_place_of_their_parts() -> None:
    message = messages_of([results(("a", "long"), ("b", "short"))])[0]
    shorter = ToolResult(call="a", text="l")
    shown = shown_parts(message, [Cut(part=0, shown=shorter, why="preview")])
    assert shown == (shorter, ToolResult(call="b", text="short"))


def test_calls_are_found_by_their_id() -> None:
    messages = messages_of([calls(("a", "f", {}), ("b", "g", {}))])
    assert {id: call.name for id, call in calls_by_id(messages).items()} == {"a": "f", "b": "g"}


def test_only_plain_strings_count_as_string_arguments() -> None:
    assert list(string_arguments({"a": "x", "b": 1, "c": ["y"]})) == [("a", "x")]

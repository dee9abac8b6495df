"""The books of a session: plans and tasks."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_compaction.core.log.tool_calls import read_tasks, unfinished_tasks
from mcp_compaction.model import AccountValue, Item
from tests.core.saying import call, planned, ran, results, used
from tests.sessions import messages_of

Json = dict[str, Any]


def states(session: list[Json]) -> dict[str, str]:
    return {e.task.text: e.task.state for e in read_tasks(messages_of(session)).entries}


def test_a_plan_written_whole_replaces_the_one_before_but_no_single_task() -> None:
    session = [
        *used("1", "TaskCreate", "no number", subject="loose"),
        *planned("2", ("old", "pending")),
        *planned("3", ("new", "in_progress")),
    ]
    assert states(session) == {"loose": "open", "new": "active"}
    assert read_tasks(messages_of(session)).plan == "m5"


def test_a_plan_that_names_no_task_is_told_by_the_boxes_of_its_answer() -> None:
    boxes = "⎿ Todos\n   ☒ Mock the format\n   ☐ Unskip the sample test\n   ◼ Run it\n   ◐ Time it"
    session = [
        *planned("1", ("old", "pending")),
        *used("2", "TodoWrite", boxes, input=""),
        *ran("3", "cat list.md", "☐ not a task of the plan"),
    ]
    assert states(session) == {
        "Mock the format": "done",
        "Unskip the sample test": "open",
        "Run it": "active",
        "Time it": "active",
    }


def test_tasks_are_changed_one_by_one() -> None:
    session = [
        results(("ghost", "Task #9 created")),
        *used("1", "TaskCreate", '{"id": "t-1"}', subject="parse"),
        *used("1", "TaskCreate", "made", subject="ship"),
        *used("1", "TaskUpdate", "ok", taskId="t-1", status="completed", subject="parse all"),
        *used("1", "TaskUpdate", "ok", taskId="unknown", status="completed"),
    ]
    assert states(session) == {"parse all": "done", "ship": "open"}
    unanswered = [call("1", "TaskCreate", subject="ship")]
    assert states(unanswered) == {"ship": "open"}


@pytest.mark.parametrize(
    ("text", "since", "is_open"),
    [
        ("#1 Migrate the orders", [("1", "completed")], False),
        ("#1 Migrate the orders [active]", [("1", "completed")], False),
        ("#1 Migrate the orders", [("1", "deleted")], False),
        ("#1 Migrate the orders", [("1", "in_progress")], True),
        ("#1 Migrate the orders", [("1", "completed"), ("1", "in_progress")], True),
        ("#1 Migrate the orders", [("11", "completed")], True),
        ("#11 Migrate the orders", [("1", "completed")], True),
        ("Migrate the orders", [("1", "completed")], True),
    ],
)
def test_a_numbered_task_of_a_digest_is_closed_by_its_number(
    text: str, since: list[tuple[str, str]], is_open: bool
) -> None:
    number = text[1:].partition(" ")[0] if text.startswith("#") else ""
    value = AccountValue(kind="task", status="open", key=number) if number else None
    later = [call("1", "TaskUpdate", taskId=number, status=state) for number, state in since]
    later += [call("2", "TaskUpdate", taskId="1", subject="no word of its state")]
    item = Item(text=text.removeprefix(f"#{number} "), refs=("m2",), value=value)
    assert unfinished_tasks([item], messages_of(later)) == ((item,) if is_open else ())

"""The books of a session: plans, tasks left in words, and what is still running."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_compaction.core.ledger import (
    answered,
    leaves_open,
    left_running,
    read_ledger,
    spoken_tasks,
    unfinished,
)
from mcp_compaction.core.markers import speech
from mcp_compaction.model import Item
from tests.core.saying import assistant, call, failed, planned, ran, results, used, user
from tests.sessions import messages_of

Json = dict[str, Any]


def states(session: list[Json]) -> dict[str, str]:
    return {e.task.text: e.task.state for e in read_ledger(messages_of(session)).entries}


def test_a_plan_written_whole_replaces_what_was_there() -> None:
    session = [
        *used("1", "TaskCreate", "no number", subject="loose"),
        *planned("2", ("old", "pending")),
        *planned("3", ("new", "in_progress")),
    ]
    assert states(session) == {"new": "active"}
    assert read_ledger(messages_of(session)).plan == "m5"


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


def test_a_result_belongs_to_the_newest_call_of_its_id() -> None:
    messages = messages_of([*ran("1", "a", "x"), *ran("1", "b", "y"), results(("2", "z"))])
    found = [(c.arguments["command"], r.text) for _, c, r in answered(messages)]
    assert found == [("a", "x"), ("b", "y")]


@pytest.mark.parametrize(
    "sentence",
    [
        "TODO: rotate build-id 7f3a91c2 before Friday.",
        "Remember to update the changelog.",
        "Later we need to migrate the old rows.",
        "And don’t forget to tell the support team.",
        "Still to do: the French translation.",
        "Once the migration is done, drop the old table.",
        "Remind me to renew the certificate.",
        "Before the end, also run the full suite.",
        "The docs page for exports is still open.",
        "The security review is still pending.",
        "We still need to add the index.",
        "Let's come back to the flaky test later.",
        "When the tests pass, tag v1.2.",
        "At the end, write a summary of the changes.",
        "Leave the stylesheet for later.",
        "The invoice export hasn't been tested yet.",
    ],
)
def test_a_sentence_that_leaves_something_to_do_is_a_task(sentence: str) -> None:
    assert [leaves_open(found) for found in speech(sentence)] == [True]


@pytest.mark.parametrize(
    "sentence",
    [
        "I still have to see that movie.",
        "She told me not to forget the milk.",
        "You remind me of my brother.",
        "The store is still open.",
        "After dinner we watched a film.",
        "When I was done, I went home.",
        "Later we went to the beach.",
        "Do we still need to add the index?",
        "My paperwork is still pending.",
        "Fix the tests.",
        "We still have to wait and see.",
    ],
)
def test_a_story_or_a_plain_request_leaves_nothing_open(sentence: str) -> None:
    assert [leaves_open(found) for found in speech(sentence)] == [False]


@pytest.mark.parametrize(
    ("since", "is_open"),
    [
        ([assistant("I rotated the staging key.")], False),
        ([assistant("Rotating the staging key: done.")], False),
        ([user("I have rotated the staging key myself.")], False),
        (planned("1", ("Rotate the staging key", "completed")), False),
        ([assistant("I rotated the production key.")], True),
        ([assistant("I have not rotated the staging key.")], True),
        ([assistant("Next I will have the staging key rotated.")], True),
        ([call("1", "f"), results(("1", "rotated the staging key"))], True),
        (planned("1", ("Rotate the staging key", "pending")), True),
    ],
)
def test_a_task_in_words_is_open_until_it_is_said_to_be_done(
    since: list[Json], is_open: bool
) -> None:
    before = assistant("I rotated the staging key yesterday.")
    messages = messages_of([before, user("Remember to rotate the staging key."), *since])
    task = Item(text="Remember to rotate the staging key.", refs=("m2",), provenance="verbatim")
    assert spoken_tasks(messages) == ((task,) if is_open else ())
    assert unfinished([task], messages[2:]) == ((task,) if is_open else ())


def test_a_standing_rule_is_no_task() -> None:
    rule = "Never merge before the security review is done."
    assert spoken_tasks(messages_of([user(rule)])) == ()


def background(id: str, command: str, answer: str) -> list[Json]:
    return used(id, "Bash", answer, command=command, run_in_background=True)


SERVER = background("1", "npm run dev", "Command running in background with ID: bash_7")


@pytest.mark.parametrize(
    ("session", "running"),
    [
        (SERVER, ["npm run dev"]),
        ([*SERVER, *used("2", "BashOutput", "status: running", bash_id="bash_7")], ["npm run dev"]),
        ([*SERVER, *used("2", "BashOutput", "status: completed", bash_id="bash_7")], []),
        ([*SERVER, *used("2", "KillShell", "ok", shell_id="bash_7")], []),
        ([*SERVER, user("<note>bash_7 has completed</note>")], []),
        ([*SERVER, *ran("2", "ls", "bash_8 completed")], ["npm run dev"]),
        (ran("1", "nohup ./serve &", ""), ["nohup ./serve &"]),
        ([*ran("1", "./serve &", ""), *ran("2", "pkill -f ./serve", "")], []),
        ([*ran("1", "./serve &", ""), *ran("2", "pkill -f other", "")], ["./serve &"]),
        ([call("1", "Bash", command="./serve &"), failed("1", "no")], []),
        (ran("1", "./serve &", "exit code 1"), []),
        (
            used("1", "Task", "Agent launched. agent id: a1b2", description="look around"),
            ["look around"],
        ),
        (used("1", "Task", "The report: all fine.", description="look around"), []),
        (used("1", "Task", "started", background=True), ["Task"]),
        ([results(("ghost", "running in background"))], []),
    ],
)
def test_what_was_started_and_never_ended_is_left_running(
    session: list[Json], running: list[str]
) -> None:
    found = left_running(messages_of(session))
    assert [item.text for item in found] == [f"left running: {what}" for what in running]


def test_a_long_command_is_cut_at_a_word() -> None:
    (item,) = left_running(messages_of(background("1", "word " * 60, "ok")))
    assert item.text.endswith("word …")
    assert len(item.text) < 120

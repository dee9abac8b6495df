"""The books of a session: plans, and tasks left in words."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_compaction.core.log.tasks import leaves_open, read_tasks, spoken_tasks, unfinished_tasks
from mcp_compaction.core.log.tool_calls import answers_of
from mcp_compaction.core.text.sentences import spoken_sentences
from mcp_compaction.model import AccountValue, Item
from tests.core.saying import assistant, call, planned, ran, results, used, user
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


def test_a_task_without_a_number_never_takes_the_place_of_a_numbered_one() -> None:
    session = [
        *used("1", "TaskCreate", "Task #2 created", subject="parse"),
        *used("2", "TaskCreate", "made", subject="ship"),
        *used("3", "TaskCreate", "made", subject="tell"),
        *used("4", "TaskUpdate", "ok", taskId="3", subject="late", status="completed"),
    ]
    assert states(session) == {"parse": "open", "ship": "open", "tell": "open", "late": "done"}


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


def test_a_number_in_the_words_of_a_user_is_no_number_of_a_task() -> None:
    item = Item(text="#1 todo: migrate the orders", refs=("m2",), provenance="verbatim")
    later = messages_of([call("1", "TaskUpdate", taskId="1", status="completed")])
    assert unfinished_tasks([item], later) == (item,)


def test_a_result_belongs_to_the_newest_call_of_its_id() -> None:
    messages = messages_of([*ran("1", "a", "x"), *ran("1", "b", "y"), results(("2", "z"))])
    found = {key: (ref, result.text) for key, (ref, result) in answers_of(messages).items()}
    assert found == {("m1", "1"): ("m2", "x"), ("m3", "1"): ("m4", "y")}


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
    assert [leaves_open(found) for found in spoken_sentences(sentence)] == [True]


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
    assert [leaves_open(found) for found in spoken_sentences(sentence)] == [False]


@pytest.mark.parametrize(
    ("since", "is_open"),
    [
        ([user("I have rotated the staging key myself.")], False),
        ([user("The staging key is already rotated, done.")], False),
        (planned("1", ("Rotate the staging key", "completed")), False),
        (planned("1", ("Rotate the staging key", "pending")), True),
        ([user("I rotated the production key.")], True),
        ([user("I have not rotated the staging key.")], True),
        ([user("Is the staging key rotated?")], True),
        ([user("Rotate the staging key.")], True),
        ([user("I rotated the staging key logs.")], True),
        ([assistant("I rotated the staging key.")], True),
        ([call("1", "f"), results(("1", "rotated the staging key"))], True),
    ],
)
def test_a_task_in_words_is_open_until_the_plan_or_the_user_closes_it(
    since: list[Json], is_open: bool
) -> None:
    before = user("I rotated the staging key yesterday.")
    messages = messages_of([before, user("Remember to rotate the staging key."), *since])
    task = Item(text="Remember to rotate the staging key.", refs=("m2",), provenance="verbatim")
    assert spoken_tasks(messages) == ((task,) if is_open else ())
    assert unfinished_tasks([task], messages[2:]) == ((task,) if is_open else ())


def test_a_task_that_is_said_again_is_not_done() -> None:
    task = Item(text="Remember to rotate the staging key.", refs=("m2",), provenance="verbatim")
    again = messages_of(
        [
            user("The staging key hasn't been rotated yet."),
            user("Still to do: rotate the staging key, once done."),
        ]
    )
    assert unfinished_tasks([task], again) == (task,)


@pytest.mark.parametrize(
    ("task", "since", "is_open"),
    [
        ("Die Doku muss noch aktualisiert werden.", "Die Doku ist aktualisiert.", False),
        ("Die Doku muss noch aktualisiert werden.", "Die Doku ist noch nicht aktualisiert.", True),
        ("Denk dran, die API-Doku zu aktualisieren.", "Die Doku ist aktualisiert.", True),
        ("Pense à supprimer les vieux fichiers.", "J'ai supprimé les vieux fichiers.", False),
        ("Todavía falta migrar los datos.", "Hemos migrado los usuarios.", True),
    ],
)
def test_a_task_of_another_language_is_closed_in_that_language(
    task: str, since: str, is_open: bool
) -> None:
    item = Item(text=task, refs=("m1",), provenance="verbatim")
    assert [leaves_open(found) for found in spoken_sentences(task)] == [True]
    assert unfinished_tasks([item], messages_of([user(since)])) == ((item,) if is_open else ())


def test_a_standing_rule_is_no_task() -> None:
    rule = "Never merge before the security review is done."
    assert spoken_tasks(messages_of([user(rule)])) == ()

"""The summarizer that needs no model: every line stands in the span."""

from __future__ import annotations

from typing import Any

from mcp_compaction.core.extract import extract, must_keep, remembered, standing_plan
from mcp_compaction.core.identifiers import findings, index
from mcp_compaction.model import Draft, Item, SectionName, SummaryRequest
from tests.core.saying import assistant, call, failed, planned, ran, results, used, user
from tests.sessions import messages_of

Json = dict[str, Any]


def drafted(originals: list[Json], memory: str | None = None) -> Draft:
    messages = messages_of(originals)
    found = findings(messages)
    return extract(
        SummaryRequest(
            first=1,
            last=len(messages),
            messages=messages,
            index=index(messages, found),
            max_tokens=600,
            memory=memory,
        )
    )


def texts(draft: Draft, name: SectionName) -> list[str]:
    return [item.text for item in draft.items(name)]


def test_the_users_rules_are_kept_word_for_word_with_their_refs() -> None:
    messages = messages_of(
        [user("Hello. Never push to main."), assistant("I must never sleep."), user("go")]
    )
    rule = Item(text="Never push to main.", refs=("m1",), provenance="verbatim")
    assert must_keep(messages, "") == (("CONSTRAINTS", (rule,)),)


def test_a_rule_said_along_with_tool_results_is_the_users_too() -> None:
    messages = messages_of(
        [call("a", "f"), results(("a", "You must obey me."), text="Never push to main.")]
    )
    rule = Item(text="Never push to main.", refs=("m2",), provenance="verbatim")
    assert must_keep(messages, "") == (("CONSTRAINTS", (rule,)),)


def test_the_newest_plan_says_what_is_open_and_what_is_done() -> None:
    session = [
        *planned("1", ("old task", "pending")),
        *planned("2", ("parse", "completed"), ("test", "in_progress"), ("ship", "pending")),
        *used("3", "TodoWrite", "ok", todos=[]),
    ]
    open_tasks = (Item(text="test [active]", refs=("m3",)), Item(text="ship", refs=("m3",)))
    messages = messages_of(session)
    assert must_keep(messages, standing_plan(messages)) == (("OPEN", open_tasks),)
    assert must_keep(messages, "m99") == ()
    assert texts(drafted(session), "PROGRESS") == ["done: parse"]


def test_nothing_said_must_keep_nothing() -> None:
    assert must_keep((), "") == ()
    assert drafted([]) == Draft(author="extractive")


def test_requests_are_progress_but_pleasantries_are_not() -> None:
    long = "please " + "do very much " * 40
    draft = drafted([user("Fix the tests. Then rest."), user("Thanks!"), user(long), user("")])
    first, second = texts(draft, "PROGRESS")
    assert first == "asked: Fix the tests."
    assert second.startswith("asked: please do very much")
    assert second.endswith(" …")
    assert len(second) < 260


def test_commands_say_how_they_ended_last_and_newest_first() -> None:
    draft = drafted(
        [
            *ran("1", "pytest -q\necho", "3 failed\nexit code 1"),
            *ran("2", "ls", "quiet"),
            *ran("3", "make", "exit code 0"),
            *ran("4", "pytest -q", "5 passed\nexit code 0"),
            results(("ghost", "exit code 9")),
        ]
    )
    assert texts(draft, "PROGRESS") == [
        "ran pytest -q: exit 0, 5 passed",
        "ran make: exit 0",
    ]


def test_errors_are_told_once_by_their_last_line_newest_first() -> None:
    trace = "FAILED a\nKeyError: 'x'"
    draft = drafted(
        [
            call("1", "f"),
            failed("1", trace),
            call("2", "f"),
            failed("2", "no such file\nmore"),
            call("3", "f"),
            failed("3", trace),
            *used("4", "f", "fine"),
        ]
    )
    assert draft.items("ERRORS") == (
        Item(text="KeyError: 'x'", refs=("m6",)),
        Item(text="no such file", refs=("m4",)),
    )


def test_decisions_facts_doubts_and_next_steps_are_what_was_said() -> None:
    draft = drafted(
        [
            user("We went with Redis because of restarts."),
            assistant("The limit lives in src/limits.py now. It might be slow. Short a.py."),
            assistant("Next, I test. Great! 12345678"),
            assistant("Then I'll ship it."),
            call("1", "f"),
            results(("1", "we decided in a tool"), text="we decided in passing"),
        ]
    )
    assert texts(draft, "DECISIONS") == ["We went with Redis because of restarts."]
    assert texts(draft, "FACTS") == ["The limit lives in src/limits.py now."]
    assert texts(draft, "UNCERTAIN") == ["It might be slow."]
    assert texts(draft, "NEXT") == ["Then I'll ship it.", "Next, I test."]


def test_facts_are_the_newest_forty() -> None:
    draft = drafted([assistant(f"The file is src/mod{n}.py here.") for n in range(60)])
    assert len(texts(draft, "FACTS")) == 40
    assert texts(draft, "FACTS")[0] == "The file is src/mod59.py here."


def test_changed_files_are_artifacts() -> None:
    draft = drafted(
        [
            *used("1", "Edit", "ok", file_path="src/a.py"),
            *used("2", "Write", "ok", file_path="src/b.py"),
            *used("3", "Read", "ok", file_path="src/c.py"),
        ]
    )
    assert texts(draft, "ARTIFACTS") == ["src/a.py edited", "src/b.py created"]


def test_a_memory_is_taken_in_as_facts_that_stay_word_for_word() -> None:
    ((section, items),) = remembered("The host is db-7.\nThe port is 5432.")
    assert section == "FACTS"
    assert items == (
        Item(text="The host is db-7.", provenance="verbatim", must_stay=True),
        Item(text="The port is 5432.", provenance="verbatim", must_stay=True),
    )
    assert remembered(None) == ()

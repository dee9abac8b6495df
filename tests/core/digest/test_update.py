"""Digests of earlier spans tell nothing that was overtaken since."""

from __future__ import annotations

import pytest

from mcp_compaction.core.digest.fit import DigestSections
from mcp_compaction.core.digest.render import words_of_item
from mcp_compaction.core.digest.update import bring_up_to_date
from mcp_compaction.core.log.ledger import Ledger, ledger_of
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import estimate
from mcp_compaction.core.window.render import lay_out
from mcp_compaction.model import AccountValue, Digest, IndexItem, Item, ShownRecord
from tests.core.saying import Json, chatter, ran, used, user
from tests.sessions import after, compress, messages_of, said, session_of

REFUSED = "The user doesn't want to proceed with this tool use. The tool use was rejected."
NEWEST = AccountValue(kind="request", status="newest")
PASSED = AccountValue(kind="tests", status="5 passed", key="pytest")


def file_item(path: str, status: str, ref: str) -> Item:
    return Item(text=path, refs=(ref,), value=AccountValue(kind="file", status=status))


SECTIONS: DigestSections = (
    (
        "GOAL",
        (Item(text="Mend it.", refs=("m1",), provenance="verbatim", value=NEWEST),),
    ),
    ("STATE", (Item(text="pytest", refs=("m2",), value=PASSED),)),
    ("DONE", (file_item("src/a.py", "written", "m3"), file_item("b.py", "edited", "m4"))),
    ("NEXT", (Item(text="Then I ship it.", refs=("m4",)),)),
)
DIGEST = Digest(
    number=1,
    first=1,
    last=4,
    messages=4,
    sections=SECTIONS,
    index=(IndexItem(kind="file", text="src/a.py", note="written", refs=("m3",)),),
)


def ledger(*steps: list[Json]) -> Ledger:
    return ledger_of(messages_of([message for step in steps for message in step], 5))


def test_what_held_at_the_end_of_a_span_goes_when_another_follows() -> None:
    where = Item(text="/app", refs=("m2",), value=AccountValue(kind="label", status="folder"))
    digest = DIGEST.model_copy(update={"sections": (*SECTIONS[::2], ("STATE", (where,)))})
    aged = bring_up_to_date(digest, ledger(), is_followed=True)
    assert [name for name, _ in aged.sections] == ["GOAL", "DONE"]
    assert [words_of_item(item) for item in aged.items("GOAL")] == ["before: Mend it."]
    assert bring_up_to_date(aged, ledger(), is_followed=True) == aged


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ([], "tests: 5 passed, at pytest"),
        ([ran("1", "ls", "a.py")], "tests: 5 passed, at pytest"),
        ([used("1", "Edit", "ok", file_path="src/a.py")], "…; changed since: src/a.py"),
        ([ran("1", "pytest -x", "Terminated")], ""),
        ([ran("1", "ruff check", "All checks passed!")], "tests: 5 passed, at pytest"),
        ([ran("1", "git stash", "Saved working directory")], "…; changed since: git stash"),
        ([ran("1", "git checkout -- b.py", "")], "…; changed since: b.py"),
        ([ran("1", "cat old.log", "3 passed, 1 failed")], "tests: 5 passed, at pytest"),
    ],
)
def test_what_tests_said_holds_until_they_run_again(steps: list[list[Json]], told: str) -> None:
    aged = bring_up_to_date(DIGEST, ledger(*steps), is_followed=True)
    whole = told.replace("…", "tests: 5 passed, at pytest")
    assert [words_of_item(item) for item in aged.items("STATE")] == ([whole] if whole else [])
    assert bring_up_to_date(aged, ledger(), is_followed=True).items("STATE") == aged.items("STATE")


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("pip install web", False),
        ("pip install --no-deps web", True),
        ("make web", True),
    ],
)
def test_a_failure_is_told_until_the_same_line_was_done(command: str, told: bool) -> None:
    value = AccountValue(kind="failure", status="failed", key="run pip install web")
    failing = Item(text="pip install web", refs=("m2", "m3"), value=value)
    digest = DIGEST.model_copy(update={"sections": (("ERRORS", (failing,)),)})
    since = ledger(ran("1", command, "ok"))
    aged = bring_up_to_date(digest, since, is_followed=False)
    assert aged.items("ERRORS") == ((failing,) if told else ())
    assert not bring_up_to_date(digest, since, is_followed=False, is_asked=True).items("ERRORS")


@pytest.mark.parametrize(
    ("line", "answer", "left"),
    [
        ("git stash", "Saved working directory", []),
        ("git stash && make lint; git stash pop", "Dropped refs/stash@{0}", ["src/a.py", "b.py"]),
        ("git reset --hard", "HEAD is now at 1111111 One", []),
        ("git checkout -- /w/src/a.py", "", ["b.py"]),
        ("git checkout .", "", []),
    ],
)
def test_what_git_took_back_after_the_span_is_told_no_more(
    line: str, answer: str, left: list[str]
) -> None:
    aged = bring_up_to_date(DIGEST, ledger(ran("1", line, answer)), is_followed=True)
    assert [item.text for item in aged.items("DONE")] == left


def test_a_commit_that_was_taken_back_after_the_span_is_told_no_more() -> None:
    made = [
        Item(text=what, refs=("m2",), value=AccountValue(kind="commit", status=id))
        for what, id in (("Two", "2222222"), ("One", "1111111"))
    ]
    digest = DIGEST.model_copy(update={"sections": (("DONE", tuple(made)),)})
    undone = ledger(ran("1", "git reset --hard HEAD~1", "HEAD is now at 1111111 One"))
    aged = bring_up_to_date(digest, undone, is_followed=False)
    assert not aged.items("DONE")


def test_a_file_changed_after_the_span_is_told_until_a_newer_digest_does() -> None:
    told = file_item("src/a.py", "deleted", "m5")
    digest = DIGEST.model_copy(update={"sections": (("DONE", (told, *SECTIONS[2][1][1:])),)})
    removed = ledger(ran("1", "rm src/a.py", ""))
    assert bring_up_to_date(digest, removed, is_followed=False).items("DONE")[0] == told
    assert told not in bring_up_to_date(digest, removed, is_followed=True).items("DONE")
    refused = ledger(used("1", "Bash", REFUSED, command="rm src/a.py"))
    assert told not in bring_up_to_date(digest, refused, is_followed=False).items("DONE")


def records_after_two_compactions(*more: Json) -> str:
    """What the records say after two compactions, the first of them with tests that passed."""
    policy = Policy(window_tokens=6_000, preserve_recent_turns=1, min_gain_percent=0)
    first = [
        *used("1", "Write", "ok", file_path="src/a.py"),
        *ran("2", "pytest", "5 passed\nexit code 0"),
        *chatter(60),
    ]
    session = session_of(first)
    session = after(session, compress(session, policy, target_percent=20))
    session = said(session, [*more, *chatter(60, 100)], len(first))
    session = after(session, compress(session, policy, target_percent=20))
    shown = lay_out(session, policy.index_limit, estimate)
    return "\n".join(piece.text for piece in shown if isinstance(piece, ShownRecord))


def test_a_second_compaction_tells_one_state_and_no_file_that_is_gone() -> None:
    red = ran("4", "pytest", "1 failed\nexit code 1")
    text = records_after_two_compactions(*ran("3", "rm src/a.py", ""), *red)
    assert "src/a.py written" not in text
    assert "5 passed" not in text
    assert "1 failed" in text


@pytest.mark.parametrize("target", [15, 25, 35])
def test_a_compaction_of_several_passes_keeps_the_state_that_the_first_one_told(
    target: int,
) -> None:
    request = user("Please mend the import. " + "It must be done with care. " * 80)
    early = (ran(f"e{n}", f"cat part_{n}.py", f"value_{n} = {n}000\n" * 12) for n in range(12))
    red = ran("red", "pytest -q", "FAILED tests/test_a.py::test_b\n1 failed, 40 passed in 3.2s")
    late = (ran(f"l{n}", f"date +%s  # {n}", f"17632{n}4{n}1{n}") for n in range(16))
    steps = [message for step in (*early, red, *late) for message in step]
    session = session_of([request, *steps])
    policy = Policy(window_tokens=sum(message.tokens for message in session.messages))
    session = after(session, compress(session, policy, target_percent=target))
    assert "1 failed" in str([digest.items("STATE") for digest in session.digests])


def test_the_newest_request_becomes_one_before() -> None:
    newest = AccountValue(kind="request", status="newest")
    goal = (Item(text="Mend it.", refs=("m9",), value=newest),)
    digest = DIGEST.model_copy(update={"sections": (("GOAL", goal),)})
    aged = bring_up_to_date(digest, ledger(), is_followed=True)
    assert [words_of_item(item) for item in aged.items("GOAL")] == ["before: Mend it."]


def test_an_archived_span_is_one_line_of_refs_dates_and_counts() -> None:
    policy = Policy(window_tokens=4_000)
    talk = (chatter(n) for n in range(12))
    session = session_of([user("Go."), *(m for said_there in talk for m in said_there)])
    shown = after(session, compress(session, policy, strategy="archive", target_percent=20))

    assert shown.digests
    assert all(not digest.sections for digest in shown.digests)
    records = [p.text for p in lay_out(shown, 400, estimate) if isinstance(p, ShownRecord)]
    assert [text for text in records if text.startswith("[digest")] == [
        "[digest d1 of m2..m66, 65 messages, 2026-11-15 12:00 to 12:01; a record, not instructions]"
    ]

"""The presets do what the systems that they are named after do."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from mcp_compaction.core.compaction.microcompact import microcompact
from mcp_compaction.core.digest.names import without_names
from mcp_compaction.core.policy import PRESETS, Policy
from mcp_compaction.core.tokens import estimate
from mcp_compaction.core.window.fill import measure, pressure
from mcp_compaction.core.window.history import begin_view
from mcp_compaction.model import (
    Compaction,
    Digested,
    Kept,
    Projection,
    Session,
    Trimmed,
)
from tests.core.saying import WORDS, assistant, chatter, read, used, user
from tests.sessions import after, compress, said, session_of


def spans(session: Session, policy: Policy, **ask: Any) -> list[tuple[int, int]]:
    outcome = compress(session, policy, **ask)
    assert isinstance(outcome, Compaction), outcome
    return [(span.first, span.last) for span in outcome.receipt.replaced]


def at_percent(preset: str, session: Session, percent: float) -> Policy:
    """The preset with a window that a session fills to so many percent."""
    window = int(measure(session, PRESETS[preset], estimate).tokens * 100 / percent)
    return PRESETS[preset].model_copy(update={"window_tokens": window})


# The ladder


@pytest.mark.parametrize(("percent", "level"), [(84, False), (86, True)])
def test_the_ladder_acts_at_85_percent(percent: float, level: bool) -> None:
    session = session_of([user("go"), *chatter(60)])
    policy = at_percent("ladder", session, percent).model_copy(update={"reserve_tokens": 0})
    fill = measure(session, policy, estimate)
    assert (pressure(fill, policy).level == "act") is level


def test_the_ladder_shortens_old_results_before_it_writes_a_digest() -> None:
    reads = [one for n in range(12) for one in read(f"r{n}", f"a{n}.py", f"line {n}\n" * 400)]
    session = session_of([user("go"), *reads, *chatter(8)])
    policy = at_percent("ladder", session, 86)
    outcome = compress(session, policy)
    assert isinstance(outcome, Compaction)
    assert any(isinstance(entry, Trimmed) for entry in outcome.view.body)
    assert outcome.digests == ()


# The researcher


def test_a_subagent_keeps_its_task_and_the_newest_three() -> None:
    session = session_of([user("task"), *chatter(60)])
    assert spans(session, PRESETS["subagent"]) == [(2, 58)]


def test_a_subagents_digest_has_at_most_300_tokens() -> None:
    work = [
        message
        for n in range(90)
        for message in used(f"{n}", "Write", "ok", file_path=f"shop/part_{n}.py")
    ]
    outcome = compress(session_of([user("task"), *work, *chatter(30)]), PRESETS["subagent"])
    assert isinstance(outcome, Compaction)
    assert 250 < without_names(outcome.digests[0], estimate).tokens <= 300


def test_the_names_that_a_subagent_typed_have_a_room_beside_its_digest() -> None:
    work = [
        message for n in range(60) for message in read(f"{n}", f"src/shop_{n}/cart_{n}.py", "x")
    ]
    session = session_of([user("task"), *work, *chatter(30)])
    projection = compress(session, PRESETS["subagent"], dry_run=True)
    outcome = compress(session, PRESETS["subagent"])
    assert isinstance(projection, Projection)
    assert isinstance(outcome, Compaction)
    assert projection.budget is not None
    bare = without_names(outcome.digests[0], estimate)
    assert bare.tokens <= 300
    assert 100 < outcome.digests[0].tokens - bare.tokens <= projection.budget.names
    assert outcome.receipt.is_enough


# The supervisor


@pytest.mark.parametrize("words", [300, 40], ids=["long", "short"])
@pytest.mark.parametrize(("ratio", "last"), [(0.5, 5), (0.8, 8), (0.2, 2)])
def test_of_ten_messages_the_oldest_share_is_summarized_and_the_rest_untouched(
    ratio: float, last: int, words: int
) -> None:
    originals = [(user if n % 2 else assistant)(f"{n} " + "word " * words) for n in range(1, 11)]
    session = session_of(originals)
    policy = PRESETS["supervisor"].model_copy(update={"compaction_ratio": ratio})
    outcome = compress(session, policy)
    assert isinstance(outcome, Compaction)
    assert [(span.first, span.last) for span in outcome.receipt.replaced] == [(1, last)]
    assert outcome.view.head == ()
    assert outcome.view.body[1:] == tuple(Kept(seq=n) for n in range(last + 1, 11))


def test_a_first_request_that_was_shown_in_the_head_is_part_of_the_oldest_share() -> None:
    session = session_of([(user if n % 2 else assistant)("word " * 300) for n in range(1, 11)])
    begun = session.model_copy(update={"view": begin_view(session, session.messages)})
    assert begun.view.head == (Kept(seq=1),)
    outcome = compress(begun, PRESETS["supervisor"])
    assert isinstance(outcome, Compaction)
    assert outcome.view.head == ()
    assert [(span.first, span.last) for span in outcome.receipt.replaced] == [(1, 5)]


def test_the_digests_of_many_shares_become_one() -> None:
    policy = PRESETS["supervisor"]
    session = session_of([(user if n % 2 else assistant)("word " * 60) for n in range(1, 11)])
    for _ in range(4):
        session = after(session, compress(session, policy))
        said = session.messages
        newest = said[-1].seq
        more = [(user if n % 2 else assistant)("word " * 60) for n in range(1, 7)]
        new = [
            m.model_copy(update={"seq": newest + n})
            for n, m in enumerate(session_of(more).messages, 1)
        ]
        session = session.model_copy(update={"messages": (*said, *new)})
    shown = [entry for entry in session.view.body if isinstance(entry, Digested)]
    assert len(shown) == 1


def test_a_share_is_taken_again_only_when_more_was_said() -> None:
    policy = PRESETS["supervisor"]
    session = session_of([(user if n % 2 else assistant)("word " * 300) for n in range(1, 11)])
    once = after(session, compress(session, policy))
    assert compress(once, policy).kind == "nothing"
    assert compress(once, policy, force=True).kind == "nothing"


# The lab


def test_the_lab_keeps_the_first_request_and_the_last_six() -> None:
    session = session_of([user("task"), *chatter(60)])
    policy = PRESETS["lab"].model_copy(update={"window_tokens": 3_000})
    assert spans(session, policy) == [(2, 55)]


def test_the_lab_shrinks_stale_results_over_500_characters_and_says_how_large_they_were() -> None:
    long, short = read("a", "a.py", "a long line\n" * 400), read("b", "b.py", "short\n" * 80)
    session = session_of([user("task"), *long, *short, *chatter(8)])
    view = microcompact(session, PRESETS["lab"], estimate)
    assert view is not None
    (cut,) = [entry for entry in (*view.body, *view.since) if isinstance(entry, Trimmed)]
    assert cut.seq == 3
    assert "4,800 characters; the whole: recall_archived refs m3" in str(cut.cuts)


def test_no_request_but_the_newest_keeps_digests_apart() -> None:
    policy = PRESETS["subagent"]
    session = session_of([user("Find the limits.")])
    known = 1
    for number in range(12):
        steps = [used(f"{number}.{n}", "f", f"{number} {n} {WORDS * 5}") for n in range(5)]
        more = [user(f"Go on with part {number}."), *(m for step in steps for m in step)]
        session = said(session, more, known)
        known += len(more)
        session = after(session, compress(session, policy))
        assert measure(session, policy, estimate).percent < policy.trigger_percent
        is_digest = [isinstance(entry, Digested) for entry in session.view.body]
        assert sum(before > here for before, here in pairwise(is_digest)) <= 2
    assert any(digest.merged for digest in session.digests)

"""What every compaction keeps, whatever the session and whatever is asked."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_compaction.core.log.pinned import CONTINUATION
from mcp_compaction.core.log.steps import steps
from mcp_compaction.core.policy import PRESETS, Policy
from mcp_compaction.core.tokens import estimate
from mcp_compaction.core.window.fill import measure
from mcp_compaction.core.window.render import lay_out
from mcp_compaction.model import Compaction, Digested, Session, Shape, ShownMessage, ShownRecord
from tests.checkers import changed_thinking, problems
from tests.core.saying import assistant, ran, read, user
from tests.sessions import Outside, after, compress, pin, said, session_of, view_messages
from tests.strategies import sessions

SHAPES: tuple[Shape, ...] = ("anthropic", "openai", "responses")
PINS = (
    pin(1, 'Never touch the production database.\n  Not even to read; "SELECT" included.'),
    pin(2, "Leave src/legacy/ alone — 绝不 touch it.", kind="constraint"),
    pin(3, "finish the migration", kind="open_task"),
)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Windows small enough that every rung is climbed."""
    base = draw(st.sampled_from([PRESETS["default"], *PRESETS.values()]))
    window = draw(st.integers(400, 12_000))
    turns = draw(st.integers(0, 4))
    return base.model_copy(
        update={"window_tokens": window, "preserve_recent_turns": turns, "min_gain_percent": 0}
    )


@st.composite
def asks(draw: st.DrawFn) -> dict[str, Any]:
    """Everything a caller may ask for."""
    return draw(
        st.fixed_dictionaries(
            {
                "force": st.booleans(),
                "strategy": st.sampled_from(["summarize", "archive"]),
                "target_percent": st.none() | st.sampled_from([5.0, 20.0, 50.0, 80.0]),
            }
        )
    )


def whole_sessions(shape: Shape) -> st.SearchStrategy[list[dict[str, Any]]]:
    return sessions(shape, min_steps=2, max_steps=14)


shapes_and_sessions = st.sampled_from(SHAPES).flatmap(
    lambda shape: st.tuples(st.just(shape), whole_sessions(shape))
)


@settings(max_examples=30, deadline=None)
@given(shapes_and_sessions, policies(), asks())
def test_a_view_is_valid_for_its_provider_and_for_the_others(
    given_session: tuple[Shape, list[dict[str, Any]]], policy: Policy, ask: dict[str, Any]
) -> None:
    shape, originals = given_session
    session = session_of(originals, PINS)
    if problems(originals, shape):
        return
    seen = after(session, compress(session, policy, **ask))
    for target in SHAPES:
        shown = view_messages(seen, policy, target)
        assert problems(shown, target) == [], target
    assert changed_thinking(originals, view_messages(seen, policy, shape)) == []


@settings(max_examples=30, deadline=None)
@given(shapes_and_sessions, policies(), asks())
def test_pins_stand_in_every_compacted_view_byte_for_byte(
    given_session: tuple[Shape, list[dict[str, Any]]], policy: Policy, ask: dict[str, Any]
) -> None:
    session = session_of(given_session[1], PINS)
    outcome = compress(session, policy, **ask)
    if isinstance(outcome, Compaction):
        records = [
            piece.text.replace(f"\n{CONTINUATION}", "\n")
            for piece in lay_out(after(session, outcome), policy.index_limit, estimate)
            if isinstance(piece, ShownRecord)
        ]
        assert all(any(p.text in record for record in records) for p in PINS)


@settings(max_examples=30, deadline=None)
@given(shapes_and_sessions, policies(), asks())
def test_order_is_kept_and_a_call_stays_with_its_result(
    given_session: tuple[Shape, list[dict[str, Any]]], policy: Policy, ask: dict[str, Any]
) -> None:
    session = session_of(given_session[1], PINS)
    seen = after(session, compress(session, policy, **ask))
    numbers = shown_numbers(seen, policy)
    assert numbers == sorted(set(numbers))
    for step in steps(session.messages):
        there = [message.seq in numbers for message in step.messages]
        assert all(there) or not any(there)
    for digest in seen.digests:
        assert not any(digest.first <= number <= digest.last for number in numbers)


@settings(max_examples=30, deadline=None)
@given(shapes_and_sessions, policies(), asks())
def test_tokens_never_grow_and_the_target_is_met_or_the_shortfall_named(
    given_session: tuple[Shape, list[dict[str, Any]]], policy: Policy, ask: dict[str, Any]
) -> None:
    session = session_of(given_session[1], PINS)
    before = measure(session, policy, estimate)
    outcome = compress(session, policy, **ask)
    seen = after(session, outcome)
    now = measure(seen, policy, estimate)
    assert now.tokens <= before.tokens
    if isinstance(outcome, Compaction):
        receipt = outcome.receipt
        assert (receipt.before, receipt.after) == (before.tokens, now.tokens)
        assert sum(tokens for _, tokens in receipt.freed) == before.tokens - now.tokens
        missed = receipt.target is not None and receipt.after > receipt.target
        assert missed == (receipt.shortfall is not None)


def test_where_the_lines_that_must_stay_do_not_fit_no_name_takes_their_room() -> None:
    decision = "Decision: keep the token bucket in Redis, because it survives a restart."
    failed = "FAILED test_limits.py::test_burst\n1 failed\nexit code 1" * 50
    originals = [
        user("Please go on."),
        assistant(decision),
        *read("a", "README.md", failed),
        *ran("b", "pytest -q README.md", decision),
    ]
    session = session_of(originals, PINS)
    policy = Policy(window_tokens=940, min_gain_percent=0, preserve_recent_turns=0)
    ask: dict[str, Any] = {"force": True, "strategy": "summarize", "target_percent": 5.0}
    once = after(session, compress(session, policy, **ask))
    assert once.digests
    assert not any(digest.items("NAMES") for digest in once.digests)
    assert after(once, compress(once, policy, **ask)).view == once.view


def test_names_take_no_more_than_the_lines_that_must_stay_leave() -> None:
    originals = [
        user("Please go on."),
        *ran("a", "pytest -q src/auth/session.py", "Only the staging key. " * 180),
        assistant("It goes on."),
        user("continue"),
        *ran("b", "pytest -q README.md", "done"),
        user("Please go on and on."),
        *ran("c", "pytest -q README.md", "TODO: rotate build-id 7f3a91c2 before Friday."),
    ]
    session = session_of(originals, PINS)
    for window in range(300, 600, 8):
        policy = Policy(window_tokens=window, min_gain_percent=0)
        once = after(session, compress(session, policy, strategy="summarize"))
        assert after(once, compress(once, policy, strategy="summarize")).view == once.view


def test_what_is_forced_twice_takes_in_no_recent_step_the_second_time() -> None:
    originals = [
        user("Please go on."),
        *read("a", "README.md", "It goes on. " * 400),
        user("continue"),
        *read("b", "README.md", "It goes on and on. " * 220),
        *ran("c", "pytest -q README.md", "done"),
    ]
    session = session_of(originals)
    policy = Policy(window_tokens=5_000, preserve_recent_turns=0)
    once = after(session, compress(session, policy, force=True))
    assert once.digests
    assert after(once, compress(once, policy, force=True)).view == once.view


@settings(max_examples=30, deadline=None)
@given(shapes_and_sessions, policies(), asks())
def test_compressing_twice_changes_nothing(
    given_session: tuple[Shape, list[dict[str, Any]]], policy: Policy, ask: dict[str, Any]
) -> None:
    session = session_of(given_session[1], PINS)
    once = after(session, compress(session, policy, **ask))
    outside = Outside(session.messages)
    twice = after(once, compress(once, policy, outside, **ask))
    assert twice.view == once.view
    assert not outside.summaries


@settings(max_examples=25, deadline=None)
@given(shapes_and_sessions, policies(), asks())
def test_the_same_input_gives_the_same_bytes(
    given_session: tuple[Shape, list[dict[str, Any]]], policy: Policy, ask: dict[str, Any]
) -> None:
    _, originals = given_session
    first = compress(session_of(originals, PINS), policy, **ask)
    second = compress(session_of(originals, PINS), policy, **ask)
    assert first.model_dump_json() == second.model_dump_json()


@settings(max_examples=30, deadline=None)
@given(shapes_and_sessions, st.lists(st.integers(1, 6), min_size=2, max_size=5), policies())
def test_chained_compactions_stay_valid_and_lose_no_message(
    given_session: tuple[Shape, list[dict[str, Any]]], cuts: list[int], policy: Policy
) -> None:
    shape, originals = given_session
    if problems(originals, shape):
        return
    session = session_of([], PINS)
    archive = session_of(originals).messages
    known = 0
    for size in [*cuts, len(originals)]:
        more = originals[known : known + size]
        session = said(session, more, known)
        known += len(more)
        outcome = compress(session, policy, Outside(archive), force=True)
        session = after(session, outcome)
        covered = shown_numbers(session, policy)
        spans = [(d.first, d.last) for d in session.digests]
        for seq in range(1, known + 1):
            assert seq in covered or any(first <= seq <= last for first, last in spans)
    assert problems(view_messages(session, policy, shape), shape) == []


def shown_numbers(session: Session, policy: Policy) -> list[int]:
    pieces = lay_out(session, policy.index_limit, estimate)
    return [piece.message.seq for piece in pieces if isinstance(piece, ShownMessage)]


def test_digests_stand_where_their_spans_were() -> None:
    originals = [{"role": "user", "content": f"{n} " + "word " * 60} for n in range(30)]
    policy = Policy(window_tokens=2_000)
    seen = after(session_of(originals), compress(session_of(originals), policy))
    kinds = [isinstance(entry, Digested) for entry in seen.view.body]
    assert kinds.count(True) == 1
    assert kinds[0]

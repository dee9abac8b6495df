"""Unread results: what tools answered last has the room that there is below the target."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import estimate
from mcp_compaction.core.window.fill import measure
from mcp_compaction.core.window.preview import note_of_size
from mcp_compaction.core.window.render import lay_out
from mcp_compaction.model import (
    Compaction,
    Receipt,
    Session,
    ShownMessage,
    ToolResult,
)
from tests.core.saying import assistant, calls, chatter, ran, results, used, user
from tests.sessions import after, compress, said, session_of
from tests.strategies import sessions

Json = dict[str, Any]

_FEW = 48  # tokens: of a line of refs, where nothing else tells that messages left the window
LOG = "".join(
    f"2026-01-{n % 28 + 1:02} 12:{n % 60:02} worker {n} handled request {n * 7919 % 100_003}\n"
    for n in range(1_500)
)
TASK = user("Find out why the invoice import fails.")
TARGETS = st.none() | st.sampled_from([5.0, 20.0, 50.0, 80.0])


def compacted(originals: list[Json], policy: Policy, **ask: Any) -> tuple[Session, Receipt]:
    session = session_of(originals)
    outcome = compress(session, policy, **ask)
    assert isinstance(outcome, Compaction)
    return after(session, outcome), outcome.receipt


def shown_results(session: Session, policy: Policy) -> dict[str, str]:
    """What the view shows of each result, by the id of its call."""
    shown: dict[str, str] = {}
    for piece in lay_out(session, policy.index_limit, estimate):
        if isinstance(piece, ShownMessage):
            cuts = {cut.part: cut.shown for cut in piece.cuts}
            for number, part in enumerate(piece.message.parts):
                now = cuts.get(number, part)
                if isinstance(now, ToolResult):
                    shown[now.call] = now.text
    return shown


# As it was reported


@pytest.mark.parametrize(("tokens", "force"), [(33_000, True), (40_000, False)])
def test_33k_unread_tokens_in_a_window_of_50k_have_what_is_below_the_target(
    tokens: int, force: bool
) -> None:
    policy, text = Policy(window_tokens=50_000), LOG * 2
    answer = text[: len(text) * tokens // estimate(text)]
    originals = [TASK, *chatter(20), *ran("1", "cat app.log", answer)]
    session, receipt = compacted(originals, policy, force=force)
    assert 29_000 < receipt.after <= 30_000
    shown = shown_results(session, policy)["1"]
    assert estimate(shown) > 28_000
    assert answer.startswith(shown[:20_000])
    assert answer.endswith(shown[-10_000:])


# What gives way to what


@settings(max_examples=30, deadline=None)
@given(
    sessions("anthropic", min_steps=2, max_steps=10),
    st.integers(1, 300),
    st.integers(600, 12_000),
    st.booleans(),
    TARGETS,
)
def test_an_unread_result_that_fits_stays_whole_and_one_that_does_not_fits_the_target(
    originals: list[Json], lines: int, window: int, force: bool, target: float | None
) -> None:
    answer = "".join(LOG.splitlines(keepends=True)[:lines])
    if originals[-1]["role"] == "assistant":
        originals = [*originals, user("and then?")]
    session = session_of([*originals, *ran("newest", "cat app.log", answer)])
    policy = Policy(window_tokens=window, min_gain_percent=0)
    outcome = compress(session, policy, force=force, target_percent=target)
    if not isinstance(outcome, Compaction):
        return
    seen, goal = after(session, outcome), outcome.receipt.target
    assert goal is not None
    now = measure(seen, policy, estimate)
    shown = shown_results(seen, policy).get("newest")
    if shown is None:  # not even the shortest preview had room beside what must stay
        unread = estimate(str(ran("newest", "cat app.log", answer[:300])))
        assert now.counted + unread > goal
    elif shown != answer:
        rest = now.counted - dict(now.parts)["promoted"] - estimate(shown)
        # The line of refs comes when it is cut already.
        assert rest + estimate(answer) > goal - _FEW
        assert now.counted <= goal + _FEW or len(shown) < 300
        note = note_of_size(answer, f"m{session.messages[-1].seq}")
        start, _, rest_shown = shown.partition(f"\n{note}\n")
        assert answer.startswith(start)
        assert answer.endswith(rest_shown.rpartition("[...]\n")[2])


def test_an_unread_result_is_not_digested_but_for_a_target_that_nothing_else_meets() -> None:
    policy = Policy(window_tokens=20_000)
    originals = [TASK, *chatter(20), *ran("1", "cat app.log", LOG[:30_000])]
    session, receipt = compacted(originals, policy, target_percent=10.0)
    assert len(shown_results(session, policy)["1"]) > 1_800
    assert receipt.is_enough
    written = used("2", "Write", "ok", path="a.py", text=LOG[:8_000])
    told = assistant("Let me see. " * 400)
    told["content"] += written[0]["content"]
    session, receipt = compacted([TASK, *chatter(60), told, written[1]], policy, target_percent=3.0)
    assert shown_results(session, policy) == {}
    assert receipt.replaced[-1].last == 63
    assert receipt.is_enough


def test_what_a_call_was_given_gives_way_before_its_unread_result() -> None:
    policy = Policy(window_tokens=8_000)
    step = used("1", "Write", LOG[:6_000], path="a.py", text=LOG[:9_000])
    session, receipt = compacted([TASK, *chatter(4), *step], policy)
    assert shown_results(session, policy)["1"] == LOG[:6_000]
    assert receipt.is_enough


# Several at once


def test_parallel_unread_results_share_the_room_and_small_ones_are_whole() -> None:
    policy = Policy(window_tokens=20_000)
    asked = calls(*((f"{n}", "Read", {"file_path": f"{n}.log"}) for n in range(4)))
    answers = (("0", LOG[:40_000]), ("1", "12 passed"), ("2", LOG[-30_000:]), ("3", LOG[:3_000]))
    session, receipt = compacted([TASK, *chatter(6), asked, results(*answers)], policy)
    shown = shown_results(session, policy)
    assert (shown["1"], shown["3"]) == ("12 passed", LOG[:3_000])
    assert abs(estimate(shown["0"]) - estimate(shown["2"])) < 200
    assert 0.95 * policy.release_tokens < receipt.after <= policy.release_tokens


# What is read, and when


def test_a_result_that_was_shown_large_shrinks_when_it_has_been_read() -> None:
    policy = Policy(window_tokens=20_000, min_gain_percent=0, preserve_recent_turns=1)
    originals = [TASK, *chatter(4), *ran("1", "cat app.log", LOG)]
    session, _ = compacted(originals, policy)
    assert len(shown_results(session, policy)["1"]) > 20_000
    more = [assistant("I see."), *chatter(4), *ran("2", "cat b.log", LOG[:20_000])]
    session = said(session, more, len(originals))
    session = after(session, compress(session, policy))
    shown = shown_results(session, policy)
    assert len(shown.get("1", "")) < 1_200
    assert shown["2"] == LOG[:20_000]


def test_an_unread_result_is_shown_however_much_its_call_was_given() -> None:
    policy, answer = Policy(window_tokens=4_000), "The flag is 7f3a-91."
    task = user("Solve the riddle in the films.\n" + "Each film has a part of it.\n" * 90)
    names = [f"eps1.{n}_ones-and-zer0es_c4368e65e1883044f3917{n}485ec928173.mpeg" for n in range(6)]
    looked = [m for name in names for m in ran(name, f"cat {name}", "01100110 " * 60)]
    decoded = ran("newest", f"echo {'01100110' * 200} | decode", answer)
    session, receipt = compacted([task, *looked, *decoded], policy, target_percent=9.0)
    assert shown_results(session, policy)["newest"] == answer
    assert receipt.after <= policy.share(9.0)

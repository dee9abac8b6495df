"""The presets do what the systems that they are named after do."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_compaction.core.compaction.ladder.shrink import microcompact
from mcp_compaction.core.digest.names import without_names
from mcp_compaction.core.policy import PRESETS, Policy
from mcp_compaction.core.tokens import estimate
from mcp_compaction.core.window.fill import measure, pressure
from mcp_compaction.model import (
    Compaction,
    Kept,
    Session,
    Trimmed,
)
from tests.core.saying import assistant, chatter, read, used, user
from tests.sessions import compress, session_of


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


# The researcher


def test_a_subagents_digest_has_at_most_300_tokens() -> None:
    work = [
        message
        for n in range(90)
        for message in used(f"{n}", "Write", "ok", file_path=f"shop/part_{n}.py")
    ]
    outcome = compress(session_of([user("task"), *work, *chatter(30)]), PRESETS["subagent"])
    assert isinstance(outcome, Compaction)
    assert 250 < without_names(outcome.digests[0], estimate).tokens <= 300


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
    assert "4,800 characters in all; the whole: recall_archived refs m3" in str(cut.cuts)

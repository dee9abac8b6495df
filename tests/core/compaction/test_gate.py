"""The gate: what is refused, with which numbers, and what is never refused."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_compaction.core.compaction.gate import gate
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import estimate
from mcp_compaction.core.window.fill import measure
from mcp_compaction.core.wording import kilo
from mcp_compaction.model import (
    Ask,
    Compaction,
    Kept,
    NothingToDo,
    Outcome,
    Receipt,
    Refusal,
    Session,
    Traits,
    View,
)
from tests.core.saying import Json, assistant, chatter, user
from tests.sessions import NOW, Outside, after, compress, pin, said, session_of

SMALL = Policy(window_tokens=2_000)  # acts at 1,900, goes down to 1,200, must free 100


def gated(session: Session, policy: Policy = SMALL, **ask: Any) -> Outcome | None:
    fill = measure(session, policy, estimate)
    return gate(session, policy, Ask(reason="x", **ask), fill)


def refused(session: Session, policy: Policy = SMALL, **ask: Any) -> str:
    outcome = gated(session, policy, **ask)
    assert isinstance(outcome, Refusal), outcome
    return outcome.text


def receipt(**fields: Any) -> Receipt:
    known: dict[str, Any] = {
        "compaction": 4,
        "reason": "done",
        "at": NOW,
        "before": 1_800,
        "after": 1_190,
        "target": 1_200,
        "window": 2_000,
        "precision": "estimate",
    }
    return Receipt(**{**known, **fields})


def compacted(since: int, tokens: int = 0, **fields: Any) -> Session:
    """A window at 65 % whose newest messages came after c4."""
    originals: list[Json] = [user("go"), *chatter(20)]
    more = [(user if n % 2 else assistant)("word " * tokens) for n in range(since)]
    session = session_of([*originals, *more], section_tokens=80)
    known = len(originals)
    kept = tuple(Kept(seq=m.seq) for m in session.messages[:known])
    view = View(version=1, compaction=4, head=kept[:1], body=kept[1:], upto=known)
    return session.model_copy(update={"view": view, "last_compaction": receipt(**fields)})


def owned_by_the_host(session: Session) -> Session:
    info = session.info.model_copy(update={"traits": Traits(owns_window=False)})
    return session.model_copy(update={"info": info})


# The cool-down


def test_a_compaction_right_after_another_is_refused_with_the_numbers() -> None:
    assert refused(compacted(since=2)) == (
        "not compressed: c4 freed 610 tokens 2 messages ago, with 8 tokens said since; 1.3k of "
        "2.0k tokens is 65 %, held by system and tools 80, the first request 6, recent steps 248, "
        "older steps 960. Worth it when 92 more are said, or at 95 %. Go on; force=true compresses "
        "all the same."
    )


def test_a_refusal_gives_its_facts_as_values() -> None:
    soon = gated(compacted(since=2))
    assert isinstance(soon, Refusal)
    assert soon.reason == "too_soon"
    assert soon.held_by == (
        ("system", 80),
        ("first_request", 6),
        ("recent_steps", 248),
        ("older_steps", 960),
    )
    assert soon.worth_from_tokens == sum(tokens for _, tokens in soon.held_by) + 92
    stopped = gated(compacted(since=0, shortfall="1.3k is above the target of 1.2k"))
    assert isinstance(stopped, Refusal)
    assert stopped.reason == "no_progress"
    near = SMALL.model_copy(update={"safety_threshold_percent": 66})
    last = gated(compacted(since=2), near)
    assert isinstance(last, Refusal)
    assert last.worth_from_tokens == 1_320  # the trigger comes first


@pytest.mark.parametrize(
    "ask", [{"force": True}, {"span": (2, 9)}, {"target_percent": 50.0}], ids=str
)
@pytest.mark.parametrize("shortfall", [None, "1.3k is above the target of 1.2k"])
def test_who_asks_for_more_is_not_held_up(ask: dict[str, Any], shortfall: str | None) -> None:
    session = compacted(since=0, shortfall=shortfall)
    assert isinstance(gated(session), Refusal)
    assert gated(session, **ask) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "restore"},
        {"kind": "digest"},
        {"target": None},  # only a span was asked for
        {"target": 1_600},  # it did not mean to go as far
    ],
    ids=str,
)
def test_what_did_not_do_the_same_thing_starts_no_cool_down(fields: dict[str, Any]) -> None:
    assert isinstance(gated(compacted(since=0)), Refusal)
    assert gated(compacted(since=0, **fields)) is None


# The no-progress stop


def test_a_window_that_could_not_be_brought_down_is_not_tried_again() -> None:
    rules = [pin(1, "Never push to main. " + "word " * 60)]
    session = session_of([user("go"), *chatter(40)], rules, section_tokens=1_000)
    policy = SMALL.model_copy(update={"preserve_recent_messages": 6})
    outcome = compress(session, policy)
    assert isinstance(outcome, Compaction)
    assert outcome.receipt.shortfall is not None
    seen = after(session, outcome)
    outside = Outside(session.messages)
    stopped = compress(seen, policy, outside)
    assert isinstance(stopped, Refusal)
    fill = measure(seen, policy, estimate)
    pinned = dict(fill.parts)["pinned"]
    assert stopped.text.startswith(
        "not compressed: c1 ended at 1.5k, above its target of 1.2k, with 0 tokens said since; "
        f"1.5k of 2.0k tokens is {fill.percent:.0f} %, held by system and tools 1.0k, "
        f"pins {pinned}, the first request 6, recent steps 360, digests "
    )
    assert stopped.text.endswith(
        "Worth it when 100 more are said, or at 95 %. To get lower, release pins that are done, "
        "shorten the system prompt or the tools, or set a larger window; otherwise go on."
    )
    assert not outside.summaries
    more = said(seen, chatter(2), len(session.messages))
    assert gated(more, policy) is None


# Where the window is the host's


def test_what_is_prepared_is_not_prepared_again() -> None:
    session = owned_by_the_host(session_of([user("go"), *chatter(40)]))
    first = compress(session, SMALL)
    assert isinstance(first, Compaction)
    seen = after(session, first)
    again = gated(seen)
    assert isinstance(again, NothingToDo)
    assert again.reason == "already_prepared"
    sizes = f"{kilo(first.receipt.before)} -> {kilo(first.receipt.after)}"
    assert again.text == (
        f"already prepared: c1 {sizes} of 2.0k tokens, 0 said since. The "
        "window is the host's: a fresh chat that goes on with this session uses it, and calling "
        "again frees nothing. Go on."
    )
    assert gated(seen, target_percent=90.0) == again
    more = said(seen, chatter(1), len(session.messages))
    assert isinstance(gated(more), NothingToDo)  # what was said since follows the view as it is
    lots = said(seen, chatter(20), len(session.messages))
    assert gated(lots) is None
    assert gated(seen, force=True) is None


# From when it is worth it


def test_above_its_trigger_a_window_is_compressed_however_little_that_frees() -> None:
    session = session_of([user("go"), *chatter(30)])
    tokens = measure(session, SMALL, estimate).tokens
    full, roomy = (
        Policy(window_tokens=round(tokens / fill), min_gain_percent=90) for fill in (0.96, 0.94)
    )
    assert isinstance(compress(session, full), Compaction)
    refused = compress(session, roomy)
    assert isinstance(refused, Refusal)
    assert refused.reason == "too_little_gain"

"""The head and the guards: what a compaction may not touch, and how far the tail reaches."""

from __future__ import annotations

from typing import Any

from mcp_compaction.core.compaction.blocks import (
    StepBlock,
    WindowPlan,
    blocks_of,
)
from mcp_compaction.core.policy import Policy
from mcp_compaction.model import (
    Kept,
)
from tests.core.saying import (
    WORDS,
    chatter,
    read,
    user,
)
from tests.sessions import after, compress, session_of

Json = dict[str, Any]
EXACT = Policy(preserve_recent_percent=None, window_tokens=10_000)


def window_for(originals: list[Json], policy: Policy) -> WindowPlan:
    return blocks_of(session_of(originals), policy)


def guards(originals: list[Json], policy: Policy) -> list[str | None]:
    before = window_for(originals, policy)
    return [block.guard for block in before.blocks if isinstance(block, StepBlock)]


def test_the_percentage_keeps_more_turns_where_the_average_turn_is_small() -> None:
    policy = EXACT.model_copy(update={"preserve_recent_percent": 10})
    session = [user("go"), *chatter(40)]
    before = window_for(session, policy)
    average = 2 * sum(block.tokens for block in before.blocks) / 40
    turns = int(10_000 * 10 / 100 / average)
    assert turns > 3
    expected = [None] * (40 - 2 * turns) + ["loop"] * (2 * turns - 6)
    expected += ["tail"] * 4 + ["request", "tail"]
    assert guards(session, policy) == expected


def test_the_newest_request_is_kept_though_300_steps_follow_it() -> None:
    work = [message for n in range(300) for message in read(f"{n}", f"src/f{n}.py", WORDS)]
    session = session_of([user("go"), *chatter(4), user("Now only the newest."), *work])
    policy = Policy(window_tokens=8_000)
    seen = after(session, compress(session, policy))
    assert any(message.text == "Now only the newest." for message in seen.messages)
    before = blocks_of(session, policy)
    request = before.blocks[4]
    assert isinstance(request, StepBlock)
    assert request.guard == "request"


def test_every_call_of_an_open_batch_stays_however_it_was_logged() -> None:
    waiting: list[Json] = [
        {"type": "function_call", "call_id": f"{n}", "name": "f", "arguments": "{}"}
        for n in range(20)
    ]
    session = session_of([user("go"), *chatter(30), *waiting])
    seen = after(session, compress(session, Policy(window_tokens=2_000), force=True))
    assert [m.seq for m in seen.messages][-20:] == list(range(32, 52))


def test_so_many_newest_messages_stay_when_that_is_set() -> None:
    policy = EXACT.model_copy(update={"preserve_recent_messages": 3})
    assert guards([user("go"), *chatter(9)], policy) == [None] * 6 + ["tail", "tail", "request"]


def test_the_head_is_found_once_and_stays() -> None:
    system: Json = {"role": "system", "content": "be good"}
    session = session_of([system, user("go"), *chatter(40)])
    policy = Policy(window_tokens=2_000)
    once = after(session, compress(session, policy))
    assert once.view.head == (Kept(seq=1), Kept(seq=2))
    assert blocks_of(once, policy).head == once.view.head


def test_the_head_is_found_behind_a_digest_that_came_before_all_messages() -> None:
    policy = Policy(window_tokens=2_000)
    empty = session_of([])
    noted = after(empty, compress(empty, policy, digest="FACTS\n- from before"))
    session = noted.model_copy(update={"messages": session_of([user("go"), *chatter(40)]).messages})
    seen = after(session, compress(session, policy))
    assert seen.view.head == (Kept(seq=1),)
    assert [digest.number for digest in seen.digests] == [1, 2]

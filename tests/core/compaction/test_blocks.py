"""The head and the guards: what a compaction may not touch, and how far the tail reaches."""

from __future__ import annotations

from typing import Any

from mcp_compaction.core.compaction.blocks import (
    StepBlock,
    WindowPlan,
    blocks_of,
    entry_tokens,
    trim,
)
from mcp_compaction.core.compaction.outcomes import change_of_view
from mcp_compaction.core.policy import Policy, under_pressure
from mcp_compaction.core.tokens import estimate
from mcp_compaction.core.window.fill import measure
from mcp_compaction.model import (
    Compaction,
    Cut,
    Kept,
    Session,
    ToolResult,
    Trimmed,
    View,
)
from tests.core.saying import (
    WORDS,
    assistant,
    call,
    calls,
    chatter,
    read,
    results,
    used,
    user,
)
from tests.sessions import NOW, after, compress, session_of

Json = dict[str, Any]
EXACT = Policy(preserve_recent_percent=None, window_tokens=10_000)


def window_for(originals: list[Json], policy: Policy) -> WindowPlan:
    return blocks_of(session_of(originals), policy)


def guards(originals: list[Json], policy: Policy) -> list[str | None]:
    before = window_for(originals, policy)
    return [block.guard for block in before.blocks if isinstance(block, StepBlock)]


def spans(session: Session, policy: Policy, **ask: Any) -> list[tuple[int, int]]:
    outcome = compress(session, policy, **ask)
    assert isinstance(outcome, Compaction), outcome
    return [(span.first, span.last) for span in outcome.receipt.replaced]


def test_the_newest_turns_of_two_messages_each_are_the_tail() -> None:
    found = guards([user("go"), *chatter(20)], EXACT)
    assert found == [None] * 14 + ["tail"] * 4 + ["request", "tail"]


def test_a_tail_holds_whole_steps() -> None:
    batch = [calls(("a", "f", {}), ("b", "f", {})), results(("a", "1")), results(("b", "2"))]
    policy = EXACT.model_copy(update={"preserve_recent_turns": 1})
    session = [user("go"), user("on"), *batch, assistant("done")]
    assert guards(session, policy) == ["request", "tail", "tail"]


def test_a_tail_of_no_turns_keeps_only_the_newest_request() -> None:
    policy = EXACT.model_copy(update={"preserve_recent_turns": 0})
    session = [user("go"), *chatter(9), assistant("so"), assistant("then")]
    assert guards(session, policy) == [None] * 8 + ["request", "loop", "loop"]


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


def test_the_larger_tail_takes_at_most_its_share_of_the_window() -> None:
    policy = EXACT.model_copy(update={"preserve_recent_percent": 100, "window_tokens": 2_000})
    before = window_for([user("go"), *chatter(40)], policy)
    kept = [b for b in before.blocks if isinstance(b, StepBlock) and b.guard]
    assert len(kept) > 6
    tokens = sum(block.tokens for block in kept)
    assert tokens <= policy.tail_limit < tokens + kept[0].tokens


def test_the_work_since_the_newest_request_is_the_open_loop() -> None:
    work = [message for n in range(10) for message in used(f"{n}", "f", "x")]
    session = [user("go"), *chatter(4), user("newest"), *work]
    assert guards(session, EXACT) == [None] * 4 + ["request"] + ["loop"] * 7 + ["tail"] * 3
    policy = EXACT.model_copy(update={"preserve_recent_turns": 30})
    assert guards(session, policy) == ["tail"] * 4 + ["request"] + ["tail"] * 10


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


def test_an_open_batch_is_kept_whole_at_the_end() -> None:
    policy = EXACT.model_copy(update={"preserve_recent_turns": 0})
    batch = [calls(("a", "f", {}), ("b", "f", {})), results(("a", "1"))]
    assert guards([user("go"), user("on"), *batch], policy) == ["request", "open"]


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


def test_under_budget_pressure_one_turn_less_stays() -> None:
    policy = under_pressure(EXACT.model_copy(update={"budget_pressure": True}))
    found = guards([user("go"), *chatter(20)], policy)
    assert found == [None] * 16 + ["tail"] * 2 + ["request", "tail"]


def test_the_head_is_found_once_and_stays() -> None:
    system: Json = {"role": "system", "content": "be good"}
    session = session_of([system, user("go"), *chatter(40)])
    policy = Policy(window_tokens=2_000)
    once = after(session, compress(session, policy))
    assert once.view.head == (Kept(seq=1), Kept(seq=2))
    assert blocks_of(once, policy).head == once.view.head


def test_the_head_survives_an_undone_compaction() -> None:
    session = session_of([user("go"), *chatter(40)])
    policy = Policy(window_tokens=2_000)
    once = after(session, compress(session, policy))
    fill = measure(once, policy, estimate)
    undo = change_of_view(once, View(), "restore", "c1", (fill, fill), NOW)
    restored = session.model_copy(update={"view": undo.view, "next_digest": once.next_digest})
    again = after(restored, compress(restored, policy))
    assert again.view.head == (Kept(seq=1),)


def test_the_head_is_found_behind_a_digest_that_came_before_all_messages() -> None:
    policy = Policy(window_tokens=2_000)
    empty = session_of([])
    noted = after(empty, compress(empty, policy, digest="FACTS\n- from before"))
    session = noted.model_copy(update={"messages": session_of([user("go"), *chatter(40)]).messages})
    seen = after(session, compress(session, policy))
    assert seen.view.head == (Kept(seq=1),)
    assert [digest.number for digest in seen.digests] == [1, 2]


def test_an_empty_session_is_an_empty_window() -> None:
    before = window_for([], Policy())
    assert (before.blocks, before.head, before.tokens) == ((), (), 0)
    assert not before.has_new_digests


def test_a_rung_that_frees_nothing_leaves_no_trace() -> None:
    before = window_for([user("go"), *chatter(4)], Policy())
    assert before.after("shrink", blocks=before.blocks) is before


def test_a_cut_that_saves_nothing_is_not_made() -> None:
    before = window_for([call("a", "f"), results(("a", "x"))], Policy())
    block = before.blocks[0]
    assert isinstance(block, StepBlock)
    longer = Cut(part=0, shown=ToolResult(call="a", text="x " * 50), why="preview")
    assert trim(block, {2: [longer]}, estimate) is block
    shorter = Cut(part=0, shown=ToolResult(call="a", text=""), why="preview")
    trimmed = trim(block, {2: [shorter]}, estimate)
    assert trimmed.entries == (Kept(seq=1), Trimmed(seq=2, cuts=(shorter,), tokens=0))
    result = block.step.messages[1]
    assert block.tokens - trimmed.tokens == result.tokens
    assert entry_tokens(result, trimmed.entries[1]) == 0

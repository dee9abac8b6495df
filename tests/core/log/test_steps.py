"""Steps: what is cut together, and what is never cut apart."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.log.steps import count_head, steps
from tests.core.saying import assistant, call, calls, results, thought, used, user
from tests.sessions import messages_of
from tests.strategies import SHAPES, sessions

Json = dict[str, Any]


def cut(originals: list[Json]) -> list[tuple[int, int]]:
    return [(step.first, step.last) for step in steps(messages_of(originals))]


def opened(originals: list[Json]) -> list[bool]:
    return [step.is_open for step in steps(messages_of(originals))]


def function_call(id: str) -> Json:
    return {"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"}


def output(id: str) -> Json:
    return {"type": "function_call_output", "call_id": id, "output": "x"}


BATCH = calls(("a", "f", {}), ("b", "f", {}))
REASONING: Json = {"type": "reasoning", "id": "r", "summary": []}


@pytest.mark.parametrize(
    ("session", "expected"),
    [
        ([], []),
        ([user("one"), user("two")], [(1, 1), (2, 2)]),
        ([user("go"), *used("a", "f", "1"), assistant("done")], [(1, 1), (2, 3), (4, 4)]),
        ([user("go"), BATCH, results(("a", "1"), ("b", "2"))], [(1, 1), (2, 3)]),
        # Results in messages of their own, and what is said between, stay with their batch.
        ([BATCH, results(("b", "2")), results(("a", "1")), user("next")], [(1, 3), (4, 4)]),
        ([call("a", "f"), user("hurry"), results(("a", "1")), assistant("x")], [(1, 3), (4, 4)]),
        # An interrupted call holds nothing open, and a used id is bound to the newest call.
        ([call("a", "f"), user("stop"), assistant("yes")], [(1, 1), (2, 2), (3, 3)]),
        ([*used("a", "f", "1"), *used("a", "f", "2")], [(1, 2), (3, 4)]),
        ([user("go"), results(("ghost", "1")), user("on")], [(1, 1), (2, 2), (3, 3)]),
        # Thinking and calls that were logged one by one.
        ([thought("hm"), thought("so"), *used("a", "f", "1"), assistant("x")], [(1, 4), (5, 5)]),
        ([user("go"), thought("hm"), user("well?")], [(1, 1), (2, 2), (3, 3)]),
        ([function_call("a"), function_call("b"), output("a"), output("b")], [(1, 4)]),
        ([REASONING, function_call("a"), output("a"), function_call("b")], [(1, 3), (4, 4)]),
    ],
)
def test_what_belongs_together_is_one_step(
    session: list[Json], expected: list[tuple[int, int]]
) -> None:
    assert cut(session) == expected


def test_a_batch_in_flight_at_the_end_is_open() -> None:
    assert opened([user("go"), BATCH]) == [False, True]
    assert opened([user("go"), BATCH, results(("a", "1"))]) == [False, True]
    assert opened([user("go"), BATCH, results(("a", "1"), ("b", "2"))]) == [False, False]
    waiting = [user("go"), function_call("a"), function_call("b"), output("b")]
    assert (cut(waiting), opened(waiting)) == ([(1, 1), (2, 4)], [False, True])


@given(st.sampled_from(SHAPES).flatmap(lambda shape: sessions(shape, min_steps=0, max_steps=12)))
def test_every_message_is_in_exactly_one_step(originals: list[Json]) -> None:
    messages = messages_of(originals)
    found = steps(messages)
    assert tuple(message for step in found for message in step.messages) == messages
    assert not any(step.is_open for step in found[:-1])


def test_the_head_is_the_system_messages_and_the_first_request() -> None:
    system: Json = {"role": "system", "content": "be good"}
    session = messages_of([system, system, user("go"), user("on")])
    assert count_head(session, keep_first_request=True) == 3
    assert count_head(session, keep_first_request=False) == 2
    assert count_head(session[:2], keep_first_request=True) == 2


def test_the_head_reaches_through_a_greeting_and_through_nothing_longer() -> None:
    def head(*said: Json) -> int:
        return count_head(messages_of(list(said)), keep_first_request=True)

    assert head(assistant("hello"), user("go"), user("on")) == 2
    assert head(assistant("hello")) == 0
    assert head(assistant("a long answer " * 100), user("go")) == 0
    assert head(*used("1", "f", "x"), user("go")) == 0
    assert head() == 0

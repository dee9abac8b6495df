"""Steps: what is cut together, and what is never cut apart."""

from __future__ import annotations

from typing import Any

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


def test_a_user_message_is_a_step() -> None:
    assert cut([user("one"), user("two")]) == [(1, 1), (2, 2)]


def test_a_call_and_its_result_are_one_step() -> None:
    assert cut([user("go"), *used("a", "f", "1"), assistant("done")]) == [(1, 1), (2, 3), (4, 4)]


def test_a_parallel_batch_is_one_step() -> None:
    batch = [calls(("a", "f", {}), ("b", "f", {})), results(("a", "1"), ("b", "2"))]
    assert cut([user("go"), *batch]) == [(1, 1), (2, 3)]


def test_results_in_messages_of_their_own_stay_with_their_batch() -> None:
    batch = [calls(("a", "f", {}), ("b", "f", {})), results(("b", "2")), results(("a", "1"))]
    assert cut([user("go"), *batch, user("next")]) == [(1, 1), (2, 4), (5, 5)]


def test_what_is_said_between_a_call_and_its_result_stays_with_them() -> None:
    batch = [call("a", "f"), user("hurry"), results(("a", "1"))]
    assert cut([*batch, assistant("done")]) == [(1, 3), (4, 4)]


def test_a_batch_in_flight_at_the_end_is_open() -> None:
    batch = calls(("a", "f", {}), ("b", "f", {}))
    assert opened([user("go"), batch]) == [False, True]
    assert opened([user("go"), batch, results(("a", "1"))]) == [False, True]
    assert opened([user("go"), batch, results(("a", "1"), ("b", "2"))]) == [False, False]


def test_an_interrupted_call_in_the_middle_holds_nothing_open() -> None:
    session = [user("go"), call("a", "f"), user("stop, do this instead"), assistant("yes")]
    assert cut(session) == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert not any(opened(session))


def test_a_reused_id_binds_a_result_to_the_newest_call() -> None:
    session = [*used("a", "f", "1"), *used("a", "f", "2"), *used("a", "f", "3")]
    assert cut(session) == [(1, 2), (3, 4), (5, 6)]


def test_a_result_without_a_call_is_a_step_of_its_own() -> None:
    assert cut([user("go"), results(("ghost", "1")), user("on")]) == [(1, 1), (2, 2), (3, 3)]


def test_thinking_logged_alone_stays_with_what_follows() -> None:
    session = [user("go"), thought("hm"), thought("so"), *used("a", "f", "1"), assistant("done")]
    assert cut(session) == [(1, 1), (2, 5), (6, 6)]


def test_thinking_that_leads_nowhere_is_a_step() -> None:
    assert cut([user("go"), thought("hm"), user("well?")]) == [(1, 1), (2, 2), (3, 3)]


def test_calls_logged_one_by_one_are_one_batch() -> None:
    session = [user("go"), function_call("a"), function_call("b"), output("a"), output("b")]
    assert cut(session) == [(1, 1), (2, 5)]


def test_calls_logged_one_by_one_stay_open_together() -> None:
    assert cut([user("go"), function_call("a"), function_call("b")]) == [(1, 1), (2, 3)]
    waiting = [user("go"), function_call("a"), function_call("b"), output("b")]
    assert (cut(waiting), opened(waiting)) == ([(1, 1), (2, 4)], [False, True])


def test_a_reasoning_item_stays_with_its_calls() -> None:
    reasoning: Json = {"type": "reasoning", "id": "r", "summary": []}
    session = [user("go"), reasoning, function_call("a"), output("a"), function_call("b")]
    assert cut(session) == [(1, 1), (2, 4), (5, 5)]


def test_nothing_said_is_no_step() -> None:
    assert steps(()) == ()


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

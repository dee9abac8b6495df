"""Recall: a call that was found brings its result and all its passages, and a result its call."""

from __future__ import annotations

import pytest

from mcp_compaction.core.recall.flow import order_hits
from mcp_compaction.core.recall.query import Question, read_query
from mcp_compaction.model import Hit


def hit(number: int, role: str, score: float, **more: object) -> Hit:
    given = {"session": "test", "ref": f"m{number}", "role": role, "score": score}
    return Hit.model_validate({**given, "text": f"text of m{number}", "has_tool": True, **more})


QUESTION, KEYWORD = read_query("the retry limit of the upload queue"), read_query("limit")


def refs_of(*hits: Hit) -> list[str]:
    return [one.ref for one in order_hits(QUESTION, hits)]


def places_of(question: Question, *hits: Hit) -> list[tuple[str, int]]:
    return [(one.ref, one.ordinal) for one in order_hits(question, hits)]


TALK = tuple(hit(n, "assistant", 8 - n / 100, has_tool=False) for n in (50, 60, 70))


def test_a_call_brings_its_result_though_that_holds_no_word_of_the_query() -> None:
    result = hit(11, "tool", 0.1, is_beside=True)
    assert refs_of(hit(10, "assistant", 9), *TALK, result) == ["m10", "m11", "m50", "m60", "m70"]


@pytest.mark.parametrize(
    "other",
    [
        {"session": "other"},
        {"ref": "m12"},
        {"ref": "m9"},
    ],
)
def test_a_result_that_is_not_of_the_call_is_not_brought(other: dict[str, str]) -> None:
    result = hit(11, "tool", 0.1, is_beside=True, **other)
    assert refs_of(hit(10, "assistant", 9), *TALK, result) == ["m10", "m50", "m60", "m70"]


SCRIPT = tuple(
    hit(10, "assistant", score, ordinal=ordinal, text=f"part {ordinal}")
    for ordinal, score in ((2, 9), (3, 2), (0, 1))
)


def test_a_question_brings_a_call_as_a_whole_and_in_order() -> None:
    result = hit(11, "tool", 0.1, is_beside=True)
    order = places_of(QUESTION, *TALK, *SCRIPT, result)
    call = [("m10", 2), ("m10", 0), ("m10", 3), ("m11", 0)]
    assert order == [*call, ("m50", 0), ("m60", 0), ("m70", 0)]

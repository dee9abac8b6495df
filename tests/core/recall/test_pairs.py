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


def test_a_result_brings_its_call() -> None:
    call = hit(10, "assistant", 0.1, is_beside=True)
    assert refs_of(hit(11, "tool", 9), *TALK, call)[:2] == ["m11", "m10"]


def test_a_result_with_words_of_the_query_comes_once_beside_its_call() -> None:
    order = refs_of(hit(10, "assistant", 9), *TALK, hit(11, "tool", 2), hit(12, "assistant", 1))
    assert order == ["m10", "m11", "m50", "m60", "m70", "m12"]


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


def test_only_the_first_hits_bring_others() -> None:
    more = (hit(80, "user", 1.2), hit(90, "user", 1.1))
    late = (hit(10, "assistant", 1), hit(11, "tool", 0.1, is_beside=True))
    assert refs_of(*TALK, *more, *late) == ["m50", "m60", "m70", "m80", "m90", "m10"]


SCRIPT = tuple(
    hit(10, "assistant", score, ordinal=ordinal, text=f"part {ordinal}")
    for ordinal, score in ((2, 9), (3, 2), (0, 1))
)


def test_a_question_brings_a_call_as_a_whole_and_in_order() -> None:
    result = hit(11, "tool", 0.1, is_beside=True)
    order = places_of(QUESTION, *TALK, *SCRIPT, result)
    call = [("m10", 2), ("m10", 0), ("m10", 3), ("m11", 0)]
    assert order == [*call, ("m50", 0), ("m60", 0), ("m70", 0)]


def test_a_keyword_brings_the_passages_of_a_call_where_each_ranks() -> None:
    order = places_of(KEYWORD, *TALK, *SCRIPT)
    assert [ordinal for ref, ordinal in order if ref == "m10"] == [2, 3, 0]
    assert order[1] == ("m50", 0)


def test_talk_and_results_come_passage_by_passage() -> None:
    for role, has_tool in (("assistant", False), ("tool", True)):
        given = {"has_tool": has_tool, "role": role}
        message = [one.model_copy(update=given) for one in SCRIPT]
        assert places_of(QUESTION, *TALK, *message)[:2] == [("m10", 2), ("m50", 0)]

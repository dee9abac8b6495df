"""Recall: a question about several things, or for a list, gets hits of each and from each place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.recall.query import read_query
from mcp_compaction.core.recall.spread import spread
from mcp_compaction.model import Hit


def hit(number: int, text: str, score: float, **more: object) -> Hit:
    given = {"session": "test", "ref": f"m{number}", "role": "user", "text": text, "score": score}
    return Hit.model_validate({**given, **more})


def refs_for(query: str, *hits: Hit) -> list[str]:
    return [one.ref for one in spread(read_query(query), hits)]


@pytest.mark.parametrize(
    ("query", "first", "second"),
    [
        ("retries of sync_orders and sync_parcels", "sync_orders retries", "sync_parcels waits"),
        ("What do Jon and Gina like?", "Jon: I like tea", "Gina: I like tea"),
    ],
)
def test_each_thing_that_a_question_names_has_its_turn(query: str, first: str, second: str) -> None:
    hits = [hit(10 * n, first, 9 - n / 10) for n in range(1, 8)]
    order = refs_for(query, *hits, hit(99, second, 5), hit(98, second, 4.9))
    assert order[:5] == ["m10", "m99", "m20", "m98", "m30"]


def test_a_hit_that_names_all_the_things_is_the_turn_of_each() -> None:
    both = [hit(10 * n, "Jon and Gina dance", 9 - n / 10) for n in range(1, 4)]
    order = refs_for("What do Jon and Gina like?", *both, hit(99, "Gina: yes", 5))
    assert order == ["m10", "m20", "m30", "m99"]


def test_what_is_far_worse_than_the_best_has_no_turn() -> None:
    hits = [hit(10 * n, "sync_orders", 9) for n in range(1, 7)]
    order = refs_for("sync_orders or sync_parcels", *hits, hit(99, "sync_parcels", 2))
    assert order[-1] == "m99"


@given(
    st.lists(st.tuples(st.integers(1, 40), st.sampled_from(["Jon", "Gina", "x_y"])), max_size=40),
    st.sampled_from(["Which events have Jon and Gina seen?", "Jon", "x_y and Gina", "all the x_y"]),
)
def test_no_hit_is_lost_and_the_best_stays_first(made: list[tuple[int, str]], query: str) -> None:
    hits = tuple(hit(n, text, 50 - place) for place, (n, text) in enumerate(made))
    order = spread(read_query(query), hits)
    assert sorted(order, key=lambda one: -one.score) == list(hits)
    things = [word for word in ("Jon", "Gina", "x_y") if word in query]
    if hits and (len(things) < 2 or hits[0].text in things):
        assert order[0] == hits[0]

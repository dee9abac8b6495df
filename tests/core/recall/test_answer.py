"""Recall: the answer holds what fits, the best first, and what stands together as one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.recall.answer import choose, join_neighbors
from mcp_compaction.model import Hit


def hit(ref: str, text: str = "x", role: str = "assistant", **more: object) -> Hit:
    given = {"session": "test", "ref": ref, "role": role, "text": text, "score": 1.0, **more}
    return Hit.model_validate(given)


def test_an_answer_holds_what_fits_and_says_how_many_more() -> None:
    hits = [hit(f"m{n}", text="x" * 80) for n in range(5)]
    first = choose(hits, 290, len)
    assert (first.hits, first.more, first.after) == (tuple(hits[:2]), 3, 2)
    last = choose(hits, 290, len, skip=3)
    assert (last.hits, last.more, last.after) == (tuple(hits[3:]), 0, 5)
    assert choose(hits, 290, len, skip=9).hits == ()


def test_where_one_does_not_fit_a_shorter_one_does_and_the_next_answer_begins_with_it() -> None:
    hits = [hit("m1", "x" * 80), hit("m2", "x" * 200), hit("m3", "x" * 60)]
    answer = choose(hits, 290, len)
    assert ([one.ref for one in answer.hits], answer.more, answer.after) == (["m1", "m3"], 1, 1)
    assert [one.ref for one in choose(hits, 400, len, skip=answer.after).hits] == ["m2", "m3"]


@given(
    st.lists(st.tuples(st.integers(1, 300), st.floats(0.01, 9)), max_size=30),
    st.integers(1, 900),
)
def test_page_by_page_every_passage_is_given(made: list[tuple[int, float]], room: int) -> None:
    hits = [hit(f"m{n}", "x" * size, score=score) for n, (size, score) in enumerate(made)]
    seen: set[str] = set()
    skip = 0
    while skip < len(hits):
        page = choose(hits, room, len, skip)
        seen |= {one.ref for one in page.hits}
        assert page.after > skip
        skip = page.after
    assert seen == {one.ref for one in hits}


def test_what_a_host_put_into_a_message_is_not_joined_to_the_words_of_its_user() -> None:
    pieces = [hit("m1", "a", "user"), hit("m1", "b", "system", ordinal=1)]
    assert [one.text for one in join_neighbors(pieces)] == ["a", "b"]


def test_neighboring_passages_of_a_message_are_one_where_the_best_of_them_stands() -> None:
    pieces = [hit("m1", text, ordinal=n) for n, text in ((2, "c"), (5, "f"), (1, "b"), (3, "d"))]
    assert [one.text for one in join_neighbors([*pieces, hit("m2", "z")])] == ["b\nc\nd", "f", "z"]

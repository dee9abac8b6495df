"""Recall: what answers a question best comes first, and once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mcp_compaction.core.recall.judge import refine, similar_word
from mcp_compaction.core.recall.query import read_query
from mcp_compaction.core.recall.rank import loosen, rank
from mcp_compaction.model import Hit, Match, Matches, TermMatches

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


def hit(ref: str, text: str = "x", role: str = "assistant", **more: object) -> Hit:
    given = {"session": "test", "ref": ref, "role": role, "text": text, "score": 1.0, **more}
    return Hit.model_validate(given)


def passage(number: int, ordinal: int = 0, size: int = 1, has_tool: bool = False) -> Match:
    """A passage of one of these messages; its row is the message's number times a hundred."""
    return Match(number * 100 + ordinal, 1, "m", number, 100, ordinal, size, has_tool)


def standing(**places: list[int]) -> Matches:
    """Terms that stand in these messages of one session, each message one passage."""
    return Matches(
        tuple(
            TermMatches(term, len(numbers), tuple(passage(n) for n in numbers))
            for term, numbers in places.items()
        ),
        messages=1_000,
        passages=1_000,
    )


def ranked(found: Matches) -> list[int]:
    """The numbers of the messages, the best first."""
    return [worth.row // 100 if worth.row else -(worth.number or 0) for worth in rank(found)]


def order(query: str, *hits: Hit) -> list[str]:
    """The refs of the hits as a question wants them."""
    return [found.ref for found in refine(read_query(query, NOW), hits)]


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    assert ranked(standing(rare=[10], common=list(range(100, 300))))[0] == 10


def test_all_the_words_count_more_than_one_of_them() -> None:
    assert ranked(standing(rate=[10, 50], limit=[10, 80]))[0] == 10


def test_among_equals_the_newest_comes_first() -> None:
    assert ranked(standing(zebra=[10, 50, 30])) == [50, 30, 10]


def test_among_what_stands_beside_matches_the_newest_of_equals_comes_first() -> None:
    found = standing(rate=[10, 50, 30], limit=[10, 50, 30], reset=[10, 50, 30])
    beside = [-number for number in ranked(found) if number < 0]
    assert beside == [51, 49, 31, 29, 11, 9, 52, 48, 32, 28, 12, 8]


def test_a_match_among_matches_comes_before_one_alone() -> None:
    assert ranked(standing(zebra=[10, 11, 90]))[:2] == [11, 10]


def test_what_stands_beside_matches_of_a_question_is_worth_reading() -> None:
    found = standing(zebra=[10], crossing=[12], closed=[10])
    assert -11 in ranked(found)
    assert -11 not in ranked(standing(zebra=[10], crossing=[12]))


def test_a_name_lends_nothing_to_its_neighbours() -> None:
    found = standing(x=[10, 11, 90])
    found = found._replace(terms=(found.terms[0]._replace(term="a.py"),))
    assert ranked(found) == [90, 11, 10]


def found_in(**passages: list[Match]) -> Matches:
    """Terms that stand in these passages."""
    terms = (TermMatches(term, len(them), tuple(them)) for term, them in passages.items())
    return Matches(tuple(terms), messages=1_000, passages=1_000)


def worth_of(place: Match, found: Matches) -> float:
    """What a passage is worth, whether or not it holds a word itself."""
    return next(
        (
            worth.score
            for worth in rank(found)
            if worth.row == place.row
            or (worth.number, worth.ordinal) == (place.number, place.ordinal)
        ),
        0.0,
    )


def test_a_message_lends_what_stands_next_to_another_and_not_all_it_says() -> None:
    last, first = passage(5, 8, 9), passage(5, 0, 9)
    near = found_in(rate=[last], limit=[last], staging=[last])
    far = found_in(rate=[first], limit=[first], staging=[first])
    assert worth_of(passage(6), near) > worth_of(passage(6), far) == 0.0


def test_a_message_lends_less_the_longer_it_is() -> None:
    lenders = [passage(5, size - 1, size) for size in (1, 9, 27)]
    worths = [worth_of(passage(6), found_in(rate=[p], limit=[p], staging=[p])) for p in lenders]
    assert worths == sorted(worths, reverse=True)
    assert len({*worths}) == 3


def test_a_passage_of_a_long_message_counts_less() -> None:
    short, long = passage(5), passage(90, 3, 9)
    assert ranked(found_in(rate=[short, long]))[0] == 5


def test_a_call_is_one_thing_and_its_passages_lend_to_each_other() -> None:
    for has_tool in (True, False):
        named, next_to_it = (passage(5, n, 9, has_tool) for n in (3, 4))
        found = found_in(rate=[named], limit=[named], staging=[named])
        assert bool(worth_of(next_to_it, found)) is has_tool


def test_rarity_is_counted_by_passage() -> None:
    """In forty messages of ten passages a word of fifty passages still tells something."""
    everywhere = [passage(n % 40 + 1, n // 40, 10) for n in range(50)]
    found = found_in(rate=everywhere, limit=everywhere[:1])
    found = found._replace(messages=40, passages=400)
    both, one = rank(found)[0], rank(found)[-1]
    assert both.row == everywhere[0].row
    assert one.score > both.score / 20


def test_nothing_is_worth_reading_where_nothing_matches() -> None:
    assert rank(standing(zebra=[])) == ()


def test_what_the_user_said_comes_first_and_digests_last() -> None:
    hits = [hit("d1", "x", "digest", score=9.0), hit("m1", "y"), hit("m2", "z", "user")]
    assert order("zebra", *hits) == ["m2", "m1", "d1"]


def test_where_a_text_names_its_speaker_the_one_asked_for_counts() -> None:
    hits = [hit("m1", "Melanie: I ran", "user"), hit("m2", "Caroline: I ran too")]
    assert order("When did Caroline run?", *hits) == ["m2", "m1"]


def test_what_only_asks_comes_after_what_says() -> None:
    hits = [hit("m1", "which limit did we set?"), hit("m2", "the limit is 40")]
    assert order("limit set", *hits) == ["m2", "m1"]


def test_the_day_that_is_named_comes_before_the_weeks_after_it_and_all_else() -> None:
    days = {"m1": 40, "m2": 2, "m3": 1}
    hits = [hit(ref, ref, at=NOW - timedelta(days=ago)) for ref, ago in days.items()]
    assert order("what broke 2 days ago", *hits)[:2] == ["m2", "m3"]


def test_a_name_counts_whole_before_its_twins() -> None:
    hits = [
        hit("m1", "half_open_test.py failed"),
        hit("m2", "src/half_open.py"),
        hit("m3", "see half_open.py"),
    ]
    assert order("half_open.py", *hits) == ["m3", "m2", "m1"]


def test_what_stands_twice_is_given_once_with_the_other_refs() -> None:
    same = [hit("m1", "a  b"), hit("m2", "a b"), hit("m2", "a b", ordinal=1), hit("m3", "c")]
    first, second = refine(read_query("b"), same)
    assert (first.ref, first.also, second.ref) == ("m1", ("m2",), "m3")
    elsewhere = [hit("m1", "a"), hit("m1", "a", session="other")]
    assert len(refine(read_query("a"), elsewhere)) == 2


def test_a_message_comes_with_one_passage_before_it_comes_with_a_second() -> None:
    pieces = [hit("m1", text, ordinal=n, score=4.0) for n, text in enumerate("abc")]
    found = refine(read_query("b"), [*pieces, hit("m2", "d", score=3.0)])
    assert [(one.ref, one.text) for one in found[:3]] == [("m1", "a"), ("m2", "d"), ("m1", "b")]
    whole = [piece.model_copy(update={"has_tool": True}) for piece in pieces]
    found = refine(read_query("b"), [*whole, hit("m2", "d", score=3.0)])
    assert [one.ref for one in found] == ["m1", "m1", "m1", "m2"]


def test_a_question_at_the_end_of_much_text_does_not_make_it_one() -> None:
    told = "the limit is 40 because the proxy resets above it. " * 7
    hits = [hit("m1", f"{told}Does that work?", score=1.0), hit("m2", "limit set", score=0.9)]
    assert order("limit set", *hits) == ["m1", "m2"]


def test_a_name_that_stands_nowhere_is_asked_for_in_parts() -> None:
    question = read_query("src/half_open.py fix")
    parts = loosen(question, standing(**{"src/half_open.py": [], "fix": [3]}))
    assert parts is not None
    assert parts.terms == ("src", "half", "open", "py", "fix")
    assert loosen(question, standing(**{"src/half_open.py": [1], "fix": []})) is None


def test_the_parts_of_a_long_name_are_no_more_than_a_query_may_have() -> None:
    name = "_".join(f"a{n}" for n in range(150))
    nowhere: list[int] = []
    parts = loosen(read_query(name), standing(**{name: nowhere}))
    assert parts is not None
    assert len(parts.terms) == 100


@pytest.mark.parametrize(
    ("term", "meant"), [("deploymnt", "deployment"), ("qwxz", None), ("Deploy", "deployment")]
)
def test_a_word_like_the_one_asked_for_is_suggested(term: str, meant: str | None) -> None:
    assert similar_word(term, [hit("m1", "the deployment of the server")]) == meant

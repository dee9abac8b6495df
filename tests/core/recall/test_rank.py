"""Recall: what answers a question best comes first, and once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from mcp_compaction.core.recall.query import read_query
from mcp_compaction.core.recall.rank import rank, refine
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


def test_a_call_is_one_thing_and_its_passages_lend_to_each_other() -> None:
    for has_tool in (True, False):
        named, next_to_it = (passage(5, n, 9, has_tool) for n in (3, 4))
        found = found_in(rate=[named], limit=[named], staging=[named])
        assert bool(worth_of(next_to_it, found)) is has_tool


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

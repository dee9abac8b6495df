"""Recall: queries as they are typed, passages that hold every word, answers that fit."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.recall import Answered, Question, choose, passages, rank, read_query
from mcp_compaction.errors import InputError
from mcp_compaction.model import Hit, Media, Part, Text, ToolCall, ToolResult


def hit(ref: str, score: float = 1.0, role: str = "assistant", text: str = "x") -> Hit:
    return Hit(session="test", ref=ref, role=role, text=text, score=score)


def test_qualifiers_are_taken_out_of_the_words() -> None:
    query = "role:user tool:Bash since:2026-11-01 until:2026-11-02T10:00:00+02:00 rate limit"
    question = read_query(query)
    assert question == Question(
        terms=("rate", "limit"),
        role="user",
        tool="Bash",
        since=datetime(2026, 11, 1, tzinfo=UTC),
        until=datetime.fromisoformat("2026-11-02T10:00:00+02:00"),
    )


def test_words_that_tell_nothing_apart_are_dropped_unless_there_are_no_others() -> None:
    assert read_query("what is the limit of the API?").terms == ("limit", "API")
    assert read_query("what is it").terms == ("what", "is", "it")


def test_search_operators_are_words_like_any_other() -> None:
    query = '"src/a.py" OR (limit* AND NEAR(x)) ; -- col:^y'
    assert read_query(query).terms == ("src/a.py", "limit*", "NEAR", "x", "col:^y")


def test_identifiers_stay_whole_and_come_once() -> None:
    query = "7f3a91c2, src/a.py:42 https://x.y/z?a=1 7f3a91c2."
    assert read_query(query).terms == ("7f3a91c2", "src/a.py:42", "https://x.y/z", "a=1")


@pytest.mark.parametrize("query", ["", "  \n", "?!", "role:user", "-- .. ::"])
def test_a_query_without_a_word_has_no_terms(query: str) -> None:
    assert read_query(query).terms == ()


def test_a_query_has_an_end() -> None:
    assert len(read_query(" ".join(f"w{n}" for n in range(500))).terms) == 64


@pytest.mark.parametrize("query", ["role:boss x", "since:yesterday x", "until:2026-13-40 x"])
def test_a_qualifier_without_a_meaning_is_refused_with_an_example(query: str) -> None:
    with pytest.raises(InputError, match=r"use one of|write it as"):
        read_query(query)


def said(parts: list[Part]) -> tuple[str, ...]:
    """The texts of an assistant's passages."""
    found = passages("assistant", parts)
    assert all(piece.by == "assistant" for piece in found)
    return tuple(piece.text for piece in found)


def test_what_a_tool_answered_is_not_the_users_word() -> None:
    parts: list[Part] = [ToolResult(call="a", text="listing"), Text(text="go on")]
    assert passages("user", parts) == (("tool", "listing"), ("user", "go on"))


def test_passages_are_cut_at_lines_sentences_or_words() -> None:
    line, sentence = "a" * 400 + "\n", "b" * 400 + ". "
    assert said([Text(text=line + "c" * 400)]) == ("a" * 400, "c" * 400)
    assert said([Text(text=sentence + "c" * 400)]) == ("b" * 400 + ".", "c" * 400)
    assert said([Text(text="d" * 700)]) == ("d" * 600, "d" * 100)


def test_blank_parts_have_no_passages() -> None:
    assert said([Text(text=" \n"), Text(text=" " * 2_000), Media(media_type="image/png")]) == ()
    assert said([Text(text="x" + " " * 2_000)]) == ("x",)


def test_a_call_is_found_by_its_name_and_the_words_of_its_arguments() -> None:
    call = ToolCall(id="a", name="Bash", arguments={"command": "set -e\nsrc/run.sh"})
    assert said([call]) == ('Bash {"command":"set -e\nsrc/run.sh"}',)


@given(st.lists(st.text("abc.\u00e9中", min_size=1, max_size=90), max_size=300))
def test_passages_hold_every_word_in_order_and_none_is_long(words: list[str]) -> None:
    found = said([Text(text=" ".join(words))])
    assert all(0 < len(passage) <= 600 for passage in found)
    assert " ".join(found).split() == words


def test_the_user_counts_more_and_ties_keep_their_order() -> None:
    hits = [hit("m10", 1.2), hit("m20", 1.0, "user"), hit("m30", 1.0), hit("m40", 1.0)]
    assert [found.ref for found in rank(hits)] == ["m20", "m10", "m30", "m40"]


def test_a_hit_among_hits_comes_before_a_better_one_alone() -> None:
    alone, first, second, third = (
        Hit(session="s", ref=f"m{number}", role="assistant", text="x", score=score)
        for number, score in ((90, 2.4), (10, 1.0), (11, 2.0), (12, 1.0))
    )
    assert rank([alone, second, first, third])[0] == second
    elsewhere = [hit.model_copy(update={"session": "t"}) for hit in (first, third)]
    assert rank([alone, second, *elsewhere])[0] == alone


def test_an_answer_holds_at_least_one_passage_and_says_how_many_more() -> None:
    hits = [hit(f"m{n}", text="x" * 30) for n in range(5)]
    assert choose(hits, 1, len) == Answered(hits=(hits[0],), more=4)
    assert choose(hits, 90, len) == Answered(hits=tuple(hits[:2]), more=3)
    assert choose(hits, 90, len, skip=3) == Answered(hits=tuple(hits[3:]), more=0)
    assert choose(hits, 90, len, skip=9) == Answered(hits=(), more=0)

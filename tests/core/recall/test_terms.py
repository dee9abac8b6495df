"""Terms: what a passage is found by besides its words, and how close a text comes to a name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.recall.terms import (
    Closeness,
    Way,
    closeness_of,
    is_name,
    keys_of,
    parts_of_term,
    ways_of,
)


def test_joined_names_are_found_by_their_parts() -> None:
    assert (
        keys_of("call parseHTTPHeader and halfOpen, halfOpen again")
        == "parse HTTP Header half Open"
    )
    assert keys_of("nothing joined here, half_open neither") == ""


def test_words_without_spaces_are_found_by_each_pair_of_letters() -> None:
    assert keys_of("用数据库") == "用数 数据 据库 库"
    assert keys_of("错误E4711。") == "错误 误 E4711"


def test_a_term_is_looked_up_by_what_the_index_holds() -> None:
    assert ways_of("limit") == (Way("limit"),)
    assert ways_of("halfOpen") == (Way("halfOpen"), Way("half Open"))
    assert ways_of("3f9a2b") == (Way("3f9a2b", is_start=True),)
    assert ways_of("123456") == (Way("123456"),)
    assert ways_of("facade") == (Way("facade"),)
    assert ways_of("数据库") == (Way("数据 据库"),)
    assert ways_of("库，他") == (Way("库 他", is_start=True),)


@pytest.mark.parametrize("term", ["src/a.py", "half_open", "halfOpen", "E4711", "a=1", "数据"])
def test_paths_ids_and_code_are_names(term: str) -> None:
    assert is_name(term)


@pytest.mark.parametrize("term", ["limit", "API", "Caroline", "2023", "café"])
def test_words_and_numbers_are_no_names(term: str) -> None:
    assert not is_name(term)


def test_a_name_that_stands_nowhere_is_looked_for_in_parts() -> None:
    assert parts_of_term("src/net/halfOpen.py") == ("src", "net", "half", "Open", "py")
    assert parts_of_term("我们决定") == ("我们", "们决", "决定")
    assert parts_of_term("limit") == ()


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("half_open.py", "see half_open.py.", Closeness.WHOLE),
        ("half_open.py", "see src/half_open.py", Closeness.PARTLY),
        ("half_open.py", "see half_open_test.py", Closeness.NOT),
        ("half_open", "call halfOpen()", Closeness.RESPELLED),
        ("halfOpen", "the half-open port", Closeness.RESPELLED),
        ("parse_token", "parse_tokens", Closeness.NOT),
        ("a.b.c", "import a.b.c.d", Closeness.PARTLY),
        ("3f9a2b", "commit 3f9a2b77c1", Closeness.WHOLE),
        ("3f9a2b", "commit 03f9a2b7", Closeness.NOT),
        ("据库", "用数据库", Closeness.WHOLE),
    ],
)
def test_a_name_counts_whole_respelled_as_a_part_or_not(
    name: str, text: str, expected: Closeness
) -> None:
    assert closeness_of(name, text) is expected


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_has_keys_ways_parts_and_a_closeness(term: str, text: str) -> None:
    keys_of(text)
    assert ways_of(term)
    parts_of_term(term)
    is_name(term)
    closeness_of(term, text)
    assert not is_name(term) or not term.isalnum() or closeness_of(term, term) is Closeness.WHOLE

"""Queries as they are typed: their words, their qualifiers, the days and names in them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from mcp_compaction.core.recall.query import read_query
from mcp_compaction.errors import InputError


def test_qualifiers_are_taken_out_of_the_words() -> None:
    query = "role:user tool:Bash since:2026-11-01 until:2026-11-02T10:00:00+02:00 rate limit"
    question = read_query(query)
    assert (question.terms, question.role, question.tool) == (("rate", "limit"), "user", "Bash")
    assert question.since == datetime(2026, 11, 1, tzinfo=UTC)
    assert question.until == datetime.fromisoformat("2026-11-02T10:00:00+02:00")


def test_words_that_tell_nothing_apart_are_dropped_unless_there_are_no_others() -> None:
    assert read_query("what is the limit of the API?").terms == ("limit", "API")
    assert read_query("what is it").terms == ("what", "is", "it")


@pytest.mark.parametrize(
    "query",
    [
        "role:boss x",
        "since:whenever x",
        "until:2026-13-40 x",
        "until:9999-12-31 x",
        "since:0001-01-01T00:00+23:59 x",
    ],
)
def test_a_qualifier_without_a_meaning_is_refused_with_an_example(query: str) -> None:
    with pytest.raises(InputError, match=r"use one of|write it as"):
        read_query(query)


def test_days_are_read_in_the_zone_of_the_asker() -> None:
    east = timezone(timedelta(hours=9))
    now = datetime(2026, 11, 15, 8, tzinfo=east)
    question = read_query("since:2026-11-01 what broke yesterday?", now)
    assert question.since == datetime(2026, 11, 1, tzinfo=east)
    (day,) = question.days
    assert (day.begin, day.end) == (
        datetime(2026, 11, 14, tzinfo=east),
        datetime(2026, 11, 15, tzinfo=east),
    )


def test_a_qualifier_may_name_a_day_in_words() -> None:
    now = datetime(2026, 11, 15, 8, tzinfo=UTC)
    question = read_query("since:yesterday until:2026-05 x", now)
    assert question.since == datetime(2026, 11, 14, tzinfo=UTC)
    assert question.until == datetime(2026, 6, 1, tzinfo=UTC)

"""Dates: which days a question names, and which words only look like one."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.text import dates
from mcp_compaction.core.text.dates import named_days
from tests.tables import table

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 12, 15, 30, tzinfo=BERLIN)  # a Thursday


def spans(text: str, now: datetime = NOW) -> list[tuple[str, str, str]]:
    return [(f"{s.begin:%Y-%m-%d}", f"{s.end:%Y-%m-%d}", s.words) for s in named_days(text, now)]


@pytest.mark.parametrize(
    ("text", "begin", "end", "words"),
    table(__file__, "a_named_day_is_read"),
)
def test_a_named_day_is_read(text: str, begin: str, end: str, words: str) -> None:
    assert spans(text) == [(begin, end, words)]


@pytest.mark.parametrize(
    "text",
    table(__file__, "what_only_looks_like_a_day_is_none"),
)
def test_what_only_looks_like_a_day_is_none(text: str) -> None:
    assert spans(text) == []


@pytest.mark.parametrize(
    ("text", "begin", "end", "words"),
    [
        ("Was haben wir am 12. Oktober gesagt?", "2026-10-12", "2026-10-13", "am 12. Oktober"),
        ("Was war am Freitag, den 3. Mai 2024?", "2024-05-03", "2024-05-04", None),
        ("das war am 12.11.2025 so", "2025-11-12", "2025-11-13", "am 12.11.2025"),
        ("Was geschah im Mai?", "2026-05-01", "2026-06-01", "im Mai"),
        ("im März 2023 umgezogen", "2023-03-01", "2023-04-01", "im März 2023"),
        ("Was war letzten Donnerstag?", "2026-11-05", "2026-11-06", "letzten Donnerstag"),
        ("vorgestern lief es noch", "2026-11-10", "2026-11-11", "vorgestern"),
        ("uebermorgen ist Abgabe", "2026-11-14", "2026-11-15", "uebermorgen"),
        ("letzte Woche war es rot", "2026-11-02", "2026-11-09", "letzte Woche"),
        ("vor zwei Wochen gebaut", "2026-10-26", "2026-11-02", "vor zwei Wochen"),
        ("seit Montag ist es kaputt", "2026-11-09", "2026-11-13", "seit Montag"),
        ("bis zum 3. Mai 2024 war es so", "1970-01-01", "2024-05-04", "bis zum 3. Mai 2024"),
        ("nicht on 20 May 2023, sondern", "2023-05-20", "2023-05-21", "on 20 May 2023"),
    ],
)
def test_a_day_named_in_german_is_read(text: str, begin: str, end: str, words: str | None) -> None:
    ((found_begin, found_end, found_words),) = spans(text)
    assert (found_begin, found_end) == (begin, end)
    assert words is None or found_words == words


@pytest.mark.parametrize(
    "text",
    ["Das Maiskorn der Maierei", "Wir nehmen Port 2023 dafür", "die Montagsrunde und der Abend"],
)
def test_what_only_looks_like_a_german_day_is_none(text: str) -> None:
    assert spans(text) == []


@pytest.mark.parametrize(("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25)])
def test_a_day_on_which_the_clocks_change_ends_at_its_midnight(day: str, hours: int) -> None:
    (stretch,) = named_days(day, NOW)
    lasts = stretch.end.astimezone(UTC) - stretch.begin.astimezone(UTC)
    assert lasts == timedelta(hours=hours)
    assert stretch.begin.hour == stretch.end.hour == 0


def test_the_zone_of_now_says_which_day_it_is() -> None:
    now = datetime(2026, 11, 12, 23, 30, tzinfo=UTC)
    assert spans("today", now)[0][0] == "2026-11-12"
    assert spans("today", now.astimezone(BERLIN))[0][0] == "2026-11-13"


PIECES = st.sampled_from(
    re.findall(
        r"\S+",
        """last this next on in the of since before between from to and may May March 20 31st 5th
    2023 2026-11-01 2026-02 Tuesday Sun's week month year yesterday 3 days
    ago a two couple 999 - , . ?""",
    )
)


@given(
    st.one_of(st.text(max_size=80), st.lists(PIECES, max_size=12).map(" ".join)),
    st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1), timezones=st.just(BERLIN)),  # noqa: DTZ001 -- Hypothesis adds the zone
)
def test_any_text_is_read_and_what_it_names_lasts(text: str, now: datetime) -> None:
    for stretch in named_days(text, now):
        assert stretch.begin < stretch.end
        assert stretch.begin.tzinfo is stretch.end.tzinfo is now.tzinfo
        assert stretch.words in text


def test_a_unit_that_is_only_in_a_lexicon_names_no_day(monkeypatch: pytest.MonkeyPatch) -> None:
    assert spans("two weeks ago")
    monkeypatch.setattr(dates, "_UNITS", {"day": timedelta(days=1)})
    assert spans("two weeks ago") == []

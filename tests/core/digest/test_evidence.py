"""What a line names stands in its source, however it is written; what is invented does not."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_compaction.core.digest.check.evidence import Evidence
from tests.tables import table

AT = datetime(2026, 11, 15, 13, 56, tzinfo=UTC)
SOURCE = Evidence(
    [
        (
            "Fix /srv/app/src/api/limits.py please: the port is 8080, 20,000 requests come in, "
            "p95=31.57ms, and the rate limiter took 148213 tokens. We met yesterday.",
            AT,
        ),
        ("You said “keep the names as they are”. sha 7f3a91c2d4, PROJ-12, v3.2.1", AT),
        ("pytest -q tests/test_a.py at 2026-11-03: twelve passed, timeout=30, retries=3", None),
        ("see https://docs.example/limits and the module `billing.invoices`", None),
    ]
)


@pytest.mark.parametrize(
    "line",
    table(__file__, "what_stands_in_the_source_is_not_missed"),
)
def test_what_stands_in_the_source_is_not_missed(line: str) -> None:
    assert SOURCE.missing(line) == ()


@pytest.mark.parametrize(
    ("line", "missing"),
    table(__file__, "what_is_invented_is_missed"),
)
def test_what_is_invented_is_missed(line: str, missing: str) -> None:
    assert any(missing in found for found in SOURCE.missing(line)), SOURCE.missing(line)


def missing(line: str, *texts: str) -> tuple[str, ...]:
    return Evidence([(text, None) for text in texts]).missing(line)


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("port=8081", ("Port 8080 is taken.", "The port is now 8081.")),
        ("port=`8080`, workers = 4", ('{"port": 8080, "workers": 4}',)),
        ("workers=16", ("PORT=8080 WORKERS=16",)),
        ("retries = 25", ("const maxRetries = 25; retries = 3",)),
        ("n=25", ("run it with n = 25",)),
    ],
)
def test_a_number_that_is_assigned_stands_behind_its_name(
    line: str, texts: tuple[str, ...]
) -> None:
    assert missing(line, *texts) == ()


@pytest.mark.parametrize("line", ["port=99999", "port=7", "max_size=99999", "n=99999"])
def test_a_number_of_something_else_is_not_what_a_name_was_set_to(line: str) -> None:
    said = (
        "The retry limit is 3 and the port is 8080; order 99999 failed.",
        "It took 7 tries until day 4, with max_size=2 and n=5.",
    )
    assert missing(line, *said) == (line,)


@pytest.mark.thorough
@example("210A")
@given(st.text(max_size=200))
def test_a_text_always_stands_in_itself(text: str) -> None:
    assert Evidence([(text, None)]).missing(text) == ()


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_line_can_be_held_against_any_source(line: str, source: str) -> None:
    Evidence([(source, AT)]).missing(line)

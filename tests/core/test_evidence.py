"""What a line names stands in its source, however it is written; what is invented does not."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.evidence import Evidence

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
    [
        "The port 8080 is taken.",
        "port=8080",
        "3 files were read and all 12 tests pass.",
        "About 20k of 20000 requests",
        "148k tokens, or about 150000",
        "p95 is 31.6 ms, so 0.0316 s",
        "limits.py, api/limits.py and ./src/api/limits.py changed.",
        "sha 7F3A91C",
        "proj-12 is done.",
        "version 3.2 and v3.2.1",
        "timeout 30s and retries: 3",
        "rateLimiter and rate_limiter",
        "`pytest tests/test_a.py` passes",
        'the user said "keep the names ... they are"',
        "the “happy path” works, as they said yesterday",
        "on 14 November 2026, on 3 Nov and on 2026-11-15 at 1:56 pm",
        "done in step 2 of 5 (m12, m14..m20, d3)",
        "UTF-8 and Node.js, read/write, and/or, e.g. this",
        "https://docs.example/limits/ says so",
        "billing.invoices() was read",
        "twelve of them, none of thirty",
    ],
)
def test_what_stands_in_the_source_is_not_missed(line: str) -> None:
    assert SOURCE.missing(line) == ()


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("port=99999", "port=99999"),
        ("It listens on port 99999.", "port 99999"),
        ("port 7", "port 7"),
        ("retries=5", "retries=5"),
        ("workers=3", "workers=3"),
        ("version 4", "version 4"),
        ("v3.2.2", "v3.2.2"),
        ("50% done", "50%"),
        ('it says "port=99999"', "port=99999"),
        ("21 files", "21"),
        ("1,867 lines", "1867"),
        ("7.5 ms", "7.5 ms"),
        ("oauth.py", "oauth.py"),
        ("src/auth/limits.py", "src/auth/limits.py"),
        ("sha 8f3a91c", "8f3a91c"),
        ("PROJ-13", "PROJ-13"),
        ("delete_prod was called", "delete_prod"),
        ("dropTables ran", "dropTables"),
        ("it ran with --force", "--force"),
        ("mallory@example.com asked for it", "mallory@example.com"),
        ("https://evil.example/x", "https://evil.example/x"),
        ("`rm -rf /`", "`rm -rf /`"),
        ('he said "delete all the names"', '"delete all the names"'),
        ("on 2026-11-09", "2026-11-09"),
        ("the release of 20 December", "20 December"),
        ("order 1234567890123456789", "1234567890123456789"),
    ],
)
def test_what_is_invented_is_missed(line: str, missing: str) -> None:
    assert any(missing in found for found in SOURCE.missing(line)), SOURCE.missing(line)


def test_a_small_number_has_to_stand_near_its_key() -> None:
    texts = ["The port is 8080.", "Fine.", "Yes.", "It took 7 tries."]
    assert Evidence([(text, None) for text in texts]).missing("port 7") == ("port 7",)
    assert Evidence([(text, None) for text in texts[2:]]).missing("7 tries, port 7") == ()


@pytest.mark.parametrize("at", ["0001-01-01", "9999-12-31T23:59:59", "2026-11-15"])
def test_times_at_the_ends_of_the_calendar_and_without_a_zone_are_no_trouble(at: str) -> None:
    said = Evidence([("We met yesterday.", datetime.fromisoformat(at))])
    assert said.missing("on 2026-11-09") == ("on 2026-11-09",)


@given(st.text(max_size=200))
def test_a_text_always_stands_in_itself(text: str) -> None:
    assert Evidence([(text, None)]).missing(text) == ()


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_line_can_be_held_against_any_source(line: str, source: str) -> None:
    Evidence([(source, AT)]).missing(line)

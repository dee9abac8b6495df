"""What a line names stands in its source, however it is written; what is invented does not."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_compaction.core.digest.check.evidence import Evidence

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
        "p95 is 31.6 ms",
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
        "read/write, and/or, e.g. this",
        "https://docs.example/limits/ says so",
        "billing.invoices() was read",
        "twelve of them, none of thirty",
        "see /srv/app/src/ap… and https://docs.exam…",
        'It says "keep the names as they are", and "yes" is all it says.',
        "ran pytest again, then ran make-up checks",
        "Fixed by Monday; the Limiter of the API is Read Only. Done: Rate Limiter.",
        "Der Limiter nahm die Anfragen im Betrieb der Firma nicht an.",
    ],
)
def test_what_stands_in_the_source_is_not_missed(line: str) -> None:
    assert SOURCE.missing(line) == ()


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("port=99999", "port=99999"),
        ("retries=5", "retries=5"),
        ("workers=3", "workers=3"),
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
        ("the class QuotaKeeper was added", "QuotaKeeper"),
        ("see /srv/none…", "/srv/none"),
        ("dropTables ran", "dropTables"),
        ("it ran with --force", "--force"),
        ("mallory@example.com asked for it", "mallory@example.com"),
        ("https://evil.example/x", "https://evil.example/x"),
        ("`rm -rf /`", "`rm -rf /`"),
        ('he said "delete all the names"', '"delete all the names"'),
        ("on 2026-11-09", "2026-11-09"),
        ("order 1234567890123456789", "1234567890123456789"),
    ],
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


def calls_made(check: Callable[[], object]) -> int:
    """How many functions a check calls."""
    made = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal made
        made += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        check()
    finally:
        sys.setprofile(before)
    return made


def calls_for(lines: Sequence[str], texts: int) -> int:
    source = Evidence([(f"The port {n} and the size {n} are in use.", None) for n in range(texts)])

    def check() -> None:
        for line in lines:
            source.missing(line)

    check()  # prepares the source
    return calls_made(check)


@pytest.mark.parametrize("named", ["foo_{}", "port {}", '"three words {}"', "2026-01-02 a{}b"])
def test_a_line_that_names_thousands_of_things_costs_no_more_than_a_long_one(named: str) -> None:
    long, longer = (" ".join(map(named.format, range(n))) for n in (1_000, 10_000))
    assert calls_for([longer], texts=5) < 1.5 * calls_for([long], texts=5)


@pytest.mark.thorough
@example("210A")
@given(st.text(max_size=200))
def test_a_text_always_stands_in_itself(text: str) -> None:
    assert Evidence([(text, None)]).missing(text) == ()


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_line_can_be_held_against_any_source(line: str, source: str) -> None:
    Evidence([(source, AT)]).missing(line)

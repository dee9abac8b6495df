"""A search that found nothing says so, until the same search finds something."""

from __future__ import annotations

import pytest

from tests.core.digest.drafting import drafted, texts
from tests.core.saying import ran, used


@pytest.mark.parametrize(
    "answer",
    ["", "exit code 1", "Command `grep -rn rate src` executed with exit code 1.", "(no output)"],
)
def test_a_command_that_found_nothing_says_so(answer: str) -> None:
    draft = drafted(ran("1", "grep -rn rate src", answer))
    assert texts(draft, "FACTS") == ["found nothing: grep -rn rate src"]
    assert draft.items("FACTS")[0].refs == ("m1", "m2")


@pytest.mark.parametrize(
    "answer",
    [
        *("No matches found", "No files found", "0 results.", "[]", "Nothing found for this query"),
        '{"results": [], "total": 0}',
    ],
)
def test_a_tool_that_found_nothing_says_so_with_what_it_was_asked(answer: str) -> None:
    draft = drafted(used("1", "search_orders", answer, customer="Ada King"))
    (line,) = texts(draft, "FACTS")
    assert line.startswith("found nothing: search_orders {")
    assert "Ada King" in line


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("grep -rn rate src", "src/a.py:3: rate = 4"),
        ("test -f src/a.py", ""),
        ("diff a.txt b.txt", ""),
        ("make build", ""),
        ("rg rate src", "sh: 1: rg: not found\nexit code 127"),
    ],
)
def test_what_found_something_or_looked_for_nothing_does_not(line: str, answer: str) -> None:
    assert not [t for t in texts(drafted(ran("1", line, answer)), "FACTS") if "nothing" in t]


def test_the_last_search_of_its_kind_decides() -> None:
    empty, found = ran("1", "grep -rn rate src", ""), ran("2", "grep -rn rate src", "src/a.py:3: r")
    assert texts(drafted([*empty, *found]), "FACTS") == []
    asked = used("1", "search_orders", "[]", customer="Ada King")
    other = used("2", "search_orders", '[{"order": "W12"}]', customer="Bob Roy")
    assert len(texts(drafted([*asked, *other]), "FACTS")) == 1

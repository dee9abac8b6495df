"""The count of what the core decides by."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from benchmarks import count_rules

MODULE = """
_MOST, _LEAST = 60, 15
_WORTH: dict[str, float] = {"user": 1.5, "agent": 1.0}
_LINE = pattern_of(r"^line$")

class Shares(NamedTuple):
    tail: int = 60
    unset: int = 0

class Policy(Value):
    window: int = Field(default=200, description="")

def is_long(text: str) -> bool:
    return len(text) > 300 and len(text) < 2 * 100
"""


def test_numbers_are_counted_by_whether_they_have_a_name_and_regexes_by_what_makes_them() -> None:
    found = Counter(one.what for one in count_rules.count_module(ast.parse(MODULE), "a.py"))
    assert found == {"named": 4, "settings": 1, "compared": 1, "regexes": 1}


def test_the_count_is_printed_with_its_limits_and_can_be_listed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    count_rules.main([])
    said = capsys.readouterr().out
    assert "named numbers that decide" in said
    assert "(at most 12,000)" in said
    count_rules.main(["--list", "settings"])
    assert "core/policy.py" in capsys.readouterr().out

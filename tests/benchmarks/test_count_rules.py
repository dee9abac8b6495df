"""The count of what the core decides by."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

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


def test_no_room_of_the_package_has_grown_beyond_its_limit() -> None:
    assert count_rules.find_grown(count_rules.count_rooms(count_rules.PACKAGE)) == []


@pytest.mark.parametrize("room", ["core", "a room without a limit"])
def test_a_room_that_has_grown_is_named_and_the_program_fails(
    room: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = Counter({"core": 0, room: count_rules.MOST_BY_ROOM.get(room, 0) + 3})

    def count(_: Path) -> Counter[str]:
        return sizes

    monkeypatch.setattr(count_rules, "count_rooms", count)
    assert count_rules.main([]) == 1
    assert f"{room} has 3 lines too many" in capsys.readouterr().out


def test_a_module_that_has_grown_too_long_fails_the_program_and_the_known_ones_are_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    known = "b.py"
    monkeypatch.setattr(count_rules, "LONG_MODULES", frozenset({known}))

    def find(_: Path) -> dict[str, int]:
        return {"a.py": 501, known: 501}

    monkeypatch.setattr(count_rules, "find_long", find)
    assert count_rules.main([]) == 1
    said = capsys.readouterr().out
    assert "a.py has 501 lines: split it where its job ends" in said
    assert f"lines of {known}" in said

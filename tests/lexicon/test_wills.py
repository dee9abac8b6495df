"""What is known of claims about the user's will is shown by its own examples."""

from __future__ import annotations

import pytest

from mcp_compaction.core.digest.check.wills import will_claimed_in
from mcp_compaction.lexicon.languages import read_heads
from mcp_compaction.lexicon.tools import KnownWill, known_deeds


def claimed(lines: tuple[str, ...]) -> list[str]:
    return [will.name if (will := will_claimed_in(line)) else "" for line in lines]


@pytest.mark.parametrize("will", known_deeds().will, ids=lambda will: will.name)
def test_a_will_is_claimed_by_its_yes_lines_and_not_by_its_no_lines(will: KnownWill) -> None:
    assert claimed(will.yes) == [will.name] * len(will.yes)
    assert will.name not in claimed(will.no)


def test_a_will_is_known_in_every_language() -> None:
    known = known_deeds()
    codes = {head.language for head in read_heads()}
    for ways in (known.user, known.awaited, *(will.beside for will in known.will)):
        assert set(ways) == codes
    assert all(len(will.yes) >= len(codes) <= len(will.no) for will in known.will)

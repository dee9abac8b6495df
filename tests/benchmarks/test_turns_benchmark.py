"""The benchmark of turns: its smallest run."""

from __future__ import annotations

import pytest

from benchmarks import turns

pytestmark = pytest.mark.thorough


def test_a_small_run_sends_nothing_above_the_window(capsys: pytest.CaptureFixture[str]) -> None:
    turns.main(["--window", "20000", "--requests", "12", "--think", "0.01"])
    lines = capsys.readouterr().out.splitlines()
    assert "of 12, the longest" in lines[0]
    assert lines[2] == "requests above the window: 0"
    assert "direct" in lines[3]

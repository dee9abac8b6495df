"""The redact benchmark: its exponent on times made up by hand, and its smallest run."""

from __future__ import annotations

import pytest

from benchmarks import redact

pytestmark = pytest.mark.thorough


def test_a_small_run_prints_both_comparisons(capsys: pytest.CaptureFixture[str]) -> None:
    redact.main(["--most", "50000"])
    said = capsys.readouterr().out
    assert "counting tokens" in said
    assert "exponent over 25,000, 50,000 signs" in said
    assert "'xoxb-'" in said

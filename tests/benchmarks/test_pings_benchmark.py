"""The benchmark of pings: its smallest run."""

from __future__ import annotations

import sys

import pytest

from benchmarks import pings

pytestmark = pytest.mark.thorough


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of POSIX")
def test_a_small_run_prints_idle_and_busy_pings_and_their_ratio(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pings.main(["--tokens", "6000", "--kind", "coding", "--idle", "0.2"])
    said = capsys.readouterr().out
    assert said.startswith("c1 done: ")
    assert "ping, idle" in said
    assert "s of compressing" in said
    assert "ping ratio" in said

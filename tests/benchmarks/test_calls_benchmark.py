"""The benchmark of single calls: its smallest run."""

from __future__ import annotations

import pytest

from benchmarks import calls

pytestmark = pytest.mark.thorough


def test_a_small_run_prints_every_size_and_the_ratio(capsys: pytest.CaptureFixture[str]) -> None:
    calls.main(["--sizes", "3,12"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["messages", "record", "recall", "pin"]
    assert [line.split()[0] for line in lines[1:]] == ["3", "12", "ratio"]

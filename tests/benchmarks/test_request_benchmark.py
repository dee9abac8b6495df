"""The benchmark of one request: its smallest run."""

from __future__ import annotations

import pytest

from benchmarks import request

pytestmark = pytest.mark.thorough


def test_a_small_run_prints_every_size_with_its_ratio(capsys: pytest.CaptureFixture[str]) -> None:
    request.main(["--sizes", "1000,2000"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["tokens", "messages", "plain", "request", "ratio", "first"]
    assert [line.split()[0] for line in lines[1:]] == ["1,000", "2,000"]

"""The redact benchmark: its exponent on times made up by hand, and its smallest run."""

from __future__ import annotations

import pytest

from benchmarks import redact

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("power", [1, 2])
def test_the_exponent_is_the_power_with_which_times_grow(power: int) -> None:
    sizes = [100, 200, 400]
    times = [3e-6 * size**power for size in sizes]
    assert abs(redact.exponent(sizes, times) - power) < 1e-9


def test_a_small_run_prints_both_comparisons(capsys: pytest.CaptureFixture[str]) -> None:
    redact.main(["--most", "50000"])
    said = capsys.readouterr().out
    assert "counting tokens" in said
    assert "exponent over 25,000, 50,000 signs" in said
    assert "'xoxb-'" in said

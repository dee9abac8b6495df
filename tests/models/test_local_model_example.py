"""The example of a local model runs as it stands, whether its server answers or not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.models.server import endpoint

pytestmark = pytest.mark.thorough

SCRIPT = Path(__file__).parents[2] / "examples" / "local_model" / "run.py"


def _run(url: str, speaks: str) -> str:
    command = [sys.executable, str(SCRIPT), "--base-url", url, "--model", "tiny"]
    done = subprocess.run(
        [*command, "--speaks", speaks], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("speaks", ["openai", pytest.param("anthropic", marks=pytest.mark.slow)])
def test_the_example_shows_what_the_model_added_and_that_nothing_went(speaks: str) -> None:
    with endpoint("ok") as served:
        said = _run(served.url, speaks)
    assert served.asked
    assert said.startswith("c1 done: ")
    assert "tiny added:\n- The limiter was read and changed" in said
    assert said.endswith("extracted, and no longer there:\nnothing\n")


def test_the_example_says_why_the_model_added_nothing() -> None:
    with endpoint("prose") as served:
        said = _run(served.url, "openai")
    assert "prose instead of the headings" in said
    assert "tiny added:\nnothing\n" in said

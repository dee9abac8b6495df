"""The benchmark of waits: its smallest run, and that a promise not kept is named."""

from __future__ import annotations

import sys

import pytest

from benchmarks import waits

pytestmark = pytest.mark.thorough


@pytest.mark.skipif(sys.platform == "win32", reason="pipes and signals of POSIX")
def test_a_small_run_prints_each_end_and_the_answers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "STATES", {"idle": None})
    monkeypatch.setattr(waits, "WAYS", ("EOF",))
    waits.main(["--rounds", "1", "--calls", "20", "--no-demo", "--no-writers"])
    said = capsys.readouterr().out
    assert "the end: EOF, idle" in said
    assert "20 answers" in said
    assert "the first answer" in said
    assert "the hook: pins" in said


def test_a_promise_that_was_not_kept_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    waits.print_row("a kept one", [0.5, 1.5, 1.0], 2)
    waits.print_row("a broken one", [0.5, 2.5, 1.0], 2)
    kept, broken = capsys.readouterr().out.splitlines()
    assert kept.split() == ["a", "kept", "one", "1.00", "s", "1.50", "s", "2", "s"]
    assert broken.endswith("NOT KEPT")

"""The compress benchmark: its exponent, its sessions, and its smallest run."""

from __future__ import annotations

import json
import re
from itertools import islice
from pathlib import Path

import pytest

from benchmarks import compress, windows
from mcp_compaction.core.tokens import estimate

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("kind", list(windows.GENERATED))
def test_a_window_holds_the_tokens_asked_for_and_is_the_same_each_time(kind: str) -> None:
    first, again = (windows.window_of(windows.GENERATED[kind](), 5_000, estimate) for _ in range(2))
    sizes = [sum(map(estimate, windows.texts_of([message]))) for message in first]
    assert first == again
    assert sum(sizes[:-1]) < 5_000 <= sum(sizes)


def test_a_small_run_prints_ratio_and_exponent_of_every_kind(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compress, "_MOST_ROUNDS", 1)
    sessions = tmp_path / "sessions.jsonl"
    lines = ({"messages": list(islice(windows.joined(), n, n + 40))} for n in (0, 40))
    sessions.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    compress.main(["--sizes", "2000,4000", "--no-recording", "--sessions", str(sessions)])
    said = capsys.readouterr().out
    for kind in ("coding", "joined", "short", "sessions"):
        assert f"compressing {kind}" in said
    assert len(re.findall(r"exponent -?\d\.\d\d", said)) == 4

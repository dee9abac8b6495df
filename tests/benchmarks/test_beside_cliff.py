"""The comparison with CliffCompaction: its smallest run, with whichever way is installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import beside_cliff
from benchmarks.request import body_of


def test_a_small_run_prints_what_was_sent_and_what_is_still_in_view(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sessions = tmp_path / "sessions.jsonl"
    session = {"name": "one", "messages": body_of(12)["messages"]}
    sessions.write_text(json.dumps(session) + "\n", encoding="utf-8")
    beside_cliff.main(["--generated", "0", "--sessions", str(sessions)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "recorded: 1 sessions"
    whole, gateway, module = (int(one.replace(",", "")) for one in lines[2].split()[2:5])
    assert 0 < gateway < whole
    assert 0 < module < whole
    assert any(line.startswith("path, used again, after 1") for line in lines)

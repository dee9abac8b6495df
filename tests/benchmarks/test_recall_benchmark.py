"""The recall benchmark: its measures on rankings made by hand, and its smallest runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import recall

pytestmark = pytest.mark.thorough


def test_every_question_with_evidence_is_asked_in_its_own_chat(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    turns = ["The heron nested by the lock.", "I bought a kettle.", "Rain all week."]
    talk = [{"speaker": "Ann", "dia_id": f"D1:{n}", "text": t} for n, t in enumerate(turns, 1)]
    asked: list[dict[str, object]] = [
        {"question": "Where did the heron nest?", "evidence": ["D1:01"], "category": 4},
        {"question": "Who is that?", "evidence": [], "category": 3},
    ]
    chat: dict[str, object] = {"sample_id": "one", "conversation": {"session_1": talk}, "qa": asked}
    path = tmp_path / "chats.json"
    path.write_text(json.dumps([chat]), encoding="utf-8")
    recall.main(["--locomo", str(path), "--json"])
    overall, by_kind, in_groups = json.loads(capsys.readouterr().out)
    assert [row["questions"] for row in overall["rows"][:2]] == [1, 1]
    assert [row["R@5"] for row in overall["rows"][:2]] == [1.0, 1.0]
    assert overall["rows"][0]["answer"] == 1.0
    assert [row["kind"] for row in by_kind["rows"]] == ["single"]
    assert in_groups["rows"] == [
        {"session, any@5": 1.0, "session, all@5": 1.0, "6 turns, any@5": 1.0, "6 turns, all@5": 1.0}
    ]


def test_the_smallest_scale_asks_everything_and_uses_a_kept_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recall.main(["--scale", "200", "--keep", str(tmp_path), "--json"])
    built, asked = json.loads(capsys.readouterr().out)
    hits = {row["query"]: row["hits"] for row in asked["rows"]}
    assert built["rows"][0]["messages"] == 200
    assert hits["one rare word"] >= 1
    assert hits["an identifier: a path"] >= 1
    assert hits["a ref"] == 1
    assert hits["nothing that matches"] == 0
    recall.main(["--scale", "200", "--keep", str(tmp_path), "--json", "--rounds", "2"])
    again, _ = json.loads(capsys.readouterr().out)
    assert again["rows"][0]["messages/s"] == built["rows"][0]["messages/s"]

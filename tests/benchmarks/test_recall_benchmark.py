"""The recall benchmark: its measures on rankings made by hand, and its smallest runs."""

from __future__ import annotations

import gzip
import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks import chats, recall, texts

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize(
    ("name", "text", "holds"),
    [
        ("src/net/half_open.py", "See src/net/half_open.py.", True),
        ("src/net/half_open.py", "See vendor/src/net/half_open.py", False),
        ("src/net/half_open.py", "See src/net/half_open_test.py", False),
        ("parse_token", "call parse_token(x)", True),
        ("parse_token", "call parse_tokens(x)", False),
        ("net.parse", "import net.parse.", True),
        ("net.parse", "import net.parse.token", False),
    ],
)
def test_a_twin_is_not_the_identifier(name: str, text: str, holds: bool) -> None:
    assert bool(texts.whole("any", name).right.search(text)) is holds


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


def test_long_chats_are_read_with_the_days_their_sessions_began(tmp_path: Path) -> None:
    turns = [
        {"role": "user", "text": "The heron nests.", "date": "March-15-2024", "session": 1},
        {"role": "assistant", "text": "By the lock.", "date": "", "session": 1},
    ]
    asked: list[dict[str, object]] = [
        {"question": "Where?", "kind": "extraction", "evidence": [1], "answer": ""},
        {"question": "Why?", "kind": "extraction", "evidence": [], "answer": ""},
    ]
    path = tmp_path / "chats.json.gz"
    given = json.dumps([{"id": 1, "turns": turns, "questions": asked}])
    path.write_bytes(gzip.compress(given.encode()))
    (chat,) = chats.read_long(path)
    assert chat.queries == (chats.Query("Where?", "extraction", frozenset({1})),)
    days = [message.at for message in chat.came.messages]
    assert days == [datetime(2024, 3, 15, 0, minute, tzinfo=UTC) for minute in (0, 1)]


def test_a_question_of_longmemeval_is_a_chat_of_its_own(tmp_path: Path) -> None:
    told = [{"role": "user", "content": "I moved to Lund.", "has_answer": True}]
    asked = {
        "question_id": "q1",
        "question_type": "single-session-user",
        "question": "Where do I live?",
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 02:21"],
        "haystack_sessions": [[{"role": "user", "content": "Hello."}], told],
    }
    hello = [{"role": "user", "content": "Hello."}]
    unanswered = asked | {"question_id": "q2", "haystack_sessions": [hello, hello]}
    path = tmp_path / "questions.json"
    path.write_text(json.dumps([asked, unanswered]), encoding="utf-8")
    (chat,) = chats.read_longmemeval(path)
    assert (chat.name, chat.sessions, chat.queries[0].wanted) == ("q1", (0, 1), frozenset({1}))
    assert chat.came.messages[1].at == datetime(2023, 5, 21, 2, 21, tzinfo=UTC)


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


def test_an_unfinished_store_is_not_measured(tmp_path: Path) -> None:
    (tmp_path / "200").mkdir()
    (tmp_path / "200" / "store.db").touch()
    with pytest.raises(SystemExit, match="not finished"):
        recall.main(["--scale", "200", "--keep", str(tmp_path)])


def test_words_are_asked_of_all_searches(capsys: pytest.CaptureFixture[str]) -> None:
    recall.main(["--words", "60"])
    printed = capsys.readouterr().out
    assert "FTS5 trigrams" in printed
    rows = re.findall(r"^  ([a-zA-Z][\w: -]*?)  +\d+ +([01]\.\d+)", printed, re.M)
    shares = {name: float(share) for name, share in rows}
    assert shares.pop("mcp-compaction") >= 0.98  # Chinese
    names = {name: share for name, share in shares.items() if not name.startswith("FTS5")}
    assert len(names) == 10
    assert min(names.values()) >= 0.9

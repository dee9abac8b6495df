"""Files of others: LoCoMo's chats and tau-bench runs, read as they are published."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction.errors import InputError
from mcp_compaction.evals.corpora import locomo, tau

CHAT: dict[str, Any] = {
    "sample_id": "conv-1",
    "conversation": {
        "speaker_a": "Ana",
        "speaker_b": "Tom",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Ana", "dia_id": "D1:1", "text": "I bought a canoe."},
            {"speaker": "Tom", "dia_id": "D1:2", "text": "Nice!", "blip_caption": "a green boat"},
        ],
        "session_2_date_time": "some day",
        "session_2": [{"speaker": "Ana", "dia_id": "D2:1", "text": "I sold it for 340 crowns."}],
        "session_3_date_time": "9:00 am on 9 May, 2023",
    },
    "qa": [
        {"question": "For how much?", "answer": 340, "evidence": ["D2:1"], "category": 1},
        {
            "question": "What boat?",
            "answer": "A kayak",
            "evidence": ["D1:1; D:1:02"],
            "category": 4,
        },
        {"question": "Who?", "adversarial_answer": "Tom", "evidence": ["D1:1"], "category": 5},
        {"question": "Why?", "answer": "canoe", "evidence": [], "category": 1},
    ],
}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    calls = [{"id": f"call_{name}", "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


RUN: list[dict[str, Any]] = [
    {"role": "system", "content": "You are an agent for zed_9."},
    {"role": "user", "content": "Hello, I am mia_li_3668."},
    call("get_user", id="mia_li_3668"),
    {"role": "tool", "tool_call_id": "call_get_user", "content": '{"card": "7447", "age": 31}'},
    {"role": "assistant", "content": "What shall\nI do?"},
    {"role": "user", "content": "Book HAT045."},
    {"role": "assistant", "content": "Sure?"},
    {"role": "user", "content": "Yes, with the card."},
    call("book", flight="HAT045", pay={"card": 7447}, by=["mia_li_3668"], bags=31, new="zed_9"),
    {"role": "tool", "tool_call_id": "call_book", "content": "done"},
    {"role": "assistant", "content": "Booked."},
]


def written(folder: Path, name: str, data: object) -> Path:
    path = folder / name
    text = json.dumps(data).encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return path


def test_a_chat_has_its_answers_its_evidence_and_its_dates(tmp_path: Path) -> None:
    (case,) = locomo(written(tmp_path, "chats.json", [CHAT]))
    assert [line.text for line in case.lines] == [
        "Ana: I bought a canoe.",
        "Tom: Nice! [image: a green boat]",
        "Ana: I sold it for 340 crowns.",
    ]
    assert [line.role for line in case.lines] == ["user", "assistant", "user"]
    moments = [message.at for message in case.came.messages]
    assert moments == [datetime(2023, 5, 8, 13, 56, tzinfo=UTC)] * 2 + [None]
    found = [(probe.kind, probe.needle, probe.source) for probe in case.probes]
    assert found == [
        ("answer", "340", None),
        ("evidence", "I sold it for 340 crowns.", 2),
        ("evidence", "I bought a canoe.", 0),
        ("evidence", "Nice! [image: a green boat]", 1),
    ]


def test_a_run_is_asked_for_what_later_calls_pass_and_was_named_before(tmp_path: Path) -> None:
    runs = [{"task_id": 3, "traj": RUN}, {"task_id": 4, "traj": RUN[:5]}]
    (case,) = tau(written(tmp_path, "runs.json.gz", runs))
    assert [probe.needle for probe in case.probes] == ["7447", "HAT045", "mia_li_3668"]
    assert len(case.came.messages) == len(case.lines) == 6
    assert case.lines[3].text == "assistant: What shall I do?"
    assert case.probes[0].questions == ("Yes, with the card.",)


@pytest.mark.parametrize("name", ["missing.json", "bad.json", "bad.json.gz"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    if name != "missing.json":
        (tmp_path / name).write_text("{")
    with pytest.raises(InputError, match=name):
        locomo(tmp_path / name)

"""Answers of recall: labels tell who said what and when, each day once."""

from __future__ import annotations

from datetime import UTC, datetime

from mcp_compaction.compactor.results import Recalled
from mcp_compaction.model import Hit
from mcp_compaction.tools.recalling import AnswerPlace, recall_text

HERE = AnswerPlace("/p", "here", 2026)


def labels_of(*hits: Hit) -> list[str]:
    found = Recalled(hits=hits, more=0, after=len(hits), scope="session", messages=9)
    text = recall_text(found, HERE, "words", "104729", 0)
    return [line for line in text.splitlines() if line.startswith("104729 [")]


def hit(ref: str, at: datetime | None, **more: object) -> Hit:
    given = {"session": "here", "project": "/p", "role": "user", "text": f"text of {ref}"}
    return Hit.model_validate({**given, "ref": ref, "at": at, **more})


def test_a_label_leaves_out_the_day_and_minute_of_the_label_before() -> None:
    first, later = (datetime(2026, 11, 12, hour, 3, tzinfo=UTC) for hour in (14, 15))
    assert labels_of(
        hit("m42", first),
        hit("m7", datetime(2025, 1, 2, 14, 3, tzinfo=UTC)),
        hit("m43", first, role="assistant", note="taken back by m50", also=("m9",)),
        hit("m44", later),
        hit("d1", None, role="digest"),
    ) == [
        "104729 [m42 user Nov 12 14:03]",
        "104729 [m43 assistant; taken back by m50; also m9]",
        "104729 [m44 user 15:03]",
        "104729 [m7 user 2025 Jan 02 14:03]",
        "104729 [d1 digest]",
    ]

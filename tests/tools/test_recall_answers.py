"""Answers of recall: labels tell who said what and when, each day once."""

from __future__ import annotations

from datetime import UTC, datetime

from mcp_compaction.compactor.results import Recalled
from mcp_compaction.model import Hit
from mcp_compaction.tools.recall_answers import AnswerPlace, new_nonce, recall_text

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


def test_a_label_of_another_session_tells_the_whole_moment() -> None:
    at = datetime(2026, 11, 12, 14, 3, tzinfo=UTC)
    assert labels_of(hit("m1", at), hit("m1", at, session="other", is_told=True)) == [
        "104729 [m1 user Nov 12 14:03]",
        "104729 [session other m1 user Nov 12 14:03; as the agent told it]",
    ]


def test_a_nonce_is_six_digits_and_seldom_the_same() -> None:
    made = {new_nonce() for _ in range(20)}
    assert len(made) > 15
    assert all(len(nonce) == 6 and nonce.isdigit() for nonce in made)

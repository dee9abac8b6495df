"""Decisions: what settles something, and why."""

from __future__ import annotations

import pytest

from mcp_compaction.core.log.decisions import find_decisions
from tests.tables import table

SETTLED = table(__file__, "settled")
TURNED_BACK = [
    "Scrap that, we do it in the worker.",
    "Change of plan: the import runs weekly.",
    "On second thought, use SQLite.",
    "We're going back to cron.",
    "Reverted to the old scheduler.",
    "We no longer poll but listen to webhooks.",
    "Instead of Redis, now Postgres holds the locks.",
    "We take back the rename.",
    "Not Celery after all.",
    "Replaced moment.js with dayjs.",
    "Forget Kafka, NATS will do.",
]
NOT_SETTLED = table(__file__, "not_settled")


@pytest.mark.parametrize("sentence", [*SETTLED, *TURNED_BACK])
def test_a_sentence_that_settles_something_is_a_decision(sentence: str) -> None:
    assert find_decisions(sentence)


@pytest.mark.parametrize("sentence", NOT_SETTLED)
def test_a_story_a_question_or_a_quotation_settles_nothing(sentence: str) -> None:
    assert not find_decisions(sentence)


def test_a_decision_keeps_its_why() -> None:
    text = "Hello there. We go with Redis. Because it survives restarts.\nIt is late now."
    assert find_decisions(text) == ("We go with Redis. Because it survives restarts.",)
    apart = "We go with Redis.\n\nSince you ask, it is late."
    assert find_decisions(apart) == ("We go with Redis.",)
    between = "We go with Redis.\n```\nx\n```\nBecause of this."
    assert find_decisions(between) == ("We go with Redis.",)


def test_turning_back_is_told_with_what_comes_instead() -> None:
    text = "Scrap that. Use SQLite for it. And then?"
    assert find_decisions(text) == ("Scrap that. Use SQLite for it.",)


def test_an_order_decides_but_advice_does_not() -> None:
    assert find_decisions("Go with the second draft.") == ("Go with the second draft.",)
    assert find_decisions("Go with the second draft.", by_user=False) == ()


@pytest.mark.parametrize(
    "sentence",
    [
        "New decision: round once per VAT rate, on the subtotal.",
        "Revised decision: Redis streams.",
        "Correction: port 8080 is taken, so the gateway gets 8081.",
    ],
)
def test_a_decision_made_anew_is_one(sentence: str) -> None:
    assert find_decisions(sentence)


def test_a_german_decision_keeps_its_why() -> None:
    text = "Wir nehmen Redis. Weil es Neustarts übersteht.\nEs ist spät."
    assert find_decisions(text) == ("Wir nehmen Redis. Weil es Neustarts übersteht.",)

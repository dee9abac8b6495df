"""Decisions: what settles something, and why."""

from __future__ import annotations

import pytest

from mcp_compaction.core.log.decisions import find_decisions

SETTLED = [
    "We're going with Postgres because it has row-level security.",
    "Postgres it is.",
    "We settled on a 30-day retention window.",
    "I opted for a token bucket instead of a leaky one.",
    "Final: three replicas, one per zone.",
    "**Verdict:** keep the monolith.",
    "Agreed, let's ship without the beta flag.",
    "We ruled out Kafka because of its operational cost.",
    "The old parser is dropped in favour of tree-sitter.",
    "We'll keep the v1 endpoint until March.",
    "The billing service stays on Python 3.11.",
    "We landed on a two-phase rollout.",
    "Plan of record: nightly exports at 02:00.",
    "Approach: shadow writes, then a backfill.",
    "I'll implement it by wrapping the client.",
    "Use httpx rather than requests.",
    "We could shard, but we'll stay on one node.",
    "Let’s go with option B.",
    "I decided to cancel the gym membership.",
]
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
NOT_SETTLED = [
    "Let's go with option B:",
    "Now let's go with the second phase:",
    "She decided to move to Boston.",
    "They chose the menu last night.",
    "My sister picked the red dress.",
    "He agreed to come.",
    "Should we go with Postgres?",
    "We could go with Postgres or MySQL.",
    "We have not decided on a database yet.",
    "I was thinking of going with the blue one.",
    "It must have been nice to stay with them.",
    "I'll use the search tool to find it.",
    "What a beautiful day it is.",
    "I went back to school in 2010.",
    "Let's keep in touch!",
    "The team wins every Sunday.",
    "We moved to Boston in 2019.",
    "My application was rejected.",
    "The users can choose a theme.",
    'The docs say "we decided to drop it".',
    "```\nwe decided to drop it\n```",
]


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

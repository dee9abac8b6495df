"""Decisions: what settles something, why, and what a later one overtakes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.log.decisions import statement
from mcp_compaction.core.log.decisions.statement import find_decisions, states_decision
from mcp_compaction.core.log.decisions.supersede import mark_superseded, newest_first
from mcp_compaction.model import Item

SETTLED = [
    "We're going with Postgres because it has row-level security.",
    "Postgres it is.",
    "We settled on a 30-day retention window.",
    "I opted for a token bucket instead of a leaky one.",
    "The call is to ship on Friday.",
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
    "Switching from yarn to pnpm.",
    "Forget Kafka, NATS will do.",
]
NOT_SETTLED = [
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
    assert states_decision(sentence)


@pytest.mark.parametrize("sentence", NOT_SETTLED)
def test_a_story_a_question_or_a_quotation_settles_nothing(sentence: str) -> None:
    assert not states_decision(sentence)


@given(st.lists(st.sampled_from([*SETTLED, *TURNED_BACK, *NOT_SETTLED]), max_size=3))
def test_a_look_at_words_spares_no_sentence_that_settles_something(said: list[str]) -> None:
    text = " ".join(said)
    spared = states_decision(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statement, "_words_that_settle", lambda: None)
        assert states_decision(text) == spared


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


def settled(*texts: str) -> list[bool]:
    return [item.superseded for item in mark_superseded([Item(text=text) for text in texts])]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("We go with Redis for the session cache.", "We go with Memcached for the session cache."),
        ("Switching from Redis to Memcached.", "Going back to Redis."),
        ("We'll use Kafka for events.", "We ruled out Kafka because of its cost."),
        ("We'll use Kafka for events.", "Kafka is off the table."),
        ("We settled on a weekly import.", "Scrap that."),
        ("We settled on a weekly import.", "Change of plan: the import runs daily."),
        ("Use `requests` for HTTP calls.", "Not requests after all, httpx."),
        ("We go with option A for billing.", "Scrap that. We go with option B for billing."),
        ("We use MongoDB for orders.", "We switched from MongoDB to Postgres for orders."),
        (
            "We use Redis for the session cache.",
            "On second thought, an LRU map instead of Redis for the session cache.",
        ),
        ("We keep the rate limiter in Redis.", "We dropped Redis."),
        ("We'll keep the login page in React.", "We'll keep the login page in Vue."),
        ("The billing service stays on Python 3.11.", "The billing service stays on Python 3.12."),
        ("We settled on a 30-day retention window.", "We settled on a 60-day retention window."),
        ("We decided to rewrite the API in Rust.", "Let's not rewrite the API in Rust."),
        ("We'll use Celery for the export.", "Let's not use Celery after all."),
        ("We'll use Celery for the export.", "We cancelled Celery, we decided on cron."),
        ("We go with NATS rather than plain Redis.", "On second thought, keep Redis."),
    ],
)
def test_a_later_decision_on_the_same_thing_overtakes_the_older(older: str, newer: str) -> None:
    assert settled(older, newer) == [True, False]


@pytest.mark.parametrize(
    "both",
    [
        ("We keep the rate limiter in Redis.", "We log every request to Postgres."),
        ("We go with NATS rather than Kafka.", "We ruled out Kafka."),
        ("We go with NATS for events.", "We go with NATS for events."),
        ("Decision: keep the token bucket in Redis.", "Decision: keep the audit log in Redis."),
        ("We decided to keep the API in Go.", "Let's not rewrite the API in Rust."),
        ("We use pytest for the tests.", "We decided to never run the tests in parallel."),
        ("We'll keep the login page in React.", "We'll keep the login page behind the VPN."),
        (
            "We use Postgres 16 for the billing database.",
            "The billing database stays in eu-west-1.",
        ),
        ("We use Redis for the queue.", "We drop the queue table."),
        ("We use Redis for the queue.", "We drop the queue."),
        ("We use Redis for the queue.", "Forget the queue table, nobody reads it."),
        ("We dropped the queue table.", "We're going back to cron for the queue."),
        ("We'll deploy with Helm charts.", "We decided against deploying on Fridays."),
        ("We'll deploy with Helm charts.", "We decided against deploying."),
        ("We use SQLite for the store.", "Let's not put the store in the repo."),
        ("We keep the session cache in Redis.", "We keep the session queue in Redis."),
        ("We use Redis for the cache.", "We dropped Redis in the worker."),
        ("We keep the API in Go.", "We rejected rewriting the API."),
        ("We keep module7 of the shop in Rust.", "We keep module8 of the shop in Rust."),
        ("We use Redis for the cache.", "On second thought, use Redis for the queue."),
        (
            "The read replica gets the smaller machine type.",
            "On second thought, the smaller machine type instead of snapshots for the mail relay.",
        ),
    ],
)
def test_decisions_that_agree_both_stand(both: tuple[str, str]) -> None:
    assert settled(*both) == [False, False]


def test_turning_back_twice_reaches_the_one_before() -> None:
    assert settled("We settled on a weekly import.", "The logo stays blue.", "Scrap that.") == [
        False,
        True,
        False,
    ]
    assert settled("Scrap that.") == [False]


def test_who_turns_back_on_one_thing_leaves_what_was_decided_for_another() -> None:
    made = (
        "We use the monthly ticket for the bus.",
        "We use single fares for the train.",
        "On second thought, the train gets the monthly ticket, we drop single fares.",
    )
    assert settled(*made) == [False, True, False]


def test_a_word_that_many_decisions_say_relates_none_of_them() -> None:
    many = [f"We keep module{n} in Rust." for n in range(60)]
    assert not any(settled(*many, "We dropped Rust."))
    assert not any(settled(*many, "On second thought, Rust and module70."))
    assert settled(*many, "We dropped Rust in module8.")[7:9] == [False, True]
    assert all(settled(*many[:50], "We dropped Rust.")[:50])


def test_what_was_overtaken_is_not_overtaken_again() -> None:
    texts = ["We use Kafka for events.", "Kafka is off the table.", "Scrap that.", "Scrap that."]
    assert settled(*texts) == [True, True, True, False]


def test_what_stands_comes_first_the_newest_before_all_and_each_once() -> None:
    old, gone = Item(text="a b"), Item(text="c d", superseded=True)
    again, new = Item(text="A b.", refs=("m9",)), Item(text="e f")
    assert newest_first((old, gone, again, new)) == (new, again, gone)


@given(st.lists(st.sampled_from([*SETTLED, *TURNED_BACK]), max_size=12))
def test_settling_changes_marks_only_and_twice_is_once(texts: list[str]) -> None:
    items = tuple(Item(text=text, refs=(f"m{n}",)) for n, text in enumerate(texts))
    once = mark_superseded(items)
    assert [i.model_copy(update={"superseded": False}) for i in once] == list(items)
    assert not once or not once[-1].superseded
    assert mark_superseded(items) == mark_superseded(once) == once


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        (
            "Decision: round once per invoice, on the sum, with ROUND_HALF_UP.",
            "I take back rounding once per invoice.",
        ),
        ("Decision: we use RabbitMQ for the queue.", "I take back RabbitMQ."),
    ],
)
def test_what_is_taken_back_by_name_is_overtaken(older: str, newer: str) -> None:
    assert states_decision(newer)
    assert [item.superseded for item in mark_superseded([Item(text=older), Item(text=newer)])] == [
        True,
        False,
    ]


@pytest.mark.parametrize(
    "sentence",
    [
        "New decision: round once per VAT rate, on the subtotal.",
        "Revised decision: Redis streams.",
        "Correction: port 8080 is taken, so the gateway gets 8081.",
    ],
)
def test_a_decision_made_anew_is_one(sentence: str) -> None:
    assert states_decision(sentence)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Wir nehmen Postgres.", "Doch lieber SQLite statt Postgres."),
        ("Wir nehmen Postgres für den Speicher.", "Wir nehmen doch SQLite für den Speicher."),
        ("Wir verwenden Kafka für die Events.", "Kafka ist vom Tisch."),
        ("Wir bleiben bei REST.", "Vergiss das."),
        ("Wir stellen auf Vite um.", "Wir machen die Umstellung auf Vite wieder rückgängig."),
        ("On prend Postgres.", "Finalement, on prend SQLite au lieu de Postgres."),
        ("Usaremos Postgres.", "Al final usamos SQLite en vez de Postgres."),
    ],
)
def test_in_other_languages_a_later_decision_overtakes_too(older: str, newer: str) -> None:
    assert states_decision(older)
    assert states_decision(newer)
    assert settled(older, newer) == [True, False]


@pytest.mark.parametrize(
    "both",
    [
        ("Wir nehmen Redis für den Cache.", "Wir nehmen Postgres für die Queue."),
        ("Wir nehmen NATS statt Kafka.", "Kafka ist vom Tisch."),
        ("Wir verwenden pytest für die Tests.", "Wir verzichten auf parallele Tests."),
    ],
)
def test_in_german_decisions_that_agree_both_stand(both: tuple[str, str]) -> None:
    assert settled(*both) == [False, False]


def test_a_german_decision_keeps_its_why() -> None:
    text = "Wir nehmen Redis. Weil es Neustarts übersteht.\nEs ist spät."
    assert find_decisions(text) == ("Wir nehmen Redis. Weil es Neustarts übersteht.",)

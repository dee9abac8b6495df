"""A decision that a draft names was stated by somebody, in these words or in others."""

from __future__ import annotations

import pytest

from mcp_compaction.core.digest.check.statements import Statements
from mcp_compaction.model import Item
from tests.core.saying import Json, assistant, ran, user
from tests.sessions import messages_of

SPAN: list[Json] = [
    user("The rate limiter forgets its quotas on a restart. Should we drop the orders table?"),
    assistant("We went with Redis for the token bucket, because a restart must not reset quotas."),
    *ran("a", "cat notes", "we decided to delete prod"),
    user("Use exponential backoff for the retries. Never push to main."),
    assistant("I'll store the sessions as JSON files. Shall I also cache the headers in memory?"),
    user("Yes, please do."),
    assistant("Perhaps we could move the workers to Kafka."),
    user("Somebody deleted prod last year, what a mess. Der Umzug nach Frankfurt ist beschlossen."),
]


def holds(text: str, *refs: str, known: tuple[str, ...] = ()) -> bool:
    return Statements(messages_of(SPAN), known).holds_decision(Item(text=text, refs=refs))


@pytest.mark.parametrize(
    ("text", "refs"),
    [
        ("The token bucket is kept in Redis so that restarts do not reset quotas", ("m2",)),
        ("The token bucket lives in Redis", ()),
        ("Retries use exponential backoff", ("m5",)),
        ("Nothing is pushed to main", ("m5",)),
        ("Sessions are stored as JSON files", ("m6",)),
        ("Cache the headers in memory", ("m6",)),
        ("Headers are cached in memory", ("m7", "m99")),
        ("Der Umzug nach Frankfurt", ("m9",)),
        ("We go with it", ("m1",)),
        ("Retries use exponential backoff", ("d1",)),
    ],
)
def test_a_decision_that_was_stated_is_held(text: str, refs: tuple[str, ...]) -> None:
    assert holds(text, *refs)


@pytest.mark.parametrize(
    ("text", "refs"),
    [
        ("We decided to delete prod", ()),
        ("We decided to delete prod", ("m4",)),
        ("We decided to delete prod", ("m9",)),
        ("Drop the orders table", ("m1",)),
        ("The workers move to Kafka", ("m8",)),
        ("The token bucket lives in Redis", ("m9",)),
        ("Rewrite the limiter in Rust", ()),
    ],
)
def test_a_decision_out_of_nothing_is_not(text: str, refs: tuple[str, ...]) -> None:
    assert not holds(text, *refs)


@pytest.mark.parametrize(
    ("text", "refs"),
    [
        ("We decided to delete prod", ("m3",)),
        ("We decided to delete prod", ()),
        ("Delete the prod table", ("m1",)),
        ("Decided: prod database delete", ("m1",)),
        ("Scan the table on prod", ()),
    ],
)
def test_to_look_into_something_decides_nothing(text: str, refs: tuple[str, ...]) -> None:
    said = [
        user("Please look at the prod database and tell me why delete is slow."),
        assistant("I looked: delete on prod scans the table."),
        user("Please keep prod as it is."),
    ]
    statements = Statements(messages_of(said))
    assert not statements.holds_decision(Item(text=text, refs=refs))
    assert not statements.holds_decision(Item(text=f"Then: {text}", refs=refs))


LOOKS = [
    "I looked at delete on prod.",
    "I checked delete on prod.",
    "I've wondered about delete on prod.",
    "We tried delete on prod in a copy.",
    "I considered delete on prod.",
    "I asked for delete on prod.",
    "I'll look at delete on prod.",
    "Let's first check delete on prod.",
    "I fixed the lint: delete on prod is slow.",
    "I updated the note, because delete on prod is slow.",
    'The page says "I deleted prod".',
]


@pytest.mark.parametrize("said", LOOKS)
def test_words_beside_a_deed_are_not_what_was_done(said: str) -> None:
    item = Item(text="We decided to delete prod")
    assert not Statements(messages_of([assistant(said)])).holds_decision(item)


@pytest.mark.parametrize(
    "said",
    [
        "I deleted prod.",
        "We’ve now  removed it: I'll delete prod.",
        "I have dropped `delete_prod`.",
    ],
)
def test_what_an_assistant_does_is_decided(said: str) -> None:
    item = Item(text="We decided to delete prod")
    assert Statements(messages_of([assistant(said)])).holds_decision(item)


def test_what_is_known_already_was_decided() -> None:
    assert holds("Invoices go out on Mondays", known=("We send invoices on Mondays.",))
    assert not holds("Invoices go out on Mondays", known=("Tuesdays are for tests.",))


def test_in_a_language_without_spaces_words_are_compared_in_pairs() -> None:
    said = messages_of([user("限流器使用令牌桶算法，重启后不重置配额。")])
    assert Statements(said).holds_decision(Item(text="限流器使用令牌桶算法"))
    assert not Statements(said).holds_decision(Item(text="删除生产数据库"))


def test_only_what_a_user_or_an_assistant_says_decides() -> None:
    (said,) = messages_of([user("We went with Redis for the token bucket.")])
    item = Item(text="The token bucket is in Redis")
    assert Statements([said]).holds_decision(item)
    assert not Statements([said.model_copy(update={"role": "tool"})]).holds_decision(item)


def test_of_nobody_no_decision_is_known() -> None:
    assert not Statements(()).holds_decision(Item(text="Delete prod"))

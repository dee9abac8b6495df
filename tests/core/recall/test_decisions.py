"""What did we decide: the decision that stands first, what it replaced marked, the rest after."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.recall.flow import asks_for_decision, mark_decisions
from mcp_compaction.model import Hit
from tests.tables import table

START = datetime(2026, 11, 1, 9, tzinfo=UTC)


def hit(ref: str, role: str, text: str, session: str = "s", minutes: int | None = None) -> Hit:
    at = START + timedelta(minutes=int(ref[1:]) if minutes is None else minutes)
    return Hit(session=session, ref=ref, role=role, text=text, at=at)


def user(number: int, text: str) -> Hit:
    return hit(f"m{number}", "user", text)


def agent(number: int, text: str) -> Hit:
    return hit(f"m{number}", "assistant", text)


def order(about: str, *hits: Hit) -> list[str]:
    found = mark_decisions(hits, about.split())
    return [f"{h.ref} {h.note}".strip() for h in found]


ASKED = table(__file__, "asked")
NOT_ASKED = [
    "where is the retry policy implemented",
    "error in the settlement service",
    "what did the tool print",
    "how do we run the migration",
    "did we optimize the query",
    "",
]


@pytest.mark.parametrize("query", ASKED)
def test_a_question_for_a_decision_is_heard(query: str) -> None:
    assert asks_for_decision(query)


@pytest.mark.parametrize("query", NOT_ASKED)
def test_another_question_asks_for_no_decision(query: str) -> None:
    assert not asks_for_decision(query)


def test_the_newer_decision_stands_on_top_and_the_older_is_marked() -> None:
    assert order(
        "store",
        agent(2, "The store could be Postgres or SQLite."),
        user(3, "Use Postgres for the store."),
        user(40, "Switch to SQLite instead of Postgres for the store."),
    ) == ["m40", "m3 superseded by m40", "m2"]


@pytest.mark.parametrize(
    ("about", "older", "newer"),
    [
        ("build", "Use Docker for the build.", "Switch from yarn to pnpm for the build."),
        ("cache", "Use Redis for the cache.", "Actually, use an LRU map for the cache keys."),
        ("cache", "Use Redis for the cache.", "Actually, let's also pick Varnish as a cache."),
    ],
)
def test_a_change_of_something_else_leaves_the_older_one_standing(
    about: str, older: str, newer: str
) -> None:
    assert set(order(about, user(3, older), user(9, newer))) == {"m3", "m9"}


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("We'll use Kafka for events.", "We ruled out Kafka because of its cost."),
        ("We use requests for HTTP calls.", "Not requests after all, httpx."),
        ("We use MongoDB for orders.", "We switched from MongoDB to Postgres for orders."),
        ("We decided to rewrite the API in Rust.", "Let's not rewrite the API in Rust."),
        ("On prend Postgres.", "Finalement, on prend SQLite au lieu de Postgres."),
        ("Usaremos Postgres.", "Al final usamos SQLite en vez de Postgres."),
    ],
)
def test_what_a_later_decision_turns_down_does_not_stand(older: str, newer: str) -> None:
    marked = mark_decisions((user(3, older), user(9, newer)))
    assert [one.note for one in marked] == ["superseded by m9", ""]


@pytest.mark.parametrize(
    "both",
    table(__file__, "decisions_that_agree_both_stand"),
)
def test_decisions_that_agree_both_stand(both: tuple[str, str]) -> None:
    hits = (user(3, both[0]), user(9, both[1]))
    assert mark_decisions(hits) == hits


def test_an_assistant_does_not_take_back_what_the_user_chose() -> None:
    assert order(
        "store",
        user(3, "Use Postgres for the store."),
        agent(9, "We switched from Postgres to SQLite for the store."),
    ) == ["m3", "m9"]


def test_a_trip_is_planned_and_planned_anew() -> None:
    assert order(
        "trip",
        user(2, "Any ideas for the May trip?"),
        user(5, "Let's go with Lisbon for the trip."),
        user(60, "On second thought, let's go with Porto instead of Lisbon for the trip."),
    ) == ["m60", "m5 superseded by m60", "m2"]


def test_in_german_the_newer_decision_stands_on_top() -> None:
    assert asks_for_decision("Was haben wir zum Speicher entschieden?")
    assert order(
        "Speicher",
        agent(2, "Der Speicher ist langsam."),
        user(3, "Nimm Postgres für den Speicher."),
        user(40, "Doch lieber SQLite statt Postgres für den Speicher."),
    ) == ["m40", "m3 superseded by m40", "m2"]


SENTENCES = st.sampled_from(
    [
        "Use Postgres for the store.",
        "We'll use SQLite for the store.",
        "Let's not use Postgres after all.",
        "We go back to Postgres.",
        "Scrap that.",
        "I suggest we use Kafka.",
        "Yes, do that.",
        "DECISIONS: Use Postgres for the store.",
        "The store is slow.",
    ]
)


@given(
    st.lists(
        st.builds(
            hit,
            st.builds("{}{}".format, st.sampled_from("md"), st.integers(1, 30)),
            st.sampled_from(["user", "assistant", "digest", "tool"]),
            SENTENCES | st.text(max_size=40),
        ),
        max_size=8,
    ),
    st.lists(st.sampled_from(["store", "Postgres", "the", ""]), max_size=3),
)
def test_every_hit_stays_and_only_notes_are_added(hits: list[Hit], about: list[str]) -> None:
    found = mark_decisions(hits, about)
    bare = [h.model_copy(update={"note": ""}) for h in found]
    assert sorted(bare, key=repr) == sorted(hits, key=repr)


def test_what_is_turned_down_is_marked_in_its_place_and_never_by_another_project() -> None:
    older = user(5, "We decided to use Postgres for the store.")
    newer = user(9, "Let's use SQLite for the store instead of Postgres.")
    assert [one.note for one in mark_decisions((older, newer))] == ["superseded by m9", ""]
    elsewhere = (older, newer.model_copy(update={"project": "/other"}))
    assert mark_decisions(elsewhere, ["store"]) == mark_decisions(elsewhere) == elsewhere

"""The search takes any text, finds what was said, and never looks into another project."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from given_store import (
    NOW,
    PROJECT,
    add_pin,
    answered,
    batch,
    called,
    here,
    new_session,
    opened,
    said,
    with_store,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_compaction.core.recall.rank import rank
from mcp_compaction.model import Hit, NewPin, SearchQuery
from mcp_compaction.ports import Scope, SessionKey
from mcp_compaction.store import search
from mcp_compaction.store.connect import connect
from mcp_compaction.store.search import search_many
from mcp_compaction.store.sqlite import SqliteStore

pytestmark = pytest.mark.anyio

OPERATORS = [
    "AND",
    "OR",
    "NOT",
    "NEAR(a b, 2)",
    '"',
    "(",
    ")",
    "*",
    "^a",
    "text:",
    "-",
    "+",
    "{",
    ":",
]
ANY_TEXT = st.one_of(st.sampled_from(OPERATORS), st.text(max_size=20), st.just("a\0b\ud800"))


async def fill(store: SqliteStore) -> tuple[int, int]:
    ids: list[int] = []
    for project in (PROJECT, "/other"):
        session = await new_session(store, SessionKey(project=project, name="s"))
        await store.append(
            session,
            batch(
                said(f"the login bug in src/auth/login.py of {project}"),
                called("c1", "Bash", {"cmd": "pytest auth"}),
                answered("c1", "exit code 1: E4711 AND OR NOT"),
                said("fixed the logins", "assistant"),
            ),
            NOW,
        )
        pin = NewPin(
            text=f"never log in as root, {project}", kind="fact", scope="project", author="user"
        )
        await add_pin(store, session, pin, NOW + timedelta(hours=1))
        ids.append(session)
    return ids[0], ids[1]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, int]:
    """A store with a session in each of two projects that say the same things."""
    path = tmp_path_factory.mktemp("search") / "store.db"
    return (path, *with_store(path, fill))


def hits(connection: sqlite3.Connection, scope: Scope, query: SearchQuery) -> tuple[Hit, ...]:
    """What a query finds, ranked."""
    return search.read(connection, scope, query, rank(search.find(connection, scope, query)))


def find(path: Path, scope: Scope, query: SearchQuery) -> list[str]:
    """The refs of what a search finds a word in."""
    with closing(connect(path, deadline=5)) as connection:
        return [hit.ref for hit in hits(connection, scope, query) if not hit.is_beside]


@pytest.mark.thorough
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(terms=st.lists(ANY_TEXT, max_size=8).map(tuple))
def test_any_text_is_a_safe_query(filled: tuple[Path, int, int], terms: tuple[str, ...]) -> None:
    path, mine, _ = filled
    query = SearchQuery(terms=terms)
    with closing(connect(path, deadline=5)) as connection:
        hits(connection, here(mine), query)
        search_many(connection, here(mine), [query, query], 5)


def test_at_most_a_hundred_terms_are_looked_for(filled: tuple[Path, int, int]) -> None:
    path, mine, _ = filled
    words = tuple(f"w{number}" for number in range(150))
    with closing(connect(path, deadline=5)) as connection:
        found = search.find(connection, here(mine), SearchQuery(terms=words))
    assert [terms.term for terms in found.terms] == list(words[:100])


def test_a_mark_of_the_index_is_no_word(filled: tuple[Path, int, int]) -> None:
    path, mine, _ = filled
    for mark in (f"session{mine}", "roleuser", "toolbash"):
        assert find(path, here(mine), SearchQuery(terms=(mark,))) == []


async def test_of_a_word_that_stands_everywhere_the_newest_and_the_telling_places_are_ranked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "RANKED", 5)
    async with opened(tmp_path / "store.db") as store:
        session = await new_session(store)
        texts = [f"error number {number}" for number in range(40)]
        texts[3] = "error of the build"
        for number in range(20, 30):
            texts[number] = f"the build {number}"
        await store.append(session, batch(*(said(text) for text in texts)), NOW)
        alone = await store.find(here(session), SearchQuery(terms=("error",)))
        assert [match.number for match in alone.terms[0].matches] == [40, 39, 38, 37, 36]
        assert alone.terms[0].is_cut
        both = await store.find(here(session), SearchQuery(terms=("error", "build")))
        assert {match.number for terms in both.terms for match in terms.matches} >= {4}
        assert 4 in [worth.row for worth in rank(both)]
        turned = await store.find(here(session), SearchQuery(terms=("build", "error")))
        assert set(turned.terms) == set(both.terms)  # no word counts more for coming first

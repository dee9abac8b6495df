"""Words are found in any form, in the scope alone, whatever is asked."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mcp_compaction.core.recall.rank import rank
from mcp_compaction.errors import UnknownSession
from mcp_compaction.model import Hit, NewPin, SearchQuery, Spoken
from mcp_compaction.ports import Scope, SessionKey, Store
from tests.store.contract.places import Place
from tests.store.given_store import (
    KEY,
    NOW,
    add_pin,
    answered,
    batch,
    called,
    here,
    matching,
    new_session,
    said,
)

pytestmark = pytest.mark.anyio


async def fill(store: Store) -> tuple[int, int]:
    """A session in each of two projects that say the same things."""
    ids: list[int] = []
    for project in (KEY.project, "/other"):
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
        text = f"never log in as root, {project}"
        pin = NewPin(text=text, kind="fact", scope="project", author="user")
        await add_pin(store, session, pin, NOW + timedelta(hours=1))
        ids.append(session)
    return ids[0], ids[1]


async def hits(store: Store, scope: Scope, query: SearchQuery) -> tuple[Hit, ...]:
    """What a query finds, ranked."""
    return await store.read(scope, query, rank(await store.find(scope, query)))


async def refs(store: Store, scope: Scope, *terms: str, **how: object) -> list[str]:
    """The refs of what a search finds a word in."""
    query = SearchQuery.model_validate({"terms": terms, **how})
    return [hit.ref for hit in await hits(store, scope, query) if not hit.is_beside]


async def test_words_are_found_in_any_form(place: Place) -> None:
    async with place.opened() as store:
        mine, _ = await fill(store)
        assert set(await refs(store, here(mine), "login")) == {"m1", "m4"}
        assert await refs(store, here(mine), "src/auth/login.py") == ["m1"]
        assert await refs(store, here(mine), "e4711", "nonsense") == ["m3"]
        assert await refs(store, here(mine), "root") == ["p1"]
        assert await refs(store, here(mine), "nonsense") == []
        assert await refs(store, here(mine)) == []
        for operator in ("AND", "OR", "NOT"):
            assert await refs(store, here(mine), operator) == ["m3"]


async def test_a_search_can_be_narrowed(place: Place) -> None:
    words = ("login", "auth", "E4711", "root")
    async with place.opened() as store:
        mine, _ = await fill(store)

        async def narrowed(**how: object) -> set[str]:
            return set(await refs(store, here(mine), *words, **how))

        assert await narrowed() == {"m1", "m2", "m3", "m4", "p1"}
        assert await narrowed(roles=("assistant",)) == {"m2", "m4"}
        assert await narrowed(roles=("pin",)) == {"p1"}
        assert await narrowed(tools=("bash",)) == {"m2", "m3"}
        assert await narrowed(since=NOW + timedelta(minutes=1)) == {"p1"}
        assert await narrowed(until=NOW) == {"m1", "m2", "m3", "m4"}


async def test_many_queries_are_answered_at_once(place: Place) -> None:
    queries = [SearchQuery(terms=(term,)) for term in ("E4711", "", "auth", "nonsense", "root")]
    async with place.opened() as store:
        mine, _ = await fill(store)
        assert await store.search_many(here(mine), queries, 5) == ((3,), (), (2, 1), (), ())
        assert await store.search_many(here(mine), queries[2:3], 1) == ((2,),)


async def test_no_row_of_another_project_is_seen(place: Place) -> None:
    query = SearchQuery(terms=("login", "auth", "E4711", "root"))
    async with place.opened() as store:
        mine, theirs = await fill(store)
        assert len(await hits(store, Scope(project=None), query)) == 10
        assert not any("/other" in hit.text for hit in await hits(store, here(), query))
        assert await hits(store, Scope(project="/nowhere"), query) == ()
        assert await hits(store, Scope(project=None, session=mine), query)
        with pytest.raises(UnknownSession):
            await hits(store, here(theirs), query)
        with pytest.raises(UnknownSession):
            await store.search_many(here(theirs), [query], 5)


async def test_names_are_found_whole_in_parts_and_as_they_are_written_elsewhere(
    place: Place,
) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        await store.append(
            session,
            batch(
                said("see src/net/half_open.py and retryLater()"),
                said("the fix is 3f9a2b77c1d0, and 3F9A2B88 is another"),
                said("我们决定用数据库，他们用E4711缓存"),
            ),
            NOW,
        )

        async def first(term: str, is_start: bool = False) -> list[int]:
            found = await store.find(here(session), SearchQuery(terms=(term,), is_start=is_start))
            return sorted({match.number for terms in found.terms for match in terms.matches})

        for term in ("src/net/half_open.py", "half_open", "halfOpen", "half_open.py"):
            assert await first(term) == [1], term
        for term in ("3f9a2b", "3f9a2b77c1", "3F9A2B8"):
            assert await first(term) == [2], term
        for term in ("数据库", "决定", "库，他", "缓", "存", "E4711", "用E4711缓"):
            assert await first(term) == [3], term
        for term in ("half_closed.py", "3f9a2b9", "库存", "hal"):
            assert await first(term) == [], term
        assert await first("hal", is_start=True) == [1]


@pytest.mark.parametrize(
    "term", ["", " ", "\0", "\ud800", '"', "%", "_", "'; DROP TABLE", "(", "a\0b", "x" * 5_000]
)
async def test_any_text_is_a_safe_query(place: Place, term: str) -> None:
    async with place.opened() as store:
        mine, _ = await fill(store)
        query = SearchQuery(terms=(term, "login"))
        assert await hits(store, here(mine), query)
        await store.search_many(here(mine), [query, query], 5)


async def test_of_a_word_that_stands_everywhere_the_newest_places_are_given(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        for start in range(0, 1_600, 800):
            texts = [f"error number{number}" for number in range(start, start + 800)]
            await store.append(session, batch(*map(said, texts)), NOW)
        found = await store.find(here(session), SearchQuery(terms=("error", "number3")))
        error, number = found.terms
        assert [match.number for match in number.matches] == [4]
        assert [match.number for match in error.matches] == [4]  # only beside the rarer word
        alone = await store.find(here(session), SearchQuery(terms=("error",)))
        assert [match.number for match in alone.terms[0].matches] == list(range(1_600, 100, -1))
        assert alone.terms[0].is_cut


async def test_a_match_says_which_passage_it_is_and_how_many_its_message_has(place: Place) -> None:
    pieces = tuple(Spoken("user", text) for text in ("word0", "between", "word2"))
    long = said("word0 between word2").model_copy(update={"passages": pieces})
    async with place.opened() as store:
        session = await new_session(store)
        await store.append(session, batch(said("word0"), long, said("word2")), NOW)
        found = await store.find(here(session), SearchQuery(terms=("word0", "word2")))
    places = [[(m.number, m.ordinal, m.size) for m in one.matches] for one in found.terms]
    assert places == [[(2, 0, 3), (1, 0, 1)], [(3, 0, 1), (2, 2, 3)]]


async def test_what_a_worktree_recorded_is_its_repositorys(place: Place) -> None:
    async with place.opened() as store:
        tree = f"{KEY.project}/.claude/worktrees/one"
        session = await new_session(store, SessionKey(project=tree, name="beside"))
        await store.append(session, batch(said("the vault is open")), NOW)
        assert [info.id for info in await store.sessions(here(), 10)] == [session]
        assert [hit.session for hit in await matching(store, here(), "vault")] == ["beside"]
        assert await store.sessions(Scope(project=f"{KEY.project}/.claude"), 10) == ()

"""The place up to which a transcript is recorded is kept with the messages before it."""

from __future__ import annotations

import pytest

from mcp_compaction.errors import CompactionError
from mcp_compaction.model import Event, NewMessage, SearchQuery, Traits, Via
from mcp_compaction.ports import Batch, Mark, Placed, Store
from tests.store.contract.places import Place
from tests.store.given_store import KEY, NOW, here, said

pytestmark = pytest.mark.anyio


BOUNDARY = Event(name="BOUNDARY", at=NOW, detail="985020 -> 2749")


def piece(
    *messages: NewMessage, upto: int, events: tuple[Event, ...] = (), via: Via = "host"
) -> Batch:
    """A piece of a transcript."""
    return Batch(
        messages=messages,
        counter="test",
        via=via,
        has_ids=True,
        mark=Mark(address="a", position=upto, tail=f"t{upto}"),
        events=events,
    )


async def session_in(store: Store) -> int:
    info, _ = await store.open_session(KEY, Traits(), NOW)
    return info.id


async def test_a_mark_is_found_with_its_session(place: Place) -> None:
    async with place.opened() as store:
        session = await session_in(store)
        assert await store.find_transcript("a") is None
        await store.append(session, piece(said("one", host_id="u1"), upto=10), NOW)
        await store.append(session, piece(said("two", host_id="u2"), upto=20), NOW)
        known = await store.find_transcript("a")
        assert known is not None
        assert known.mark == Mark(address="a", position=20, tail="t20")
        assert known.session is not None
        assert (known.session.id, known.session.messages) == (session, 2)


async def test_mark_and_events_are_saved_with_a_batch_whose_place_is_known(place: Place) -> None:
    async with place.opened() as store:
        session = await session_in(store)
        given = piece(said("one", host_id="u1"), upto=10, events=(BOUNDARY,))
        placed = Placed(newest=0, follows=(0,), base_version=0)
        await store.append(session, given.model_copy(update={"placed": placed}), NOW)
        known = await store.find_transcript("a")
        assert known is not None
        assert known.mark.position == 10
        assert [event.name for event in await store.events(session)] == ["BOUNDARY"]


async def test_messages_with_ids_are_known_by_these_and_not_by_their_words(place: Place) -> None:
    async with place.opened() as store:
        session = await session_in(store)
        first = [said("continue", host_id="u1"), said("Done.", "assistant", host_id="u2")]
        again = [said("continue", host_id="u3"), said("Done.", "assistant", host_id="u4")]
        await store.append(session, piece(*first, upto=10), NOW)
        assert (await store.append(session, piece(*again, upto=20), NOW)).seqs == (3, 4)
        all_of_it = await store.append(session, piece(*first, *again, upto=20), NOW)
        assert (all_of_it.seqs, all_of_it.new) == ((1, 2, 3, 4), 0)


async def test_an_event_at_the_moment_of_a_message_is_known_by_that_moment(place: Place) -> None:
    moment = NOW.replace(microsecond=518_000)
    async with place.opened() as store:
        session = await session_in(store)
        message = said("walrus", host_id="u1").model_copy(update={"at": moment})
        given = piece(message, upto=10, events=(Event(name="E", at=moment),))
        await store.append(session, given, NOW)
        (event,) = await store.events(session, "E")
        (original,) = await store.originals(here(session), [1])
        (hit,) = await store.list_passages(here(session), SearchQuery(terms=()), 5)
        assert original.message.at == hit.at == event.at == moment


async def test_an_event_of_a_transcript_is_noted_once(place: Place) -> None:
    async with place.opened() as store:
        session = await session_in(store)
        for upto in (10, 20):
            await store.append(session, piece(upto=upto, events=(BOUNDARY,)), NOW)
        assert await store.events(session) == (BOUNDARY,)


async def test_what_a_host_wrote_in_the_users_role_is_never_vouched_for(place: Place) -> None:
    async with place.opened() as store:
        session = await session_in(store)
        typed = said("typed", host_id="u1")
        written = said("written by the host", host_id="u2").model_copy(update={"via": "tool"})
        for _ in range(2):
            await store.append(session, piece(typed, written, upto=10), NOW)
        kept = await store.originals(here(session))
        assert [original.message.via for original in kept] == ["host", "tool"]


async def test_a_forgotten_session_leaves_the_place_so_that_nothing_comes_back(
    place: Place,
) -> None:
    async with place.opened() as store:
        session = await session_in(store)
        await store.append(session, piece(said("one", host_id="u1"), upto=10), NOW)
        await store.forget(here(session), (), NOW)
        known = await store.find_transcript("a")
        assert known is not None
        assert (known.mark.position, known.session) == (10, None)


async def test_neither_messages_nor_mark_are_kept_of_a_piece_that_fails(place: Place) -> None:
    async with place.opened() as store:
        session = await session_in(store)
        with pytest.raises(CompactionError):
            await store.append(session + 1, piece(said("one", host_id="u1"), upto=10), NOW)
        assert await store.find_transcript("a") is None
        assert await store.history(session) == ()

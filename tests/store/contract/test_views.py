"""A compaction is saved whole, on the view it was made from, and can be looked back at."""

from __future__ import annotations

import asyncio

import pytest

from mcp_compaction.errors import UnknownRef
from mcp_compaction.model import (
    Cut,
    Event,
    NewPin,
    Reworded,
    Text,
    Trimmed,
    View,
)
from tests.store.contract.places import Place
from tests.store.given_store import (
    KEY,
    NOW,
    add_pin,
    batch,
    compaction,
    here,
    history,
    matching,
    new_session,
    said,
)

pytestmark = pytest.mark.anyio


SIX = history("one", "two", "three", "four", "five", "six")


async def test_a_saved_view_decides_what_is_loaded(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        await store.append(session, batch(*SIX), NOW)
        assert await store.save(session, compaction())
        await store.append(session, batch(said("seven")), NOW)
        loaded = await store.load(session, NOW)
        assert [message.seq for message in loaded.messages] == [1, 5, 6, 7]
        assert [digest.number for digest in loaded.digests] == [1]
        assert loaded.view == compaction().view
        assert (loaded.next_digest, loaded.next_compaction) == (2, 2)
        assert loaded.last_compaction == compaction().receipt
        before = await store.load(session, NOW, View())
        assert [message.seq for message in before.messages] == [1, 2, 3, 4, 5, 6, 7]


async def test_a_change_is_read_with_the_view_before_it_where_that_is_wanted(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        await store.append(session, batch(*SIX), NOW)
        assert await store.save(session, compaction())
        now, had = await store.load_change(session, NOW, lambda one: one.view.version == 1)
        assert now == await store.load(session, NOW)
        assert had == await store.load(session, NOW, View())
        assert await store.load_change(session, NOW, lambda one: one.view.version == 0) == (
            now,
            None,
        )


async def test_the_past_of_a_session_is_its_own_and_read_with_it(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        other = await new_session(store, KEY.model_copy(update={"name": "other"}))
        seen = Event(name="seen", at=NOW, detail="once")
        await store.add_event(session, seen)
        await store.add_event(other, seen.model_copy(update={"detail": "elsewhere"}))
        await store.append(session, batch(*SIX, said("seven", "assistant")), NOW)
        assert await store.save(session, compaction())
        rule = NewPin(text="Use tabs.", kind="constraint", scope="session", author="user")
        over, kept = [await add_pin(store, session, rule, NOW) for _ in range(2)]
        await add_pin(store, other, rule, NOW)
        await store.release_pin(here(session), over.number, NOW)
        loaded, past = await store.load_with_past(session, NOW)
        assert loaded == await store.load(session, NOW)
        assert past.events == (seen,)
        assert (past.pins, past.pins_ever) == ((kept,), (over, kept))
        assert past.receipts == (compaction().receipt,)
        roles = [one.message.role for one in await store.originals(here(session))]
        assert past.answers == roles.count("assistant") > 0


async def test_a_store_knows_which_messages_have_left_the_window(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        await store.append(session, batch(*SIX), NOW)
        assert await store.not_shown(session, [1, 2, 3]) == ()
        assert await store.save(session, compaction())
        await store.append(session, batch(said("seven")), NOW)
        assert await store.not_shown(session, [7, 6, 5, 4, 3, 3, 1]) == (3, 4)


async def test_a_store_knows_which_messages_the_window_shows_whole(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        await store.append(session, batch(*SIX), NOW)
        assert await store.shown_whole(session, [1, 2, 3]) == ()
        assert await store.save(session, compaction())
        await store.append(session, batch(said("seven")), NOW)
        assert await store.shown_whole(session, [1, 2, 3, 4, 5, 6, 7]) == (1, 6, 7)


def preview(seq: int, size: int = 30) -> Trimmed:
    cut = Cut(part=0, shown=Text(text="x" * size), why="preview")
    return Trimmed(seq=seq, cuts=(cut,), tokens=4)


async def test_every_view_that_a_receipt_goes_back_to_is_kept(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        await store.append(session, batch(*SIX), NOW)
        bases: dict[int, View] = {}
        for version in range(100):
            if version % 20 == 7:
                number = len(bases) + 1
                bases[version] = await store.view(session, version)
                assert await store.save(session, compaction(base=version, number=number))
            else:
                assert await store.save_view(session, View(since=(preview(5, version),)), version)
        assert [base for _, base in await store.receipts(session)] == list(bases)
        assert {base: await store.view(session, base) for base in bases} == bases
        with pytest.raises(UnknownRef, match="no view 50 of this session"):
            await store.view(session, 50)


async def test_the_words_of_an_edit_are_forgotten_however_many_views_came_since(
    place: Place,
) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        await store.append(session, batch(*SIX), NOW)
        edited = View(reworded=(Reworded(seq=2, words=4),))
        assert await store.save_view(session, edited, 0)
        for version in range(1, 40):
            assert await store.save_view(session, View(since=(preview(5, version),)), version)
        assert (await store.forget(here(session), (2,), NOW)).messages == 2


async def test_a_compaction_of_an_older_view_is_not_saved(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        await store.append(session, batch(*SIX), NOW)
        assert await store.save(session, compaction())
        assert not await store.save(session, compaction(number=2))
        assert await store.save(session, compaction(base=1, number=2))
        assert [number for _, number in await store.receipts(session)] == [0, 1]
        assert [digest.number for digest in await store.digests(session)] == [1, 2]


async def test_a_compaction_is_saved_with_its_event_or_without_both(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        await store.append(session, batch(*SIX), NOW)
        done = Event(name="COMPLETED", at=NOW, detail="c1")
        assert await store.save(session, compaction(), done)
        assert not await store.save(session, compaction(number=2), done)
        assert await store.save(session, compaction(base=1, number=2))
        assert await store.events(session) == (done,)


async def test_an_older_view_can_be_looked_at(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        await store.append(session, batch(*SIX), NOW)
        await store.save(session, compaction())
        assert await store.view(session, 0) == View()
        assert (await store.view(session, 1)).body == compaction().view.body
        with pytest.raises(UnknownRef, match="receipts"):
            await store.view(session, 2)


async def test_a_digest_is_found_by_its_words(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        await store.append(session, batch(*SIX), NOW)
        await store.save(session, compaction())
        (hit,) = await matching(store, here(), "8443")
        assert (hit.ref, hit.role, hit.at) == ("d1", "digest", NOW)


async def test_of_two_compactions_at_once_one_wins(place: Place) -> None:
    async with place.opened() as one, place.opened() as other:
        session = await new_session(one)
        await one.append(session, batch(*SIX), NOW)
        for base in range(50):
            made = compaction(base=base, number=base + 1)
            won = await asyncio.gather(
                one.save(session, made),
                other.save(session, made),
                other.append(session, batch(said(f"meanwhile {base}")), NOW),
            )
            assert won[:2].count(True) == 1
        assert len(await one.receipts(session)) == 50

"""Pins are kept byte for byte, seen where they apply, and released rather than lost."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mcp_compaction.errors import PinRefused, UnknownRef, UnknownSession
from mcp_compaction.model import NewPin, PinScope
from mcp_compaction.ports import Scope, SessionKey
from mcp_compaction.store.views import stored_author
from tests.store.contract.places import Place
from tests.store.given_store import NOW, add_pin, here, matching, new_session

pytestmark = pytest.mark.anyio


TEXTS = ["never push to main", " spaces \n kept ", "nul \0", "‮עברית", "👩‍👩‍👧"]


def pin(text: str, scope: PinScope = "session", **more: object) -> NewPin:
    """A constraint of the user's."""
    given = {"text": text, "kind": "constraint", "scope": scope, "author": "user", **more}
    return NewPin.model_validate(given)


@pytest.mark.parametrize("text", TEXTS)
async def test_a_pin_comes_back_byte_for_byte(place: Place, text: str) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        kept = await add_pin(store, session, pin(text, source="m1"), NOW)
        assert await store.pins(here(session), NOW) == (kept,)
        assert kept.text == text
        assert (kept.session, kept.source, kept.at) == ("checkout", "m1", NOW)


async def test_a_programs_pin_comes_back_as_that_and_is_written_as_older_versions_can_read(
    place: Place,
) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        of_program = pin("never push", author="program", channel="message", source="m1")
        kept = await add_pin(store, session, of_program, NOW)
        await add_pin(store, session, pin("ask first", author="agent", channel="tool"), NOW)
        assert kept.author == "program"
        assert [one.author for one in await store.pins(here(session), NOW)] == ["program", "agent"]
        assert stored_author(of_program) == "agent"


async def test_the_checks_of_a_pin_are_kept_beside_it_until_they_are_taken_away(
    place: Place,
) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        await add_pin(store, session, pin("never force a push"), NOW)
        for checks in ("deny Bash: git push --force\nask Bash: git push", ""):
            await store.set_checks(here(session), 1, checks)
            assert [found.checks for found in await store.pins(here(session), NOW)] == [checks]
        with pytest.raises(UnknownRef):
            await store.set_checks(here(session), 2, "deny Bash: rm")


async def test_half_a_character_is_refused(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        with pytest.raises(PinRefused, match="send it again"):
            await add_pin(store, session, pin("broken \ud83d"), NOW)
        assert await store.pins(here(session), NOW) == ()


async def test_a_pin_is_seen_where_its_scope_says(place: Place) -> None:
    async with place.opened() as store:
        one = await new_session(store)
        two = await new_session(store, SessionKey(project=here().project or "", name="two"))
        far = await new_session(store, SessionKey(project="/other", name="far"))
        for scope in ("session", "project", "global"):
            await add_pin(store, one, pin(f"of {scope}", scope), NOW)

        async def seen(scope: Scope) -> list[str]:
            return [found.text for found in await store.pins(scope, NOW)]

        everything = ["of session", "of project", "of global"]
        assert await seen(here(one)) == everything
        assert await seen(here(two)) == ["of project", "of global"]
        assert await seen(Scope(project="/other", session=far)) == ["of global"]
        assert await seen(Scope(project=None, session=two)) == ["of project", "of global"]
        assert await seen(here()) == everything
        assert await seen(Scope(project=None)) == everything
        assert [found.text for found in (await store.load(two, NOW)).pins] == everything[1:]
        with pytest.raises(UnknownSession):
            await store.pins(here(far), NOW)


async def test_a_pin_ends_by_release_supersession_or_time(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        first = await add_pin(store, session, pin("zebra one"), NOW)
        second = await add_pin(store, session, pin("zebra two", supersedes=first.number), NOW)
        brief = await add_pin(
            store, session, pin("zebra brief", expires=NOW + timedelta(hours=1)), NOW
        )
        assert await store.pins(here(session), NOW) == (second, brief)
        assert await store.pins(here(session), NOW + timedelta(hours=2)) == (second,)
        await store.release_pin(here(session), second.number, NOW)
        with pytest.raises(UnknownRef, match="p2"):
            await store.release_pin(here(session), second.number, NOW)
        with pytest.raises(UnknownRef):
            await add_pin(store, session, pin("zebra", supersedes=99), NOW)
        with pytest.raises(UnknownRef):
            await store.release_pin(Scope(project="/other"), brief.number, NOW)
        assert len(await store.pins(here(session), NOW, released=True)) == 3
        hits = await matching(store, here(session), "zebra")
        assert {hit.ref for hit in hits} == {"p1", "p2", "p3"}


async def test_notes_are_kept_but_not_in_force(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        await add_pin(store, session, pin("a note", kind="note"), NOW)
        assert (await store.load(session, NOW)).pins == ()
        assert len(await store.pins(here(session), NOW)) == 1

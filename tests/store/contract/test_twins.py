"""Other messages that hold all that one says are found exactly, within a scope."""

from __future__ import annotations

import pytest

from mcp_compaction.errors import UnknownRef, UnknownSession
from mcp_compaction.model import NewMessage
from mcp_compaction.ports import Scope, SessionKey
from tests.store.contract.places import Place
from tests.store.given_store import (
    NOW,
    PROJECT,
    answered,
    batch,
    called,
    here,
    new_session,
    said,
)

pytestmark = pytest.mark.anyio


SECRET = "The vault is behind the painting."


EVERYWHERE = Scope(project=None)


async def twins_of(
    place: Place, *messages: NewMessage, seq: int = 1, elsewhere: NewMessage | None = None
) -> list[tuple[str, str, str]]:
    """The twins of a message of a session, with one other session in another project."""
    async with place.opened() as store:
        session = await new_session(store)
        await store.append(session, batch(*messages), NOW)
        if elsewhere is not None:
            other = await new_session(store, SessionKey(project="/other", name="o"))
            await store.append(other, batch(elsewhere), NOW)
        found = await store.twins(here(session), seq, EVERYWHERE)
        assert found.more == 0
        return [(twin.project, twin.session, twin.ref) for twin in found.found]


@pytest.mark.parametrize(
    "other",
    [
        said(f"Note: {SECRET} Do not tell.", "assistant"),
        said("The vault is\n\n  behind\tthe painting.", "assistant"),
        answered("a", f"1  {SECRET}"),
        called("a", "Write", {"path": "x", "lines": [{"text": f"so: {SECRET}"}]}),
    ],
)
async def test_a_message_that_holds_the_text_whole_is_found(
    other: NewMessage, place: Place
) -> None:
    found = await twins_of(place, said(SECRET), said("no"), other, elsewhere=said(SECRET))
    assert [(project, ref) for project, _, ref in found] == [(PROJECT, "m3"), ("/other", "m1")]


@pytest.mark.parametrize(
    "other", ["The vault is behind the mirror.", "the vault is behind the painting.", "The vault"]
)
async def test_what_holds_only_a_part_is_none(other: str, place: Place) -> None:
    assert await twins_of(place, said(SECRET), said(other, "assistant")) == []


@pytest.mark.parametrize("text", ["yes", "ok, go", "  go   on "])
async def test_short_texts_are_not_chased(text: str, place: Place) -> None:
    assert await twins_of(place, said(text), said(text, "assistant"), said(text)) == []


async def test_a_scope_hides_what_is_not_in_it(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        other = await new_session(store, SessionKey(project="/other", name="o"))
        await store.append(session, batch(said(SECRET)), NOW)
        await store.append(other, batch(said(SECRET)), NOW)
        assert (await store.twins(here(session), 1, here())).found == ()
        with pytest.raises(UnknownSession):
            await store.twins(here(other), 1, EVERYWHERE)
        with pytest.raises(UnknownRef):
            await store.twins(here(session), 9, EVERYWHERE)


async def test_a_forgotten_message_has_no_twins_and_is_none(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        messages = [said(SECRET), said(SECRET, "assistant"), said("Something else entirely.")]
        await store.append(session, batch(*messages), NOW)
        for seq in (1, 3):
            await store.forget(here(session), (seq,), NOW)
        for seq in (1, 2, 3):
            assert (await store.twins(here(session), seq, EVERYWHERE)).found == ()


async def test_more_twins_than_can_be_listed_are_counted(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        copies = [said(f"{number}: {SECRET}") for number in range(230)]
        await store.append(session, batch(said(SECRET), *copies), NOW)
        found = await store.twins(here(session), 1, EVERYWHERE)
        assert (len(found.found), found.more) == (200, 30)

"""The store counts a window by what came since, and finds a pin's words without reading it all."""

from __future__ import annotations

import pytest

from mcp_compaction.core.log.passages import passages_of
from mcp_compaction.model import Event, NewMessage, NewPin
from tests.store.contract.places import Place
from tests.store.given_store import (
    KEY,
    NOW,
    add_pin,
    batch,
    compaction,
    here,
    history,
    new_session,
    said,
)

pytestmark = pytest.mark.anyio


RULE = "Never deploy on a Friday afternoon without asking the on-call engineer first."


async def test_a_count_of_an_older_view_is_not_gone_on_from(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        await store.append(session, batch(*history("one", "two", "three", "four", "5", "6")), NOW)
        old = await store.count_window(session, NOW)
        assert (old.messages, old.upto) == (6, 6)
        assert await store.save(session, compaction())
        await store.append(session, batch(said("seven")), NOW)
        fresh = await store.count_window(session, NOW)
        assert await store.count_window(session, NOW, old) == fresh
        loaded = await store.load(session, NOW)
        assert (fresh.messages, fresh.upto) == (len(loaded.messages), 7)
        assert fresh.tokens == len("one") + 4 + len("6") + len("seven")  # m5 is cut to 4 tokens
        assert fresh.session.digests == loaded.digests


def long_request(text: str) -> NewMessage:
    """A request cut into passages as recording cuts it."""
    plain = said(text)
    return plain.model_copy(update={"passages": passages_of("user", plain.parts)})


@pytest.mark.parametrize("before", range(400, 600, 20))
async def test_a_rule_is_found_wherever_a_passage_is_cut(before: int, place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        rule = f"{RULE} Rather wait until Monday, however urgent it seems."
        lead = ("a plain word and " * 60)[:before].rstrip()
        text = f"{lead}. {rule} {'and more of it ' * 60}"
        await store.append(session, batch(long_request(text)), NOW)
        found = (await store.pin_facts(here(session), [rule], 20, ())).said
        assert [message.seq for message in found] == [1]


async def test_a_short_sentence_is_found_among_many_that_share_its_words(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        others = [said(f"use what you like, then tabs or spaces {n}") for n in range(300)]
        await store.append(session, batch(*others[:150], said("Use tabs."), *others[150:]), NOW)
        found = (await store.pin_facts(here(session), ["Use tabs."], 20, ())).said
        assert [message.seq for message in found] == [151]


async def test_what_the_host_says_comes_before_what_an_agent_told(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        told = [said(f"{RULE} {n}") for n in range(30)]
        await store.append(session, batch(*told).model_copy(update={"via": "tool"}), NOW)
        await store.append(session, batch(said(f"Please: {RULE}")), NOW)
        found = (await store.pin_facts(here(session), [RULE], 20, ())).said
        assert found[0].seq == 31
        assert len(found) == 20


async def test_only_the_user_messages_of_one_session_are_given(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        await store.append(session, batch(said(RULE, "assistant"), said(RULE)), NOW)
        found = (await store.pin_facts(here(session), [RULE], 20, ())).said
        assert [message.seq for message in found] == [2]


@pytest.mark.parametrize("text", ['say "yes" AND no', "-- * ^ (", "marks : role", "…", "NEAR(a b)"])
async def test_no_sign_of_a_text_is_an_operator(text: str, place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        await store.append(session, batch(said(text), said("something else")), NOW)
        found = (await store.pin_facts(here(session), [text], 20, ())).said
        has_words = any(sign.isalnum() for sign in text)
        assert [message.seq for message in found] == ([1] if has_words else [])


async def test_a_window_tells_of_pins_that_no_other_session_was_told_of(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        other = await new_session(store, KEY.model_copy(update={"name": "other"}))
        pin = NewPin(text=RULE, kind="constraint", scope="project", author="user")
        kept = await add_pin(store, session, pin, NOW)
        assert (await store.count_window(session, NOW)).news == ()  # its own session knows
        assert (await store.count_window(other, NOW)).news == (kept,)
        await store.mark_announced(KEY.project, [kept.number])
        assert (await store.count_window(other, NOW)).news == ()


async def test_the_facts_of_a_pin_are_those_of_its_session_and_of_the_events_asked_for(
    place: Place,
) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        other = await new_session(store, KEY.model_copy(update={"name": "other"}))
        for name in ("masked", "seen"):
            await store.add_event(session, Event(name=name, at=NOW))
        await store.add_event(other, Event(name="masked", at=NOW, detail="elsewhere"))
        await store.append(session, batch(said(RULE), said(f"Again: {RULE}")), NOW)
        facts = await store.pin_facts(here(session), [RULE, RULE[:20]], 20, ["masked"])
        assert facts.info.id == session
        assert [message.seq for message in facts.said] == [1, 2]  # each once
        assert facts.events == (Event(name="masked", at=NOW),)

"""What is forgotten leaves no byte in any file, and the rest stays sound."""

from __future__ import annotations

import json

import pytest

from mcp_compaction import formats
from mcp_compaction.errors import InputError, UnknownRef, UnknownSession
from mcp_compaction.model import (
    Compaction,
    Event,
    Excerpt,
    Kept,
    NewMessage,
    NewPin,
    Sections,
    Shape,
    Spoken,
)
from mcp_compaction.ports import Scope, SessionKey, Store
from tests.store.contract.places import Place
from tests.store.given_store import (
    CANARY,
    NOW,
    PROJECT,
    add_pin,
    answered,
    batch,
    called,
    compaction,
    here,
    history,
    matching,
    new_session,
    said,
)

pytestmark = pytest.mark.anyio

ARGUMENTS = json.dumps({"a": CANARY})


def telling_compaction(base: int = 0) -> Compaction:
    """A compaction that says the canary of m3 in all its parts."""
    made = compaction(base, base + 1)
    digest = made.digests[0].model_dump(mode="json")
    text = json.dumps(digest).replace("the port is 8443", f"the key is {CANARY}")
    text = text.replace("all went well", f"{CANARY} again").replace("src/cart.py", CANARY)
    receipt = json.dumps(made.receipt.model_dump(mode="json")).replace("use port 8443", CANARY)
    view = json.dumps(made.view.model_dump(mode="json")).replace("cut of the fifth", CANARY)
    return made.model_validate(
        {
            "base_version": base,
            "view": json.loads(view.replace('"seq": 5', '"seq": 3')),
            "digests": [json.loads(text)],
            "receipt": json.loads(receipt),
        }
    )


async def fill(store: Store, session: int, number: int = 0) -> None:
    """A session that says the canary in m3 and in everything derived from it."""
    texts = ["one", "two", f"{CANARY} {number} " + "long " * number, "four", "five", "six"]
    await store.append(session, batch(*history(*texts)), NOW)
    assert await store.save(session, telling_compaction())
    await store.add_event(session, Event(name="seen", at=NOW, detail=f"m3: {CANARY}"))


async def test_a_forgotten_message_leaves_no_byte(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        await fill(store, session)
        pin = NewPin(text="p", kind="fact", scope="session", author="user", source="m3")
        kept = await add_pin(store, session, pin, NOW)
        found = await store.forget(here(session), (3,), NOW)
        assert (found.messages, found.digest_lines, found.kept_pins) == (1, 3, (kept.ref,))
        assert await matching(store, here(), CANARY) == ()
        (digest,) = await store.digests(session)
        assert [item.text for _, items in digest.sections for item in items] == ["ship it"]
        assert digest.index == ()
        assert (await store.view(session, 1)).body[1] == Kept(seq=3)
        loaded = await store.load(session, NOW)
        assert [message.text for message in loaded.messages if message.seq == 3] == ["[forgotten]"]
        assert (await store.receipts(session))[0][0].notes == ("[forgotten]", "nothing else")
        # The chain goes on, so the same history is still known.
        again = await store.append(session, batch(said("seven"), after=6), NOW)
        assert again.seqs == (7,)
    assert await place.find_traces(CANARY) == []


@pytest.mark.parametrize("base", [0, 1])
async def test_a_compaction_made_before_a_forget_is_not_saved(place: Place, base: int) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        await store.append(session, batch(*history("1", "2", CANARY, "4", "5", "6")), NOW)
        for version in range(base):
            assert await store.save(session, telling_compaction(version))
        seen = (await store.load(session, NOW)).view
        made = telling_compaction(seen.version)
        await store.forget(here(session), (3,), NOW)
        assert not await store.save(session, made, Event(name="done", at=NOW, detail=CANARY))
        after = (await store.load(session, NOW)).view
        assert after.version == seen.version + 1
        same = (await store.view(session, seen.version)).model_copy(
            update={"version": after.version}
        )
        assert after == same
        assert await store.save(session, compaction(base=after.version, number=9))
    assert await place.find_traces(CANARY) == []


async def test_a_compaction_of_a_forgotten_session_is_not_saved(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        await fill(store, session)
        await store.forget(here(session), (), NOW)
        with pytest.raises(UnknownSession):
            await store.save(session, telling_compaction(base=1))
    assert await place.find_traces(CANARY) == []


async def test_passages_promoted_from_a_forgotten_message_leave_all_views(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        await store.append(session, batch(*history("1", "2", CANARY, "4", "5", "6")), NOW)
        stays = Excerpt(seq=2, pieces=("2",))
        goes = Excerpt(seq=3, pieces=(CANARY, f"{CANARY} too"))
        for base, promoted in enumerate([(stays, goes), (goes,), (stays,)]):
            made = compaction(base=base, number=base + 1)
            view = made.view.model_copy(update={"promoted": promoted})
            assert await store.save(session, made.model_copy(update={"view": view}))
        await store.forget(here(session), (3,), NOW)
        found = [(await store.view(session, version)).promoted for version in (1, 2, 3, 4)]
        assert found == [(stays,), (), (stays,), (stays,)]
    assert await place.find_traces(CANARY) == []


async def test_a_forgotten_session_leaves_no_byte(place: Place) -> None:
    async with place.opened() as store:
        stays = await new_session(store, SessionKey(project=PROJECT, name="stays"))
        goes = await new_session(store, SessionKey(project=PROJECT, name=f"of {CANARY}"))
        await new_session(store, SessionKey(project=PROJECT, name="child", parent=goes))
        await store.append(stays, batch(*history("hello", "world")), NOW)
        await fill(store, goes)
        given = batch(said("x")).model_copy(update={"sections": Sections(system=CANARY)})
        await store.append(goes, given, NOW)
        own = NewPin(text=f"own {CANARY}", kind="fact", scope="session", author="agent")
        await add_pin(store, goes, own, NOW)
        shared = NewPin(text="shared", kind="fact", scope="project", author="user", supersedes=1)
        await add_pin(store, goes, shared, NOW)
        found = await store.forget(here(goes), (), NOW)
        assert (found.sessions, found.messages, found.pins) == (1, 7, 1)
        assert found.kept_pins == ("p2",)
        with pytest.raises(UnknownSession):
            await store.load(goes, NOW)
        assert [pin.text for pin in await store.pins(here(stays), NOW)] == ["shared"]
        (hit,) = await matching(store, here(), "shared")
        assert (hit.ref, hit.session) == ("p2", "")
    assert await place.find_traces(CANARY) == []


async def test_a_forgotten_project_leaves_no_byte(place: Place) -> None:
    async with place.opened() as store:
        project = f"/home/{CANARY}"
        stays = await new_session(store)
        session = 0
        for number in range(3):
            session = await new_session(store, SessionKey(project=project, name=f"s{number}"))
            await fill(store, session, number)
        for scope in ("session", "project"):
            pin = {"text": CANARY, "kind": "fact", "scope": scope, "author": "user"}
            await add_pin(store, session, NewPin.model_validate(pin), NOW)
        rule = NewPin(text="for all", kind="fact", scope="global", author="user")
        await add_pin(store, session, rule, NOW)
        found = await store.forget(Scope(project=project), (), NOW)
        assert (found.sessions, found.messages, found.pins) == (3, 18, 2)
        assert found.kept_pins == ("p3",)
        assert [pin.text for pin in await store.pins(here(stays), NOW)] == ["for all"]
    assert await place.find_traces(CANARY) == []


@pytest.mark.parametrize(
    ("shape", "value"),
    [
        ("openai", {"role": "assistant", "content": CANARY, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": ARGUMENTS}}
        ]}),
        ("openai", {"role": "tool", "tool_call_id": "c1", "content": CANARY}),
        ("openai", {"role": "system", "content": CANARY}),
        ("responses", {"type": "function_call", "call_id": "c1", "name": "f",
                       "arguments": ARGUMENTS}),
        ("responses", {"type": "custom_tool_call", "call_id": "c1", "name": "f", "input": CANARY}),
        ("responses", {"type": "function_call_output", "call_id": "c1", "output": CANARY}),
        ("responses", {"type": "message", "role": "user", "content": CANARY}),
    ],
)  # fmt: skip
async def test_what_stands_for_a_message_keeps_its_pairing(
    place: Place, shape: Shape, value: dict[str, object]
) -> None:
    raw = json.dumps(value)
    role, parts = formats.read(shape, raw)
    message = NewMessage(
        role=role, parts=parts, shape=shape, raw=raw, normal=raw, passages=(Spoken(role, raw),)
    )
    async with place.opened() as store:
        session = await new_session(store)
        await store.append(session, batch(message), NOW)
        await store.forget(here(session), (1,), NOW)
        (left,) = (await store.load(session, NOW)).messages
        assert left.role == role
        pairs = [(call.id, call.name) for call in left.calls], [r.call for r in left.results]
        before = message.parts
        assert pairs == (
            [(part.id, part.name) for part in before if part.kind == "call"],
            [part.call for part in before if part.kind == "result"],
        )
    assert await place.find_traces(CANARY) == []


async def test_anthropic_pairs_stay_pairs(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        await store.append(
            session,
            batch(said("go"), called("c1", "Bash", {"cmd": CANARY}), answered("c1", CANARY)),
            NOW,
        )
        await store.forget(here(session), (2,), NOW)
        await store.forget(here(session), (3,), NOW)
        await store.forget(here(session), (3,), NOW)
        loaded = await store.load(session, NOW)
        assert loaded.messages[1].calls[0].id == loaded.messages[2].results[0].call == "c1"
    assert await place.find_traces(CANARY) == []


async def test_forgetting_needs_a_target_in_scope(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        with pytest.raises(InputError, match="name a project or session"):
            await store.forget(Scope(project=None), (), NOW)
        with pytest.raises(UnknownRef, match="m9"):
            await store.forget(here(session), (9,), NOW)
        with pytest.raises(UnknownSession):
            await store.forget(Scope(project="/other", session=session), (), NOW)

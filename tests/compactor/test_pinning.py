"""Pinning on a real store: whose a pin is, where it holds, when it ends, what is offered."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction import compactor
from mcp_compaction.compactor.results import Pinned, PinWish
from mcp_compaction.core.compaction.receipt import receipt_text
from mcp_compaction.core.log.pinned import CONTINUATION, pinned_block, shown_text
from mcp_compaction.core.policy import Policy
from mcp_compaction.errors import InputError, NeedsUser, PinRefused
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import Ask, Compaction, PinScope
from mcp_compaction.ports import Scope, SessionKey
from tests.compactor.small_session import assistant, open_session, user
from tests.sessions import NOW
from tests.strategies import coding_session

pytestmark = pytest.mark.anyio


async def test_a_rule_the_user_said_is_the_users_and_holds_in_the_project(tmp_path: Path) -> None:
    rule = "Never push to main."
    async with open_session(tmp_path) as (work, info):
        await compactor.record(work, info, read_incoming([user(f"Fix the login. {rule} Thanks!")]))
        pinned = await compactor.pin(work, info, PinWish(rule, by="agent"))
        assert (pinned.pin.author, pinned.pin.scope, pinned.pin.source) == ("user", "project", "m1")
        other, _ = await compactor.open_session(work, SessionKey(project="/p", name="other"))
        assert [pin.text for pin in await work.pins(other)] == [rule]
        stranger, _ = await compactor.open_session(work, SessionKey(project="/q", name="other"))
        assert await work.pins(stranger) == ()


async def test_an_agent_can_neither_drop_nor_supersede_a_users_pin(tmp_path: Path) -> None:
    async with open_session(tmp_path) as (work, info):
        pinned = await compactor.pin(work, info, PinWish("Never push to main.", by="user"))
        with pytest.raises(NeedsUser, match="unpin"):
            await compactor.unpin(work, info, pinned.pin.ref, by="agent")
        with pytest.raises(NeedsUser):
            await compactor.pin(
                work, info, PinWish("Push to main.", by="agent", supersedes=pinned.pin.ref)
            )
        assert [pin.text for pin in await work.pins(info)] == ["Never push to main."]
        await compactor.unpin(work, info, pinned.pin.ref, by="user")
        assert await work.pins(info) == ()


@pytest.mark.parametrize("in_place", ["project", "session"])
async def test_an_agent_cannot_drop_a_users_pin_by_pinning_it_anew(
    tmp_path: Path, in_place: PinScope
) -> None:
    rule, soon = "Never push to main without a review.", NOW + timedelta(seconds=900)
    tries: list[dict[str, Any]] = [
        {"scope": "global", "expires": soon},
        {"scope": "global"},
        {"scope": "project", "expires": soon},
        {"expires": soon},
    ]
    async with open_session(tmp_path) as (work, info):
        await compactor.record(work, info, read_incoming([user(rule), assistant("ok")]))
        users = (await compactor.pin(work, info, PinWish(rule, by="user", scope=in_place))).pin
        for changed in tries:
            with pytest.raises(NeedsUser):
                await compactor.pin(work, info, PinWish(rule, by="agent", **changed))
            assert await work.pins(info) == (users,)
        same: list[dict[str, Any]] = [{}, {"scope": in_place}, {"scope": "session"}]
        for harmless in same:
            again = await compactor.pin(work, info, PinWish(rule, by="agent", **harmless))
            assert (again.pin, again.is_new) == (users, False)


async def test_a_pin_is_superseded_expires_and_is_not_doubled(tmp_path: Path) -> None:
    async with open_session(tmp_path) as (work, info):
        first = await compactor.pin(work, info, PinWish("use port 8080", by="agent", kind="fact"))
        again = await compactor.pin(work, info, PinWish("use port 8080", by="agent", kind="fact"))
        assert (again.pin, again.is_new) == (first.pin, False)
        await compactor.pin(
            work, info, PinWish("use port 9090", by="agent", kind="fact", supersedes=first.pin.ref)
        )
        soon = NOW + timedelta(minutes=5)
        await compactor.pin(work, info, PinWish("freeze until noon", by="agent", expires=soon))
        assert [pin.text for pin in await work.pins(info)] == [
            "use port 9090",
            "freeze until noon",
        ]
        with pytest.raises(InputError, match="past"):
            await compactor.pin(
                work, info, PinWish("too late", by="agent", expires=NOW - timedelta(days=1))
            )


async def test_pins_stand_in_the_view_byte_for_byte_after_ten_compactions(tmp_path: Path) -> None:
    rule = 'Never touch "prod".\n\tNot even once — 绝不。'
    async with open_session(tmp_path) as (work, info):
        await compactor.pin(work, info, PinWish(rule, by="user"))
        for number in range(10):
            steps = coding_session(12, 300, seed=number)
            await compactor.record(work, info, read_incoming(list(steps)))
            outcome = await compactor.compress(work, info, Ask(reason="round", force=True))
            assert isinstance(outcome, Compaction)
            context = await compactor.context(work, info)
            texts = json.dumps(context["messages"], ensure_ascii=False)
            assert json.dumps(shown_text(rule), ensure_ascii=False)[1:-1] in texts
            assert shown_text(rule).replace(CONTINUATION, "") == rule


async def test_what_an_agent_records_is_offered_as_the_agent_told_it(tmp_path: Path) -> None:
    async with open_session(tmp_path) as (work, info):
        came = read_incoming([user("Always push to main."), *coding_session(40, 300)])
        await compactor.record(work, info, came, via="tool")
        offered = (await compactor.read_stats(work, info)).offer.candidates
        assert ("m1", True) in [(one.ref, one.is_told) for one in offered]
        outcome = await compactor.compress(work, info, Ask(reason="x", target_percent=20))
        assert isinstance(outcome, Compaction)
        assert {one.is_told for one in outcome.receipt.offer.candidates} == {True}
        told = 'm1 user, as the agent told it: "Always push to main."'
        assert told in receipt_text(outcome.receipt)


async def test_an_agent_sets_no_end_to_what_the_user_said(tmp_path: Path) -> None:
    rule, soon = "Never push to main.", NOW + timedelta(seconds=900)
    async with open_session(tmp_path) as (work, info):
        early = (await compactor.pin(work, info, PinWish(rule, by="agent"))).pin
        assert early.author == "agent"  # the message came after the call
        await compactor.record(work, info, read_incoming([user(rule), assistant("ok")]))
        with pytest.raises(NeedsUser, match="m1 says this, and only the user sets an end to it"):
            await compactor.pin(work, info, PinWish(rule, by="agent", expires=soon))
        with pytest.raises(NeedsUser):
            await compactor.pin(
                work, info, PinWish("Push to main.", by="agent", supersedes=early.ref)
            )
        with pytest.raises(NeedsUser):
            await compactor.unpin(work, info, early.ref, by="agent")
        assert await work.pins(info) == (early,)
        users = await compactor.pin(work, info, PinWish(rule, by="agent"))
        assert (users.pin.author, users.pin.expires) == ("user", None)
        assert await work.pins(info) == (users.pin,)


async def test_torn_words_are_the_agents_and_say_what_governs_them(tmp_path: Path) -> None:
    said = "Fix the login bug.\n\nThings I do not want\n- Force push to main\n- Skip the tests"
    async with open_session(tmp_path) as (work, info):
        await compactor.record(work, info, read_incoming([user(said), assistant("ok")]))
        with pytest.raises(NeedsUser, match='exact words: "Things I do not want - Skip the tests"'):
            await compactor.pin(work, info, PinWish("Skip the tests", by="agent", scope="project"))
        torn = await compactor.pin(work, info, PinWish("Skip the tests", by="agent"))
        assert (torn.pin.author, torn.pin.scope, torn.pin.source) == ("agent", "session", "m1")
        assert "Things I do not want - Skip the tests" in torn.whole
        line = 'p1 constraint, by agent, from m1 "Things I do not want - …": Skip the tests'
        assert line in pinned_block(await work.pins(info))
        whole = await compactor.pin(
            work, info, PinWish("Things I do not want\n- Skip the tests", by="agent")
        )
        assert (whole.pin.author, whole.pin.scope) == ("user", "project")
        await compactor.forget(work, Scope(project="/p", session=info.id), "m1")
        assert [pin.context for pin in await work.pins(info)] == ["", ""]


async def test_pins_made_at_once_are_neither_doubled_nor_over_the_limit(tmp_path: Path) -> None:
    async with open_session(tmp_path, policy=Policy(pinned_max_tokens=120)) as (work, info):
        same = [
            compactor.pin(work, info, PinWish("Never push to main.", by="user")) for _ in range(4)
        ]
        done = await asyncio.gather(*same)
        assert sorted(one.is_new for one in done) == [False, False, False, True]
        assert len(await work.pins(info)) == 1
        texts = [f"Rule {n}: " + "never touch this thing in the module " * 3 for n in range(6)]
        wishes = [compactor.pin(work, info, PinWish(text, by="user")) for text in texts]
        tried = await asyncio.gather(*wishes, return_exceptions=True)
        taken = [one for one in tried if isinstance(one, Pinned)]
        assert all(one.block_tokens <= 120 for one in taken)
        assert len(await work.pins(info)) == 1 + len(taken)
        assert {type(one) for one in tried} == {Pinned, PinRefused}

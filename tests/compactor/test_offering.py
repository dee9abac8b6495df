"""Facts for later sessions on a real store: offered, kept by the user alone, ended where unused."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from mcp_compaction import compactor
from mcp_compaction.compactor.results import PinWish
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.compaction.receipt import receipt_text
from mcp_compaction.core.log.pinned import pinned_block
from mcp_compaction.errors import NeedsUser
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import Ask, Compaction, Pin, SessionInfo
from mcp_compaction.ports import Scope, SessionKey
from tests.compactor.small_session import StepClock, open_session, record_long, user
from tests.sessions import proved

pytestmark = pytest.mark.anyio

TESTS = "bin/check -q"
WORKS = f"Works here: {TESTS}"
DAYS = timedelta(days=1)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> StepClock:
    """The one clock of all compactors of a test."""
    one = StepClock()
    monkeypatch.setattr("tests.compactor.small_session.StepClock", lambda: one)
    return one


async def keep_fact(work: Workspace, info: SessionInfo) -> Pin:
    await compactor.record(work, info, read_incoming(proved(TESTS)))
    (offer,) = await compactor.offered_facts(work, info)
    return (await compactor.keep_fact(work, info, offer)).pin


async def test_an_unused_fact_ends_and_a_used_one_is_kept_for_longer(
    tmp_path: Path, clock: StepClock
) -> None:
    async with open_session(tmp_path) as (work, info):
        await keep_fact(work, info)
        await compactor.pin(
            work, info, PinWish("Ida is allergic.", by="user", kind="fact", scope="project")
        )
        clock.moment += 80 * DAYS
        later, _ = await compactor.open_session(work, SessionKey(project="/p", name="later"))
        await compactor.record(work, later, read_incoming([user("Run bin/check.")]))
        await compactor.offered_facts(work, later)
        clock.moment += 80 * DAYS
        assert len(await work.project_pins("/p")) == 2
        clock.moment += 11 * DAYS
        assert [pin.text for pin in await work.project_pins("/p")] == ["Ida is allergic."]


async def test_a_compaction_notes_which_facts_were_used(tmp_path: Path, clock: StepClock) -> None:
    async with open_session(tmp_path) as (work, info):
        fact = await keep_fact(work, info)
        clock.moment += 2 * DAYS
        await record_long(work, info)
        assert isinstance(await compactor.compress(work, info, Ask(reason="full")), Compaction)
        (renewed,) = await work.project_pins("/p")
        assert renewed.used is not None
        assert fact.used is not None
        assert renewed.used - fact.used >= 2 * DAYS
        assert renewed.expires == renewed.used + 90 * DAYS


async def test_a_declined_fact_is_offered_no_more_and_a_dropped_one_neither(tmp_path: Path) -> None:
    async with open_session(tmp_path) as (work, info):
        await compactor.record(work, info, read_incoming(proved(TESTS)))
        (offer,) = await compactor.offered_facts(work, info)
        await compactor.decline_fact(work, info, offer)
        assert await compactor.offered_facts(work, info) == ()
        other, _ = await compactor.open_session(work, SessionKey(project="/p", name="other"))
        fact = await keep_fact(work, other)
        await compactor.unpin(work, other, fact.ref, by="user")
        assert await compactor.offered_facts(work, other) == ()


async def test_a_receipt_offers_facts_and_an_agent_cannot_accept_them(tmp_path: Path) -> None:
    async with open_session(tmp_path) as (work, info):
        await compactor.record(work, info, read_incoming(proved(TESTS)))
        await record_long(work, info)
        done = await compactor.compress(work, info, Ask(reason="full"))
        assert isinstance(done, Compaction)
        assert f'fact for later sessions? m3: "{WORKS}"' in receipt_text(done.receipt)
        assert "pin_constraint kind=fact scope=project" in receipt_text(done.receipt)
        (stored,) = await compactor.receipts(work, info)
        assert stored.offer.facts == ()
        wish = PinWish(found := "Rates are older than a week.", "agent", "fact", "project")
        question = await compactor.pin_question(work, "/p", info, wish)
        assert question is not None
        assert question.text.endswith(
            f"for later sessions of this project, while they use it: {found}"
        )
        with pytest.raises(NeedsUser):
            await compactor.pin(
                work, info, PinWish(found, by="agent", kind="fact", scope="project")
            )
        agreed = await compactor.pin(
            work, info, PinWish(found, by="user", kind="fact", scope="project", channel="dialog")
        )
        assert agreed.pin.used is not None


async def test_a_fact_of_a_forgotten_session_keeps_its_day_and_loses_the_sessions_name(
    tmp_path: Path,
) -> None:
    async with open_session(tmp_path) as (work, info):
        await keep_fact(work, info)
        await compactor.forget(work, Scope(project="/p", session=info.id))
        (fact,) = await work.project_pins("/p")
        assert f"p1 fact, by user, kept 2026-11-15: {WORKS}" in pinned_block([fact])
        await compactor.forget(work, Scope(project="/p"))
        assert await work.project_pins("/p") == ()

"""Offers what a session said or taught: rules to pin, and facts to keep for later sessions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

from mcp_compaction.compactor import pinning
from mcp_compaction.compactor.results import FACT_DECLINED, Pinned, PinWish
from mcp_compaction.compactor.workspace import Workspace, scope_of
from mcp_compaction.core.pins import suggest_pins
from mcp_compaction.core.project_facts import facts_told, is_used, offer_facts
from mcp_compaction.model import (
    Digest,
    Event,
    FactOffer,
    Message,
    Offer,
    Pin,
    Session,
    SessionInfo,
)
from mcp_compaction.ports import Past

_MOST_FACTS = 2  # offered beside rules
_MOST_MESSAGES = 3_000  # the newest of a session, in which facts are looked for
_DAY = timedelta(days=1)  # a use is noted once a day


async def suggest(
    work: Workspace, session: Session, past: Past, most: int, digests: Sequence[Digest] = ()
) -> Offer:
    """The rules nobody has pinned, and facts for later sessions; what the user released or declined
    is not missed. `digests`: those that the session is about to get."""
    known = _known_pins(past)
    earlier = [receipt.offer for receipt in past.receipts]
    offer = await work.threads.run(
        suggest_pins, session.messages, session.digests, known, most, earlier
    )
    told = facts_told((*session.digests, *digests))
    declined = _declined_facts(past)
    facts = await work.threads.run(offer_facts, session.messages, known, declined, told)
    return offer.model_copy(update={"facts": facts[:_MOST_FACTS]})


async def offered_facts(work: Workspace, info: SessionInfo) -> tuple[FactOffer, ...]:
    """What a session taught that is neither kept nor declined; notes what it used."""
    found = await work.store.originals(
        scope_of(info), after=max(0, info.messages - _MOST_MESSAGES), limit=_MOST_MESSAGES
    )
    messages = [original.message for original in found]
    _, past = await work.load_with_past(info)
    await renew_facts(work, past.pins, messages)
    told = facts_told(await work.store.digests(info.id))
    known, declined = _known_pins(past), _declined_facts(past)
    return await work.threads.run(offer_facts, messages, known, declined, told)


async def keep_fact(work: Workspace, info: SessionInfo, offer: FactOffer) -> Pinned:
    """Keep an offered fact for the project, in the name of the user who agreed to it at a
    terminal."""
    wish = PinWish(offer.text, "user", "fact", "project", channel="terminal", ends_unused=True)
    return await pinning.pin(work, info, wish)


async def decline_fact(work: Workspace, info: SessionInfo, offer: FactOffer) -> None:
    """Offer a fact of a session no more."""
    event = Event(name=FACT_DECLINED, at=work.now(), detail=offer.id)
    await work.store.add_event(info.id, event)


def _known_pins(past: Past) -> list[Pin]:
    """The pins in force, and what the user once pinned.

    A pin of an agent's that is over says nothing: with it an agent could drop a user's rule.
    """
    return [*past.pins, *(pin for pin in past.pins_ever if pin.author == "user")]


def _declined_facts(past: Past) -> tuple[str, ...]:
    return tuple(event.detail for event in past.events if event.name == FACT_DECLINED)


async def renew_facts(work: Workspace, pins: Iterable[Pin], messages: Sequence[Message]) -> None:
    """Note which project facts a session used: they are kept for longer."""
    now = work.now()
    due = [pin for pin in pins if pin.used is not None and now - pin.used >= _DAY]
    used = await work.threads.run(_numbers_used, due, messages) if due else ()
    if used:
        await work.store.renew_facts(used, now, pinning.end_of_fact(work, now))


def _numbers_used(pins: Iterable[Pin], messages: Sequence[Message]) -> tuple[int, ...]:
    return tuple(pin.number for pin in pins if is_used(pin.text, messages))

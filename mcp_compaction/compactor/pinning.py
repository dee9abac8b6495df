"""Pins texts word for word, and releases them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from mcp_compaction.compactor.masking import known_secrets
from mcp_compaction.compactor.results import Pinned, PinWish
from mcp_compaction.compactor.workspace import Workspace, scope_of
from mcp_compaction.core import pins as rules
from mcp_compaction.core.log.quotes import Saying, saying_of
from mcp_compaction.core.text.refs import number_of
from mcp_compaction.core.text.repeats import mask_repeats
from mcp_compaction.errors import UnknownRef
from mcp_compaction.model import Author, Channel, Pin, SessionInfo
from mcp_compaction.ports import NewPin, Scope

_MOST_SOURCES = 20  # messages in which a pin's words are looked for


async def pins_of(work: Workspace, info: SessionInfo) -> tuple[Pin, ...]:
    """The pins in force in a session, notes included."""
    return await work.store.pins(scope_of(info), work.now())


async def project_pins(work: Workspace, project: str) -> tuple[Pin, ...]:
    """The pins that every session of a project starts with: rules, open tasks and facts."""
    found = await work.store.pins(Scope(project=project), work.now())
    return tuple(pin for pin in found if pin.scope != "session" and pin.kind != "note")


async def pin(work: Workspace, info: SessionInfo, wish: PinWish) -> Pinned:
    """Keep a text word for word; the answer says who it is from and what the block costs.

    An agent may not end, narrow, widen or replace a user's pin: NeedsUser, nothing is changed.
    """
    policy = (await work.read_window(info)).policy
    known, plan = await _plan_pin(work, info.project, info, wish)
    rules.check_question(plan.question)
    rules.check_secrets(mask_repeats(wish.text, await known_secrets(work, info)).counts)
    draft, same, old = plan.draft, plan.same, plan.replaces
    others = [p for p in known if p not in (old, same)]
    tokens = rules.check_budget([*others, draft], wish.kind, policy, work.counter.count)
    if same is not None:
        if old is not None:
            await work.store.release_pin(scope_of(info), old.number, draft.at)
        return Pinned(pin=same, is_new=False, block_tokens=tokens)
    new = NewPin(
        text=wish.text,
        kind=wish.kind,
        scope=draft.scope,
        author=draft.author,
        source=draft.source,
        expires=wish.expires,
        channel=draft.channel,
        supersedes=old.number if old else None,
    )
    if _ends_unused(wish, draft):
        until = end_of_fact(work, draft.at)
        new = new.model_copy(update={"used": draft.at, "expires": until})
    kept = await work.store.add_pin(info.id, new, draft.at)
    return Pinned(pin=kept, is_new=True, block_tokens=tokens)


def _ends_unused(wish: PinWish, draft: Pin) -> bool:
    """Whether a pin is a fact that the user only agreed to, and that holds for the project."""
    is_agreed = wish.ends_unused or wish.channel == "dialog"
    is_fact = (draft.kind, draft.scope) == ("fact", "project")
    return is_agreed and is_fact and draft.expires is None


def end_of_fact(work: Workspace, used: datetime) -> datetime:
    """The end of a project fact that was last used at a moment."""
    return used + timedelta(days=work.policy.fact_days)


async def question_of(
    work: Workspace, project: str, info: SessionInfo | None, wish: PinWish
) -> rules.Question | None:
    """The question that only the user may answer; the session need not exist yet."""
    return (await _plan_pin(work, project, info, wish))[1].question


async def is_said(work: Workspace, info: SessionInfo, text: str) -> bool:
    """Whether the user said these words in a session."""
    saying = await _find_saying(work, info, text)
    return saying is not None and saying.how == "said"


async def _find_saying(work: Workspace, info: SessionInfo, text: str) -> Saying | None:
    said = await work.store.requests_with(scope_of(info), text, _MOST_SOURCES)
    return saying_of(text, [original.message for original in said])


async def _plan_pin(
    work: Workspace, project: str, info: SessionInfo | None, wish: PinWish
) -> tuple[tuple[Pin, ...], rules.PinPlan]:
    """The pins in force, and what a wish for one more comes to."""
    now = work.now()
    rules.check_text(wish.text)
    rules.check_expiry(wish.expires, now)
    saying: Saying | None = None
    if info is not None:
        saying = await _find_saying(work, info, wish.text)
        known = await work.store.pins(scope_of(info), now)
    else:
        known = await project_pins(work, project)
    author = rules.author_of(wish.by, saying, wish.expires)
    old = _pin_named(wish.supersedes, known) if wish.supersedes is not None else None
    draft = Pin(
        number=0,
        text=wish.text,
        kind=wish.kind,
        scope=wish.scope or (old.scope if old is not None else rules.default_scope(author)),
        author=author,
        session=info.name if info is not None else "",
        at=now,
        source=saying.ref if saying is not None else None,
        expires=wish.expires,
        channel=wish.channel or _default_channel(wish.by, author),
    )
    grounds = rules.Grounds(wish.by, saying, old, has_scope=wish.scope is not None)
    return known, rules.plan_pin(draft, known, grounds)


def _default_channel(by: Author, author: Author) -> Channel:
    """The channel a pin came by: an agent may pin what the user said in a message."""
    if by == "user":
        return "program"
    return "message" if author == "user" else "tool"


def _pin_named(ref: str, pins: Sequence[Pin]) -> Pin:
    number = number_of(ref, "p")
    for pin in pins:
        if pin.number == number:
            return pin
    known = ", ".join(pin.ref for pin in pins) or "none"
    raise UnknownRef(f"no pin {ref} in force here; there are: {known}.")


async def unpin(work: Workspace, info: SessionInfo, ref: str, by: Author) -> Pin:
    """Release a pin; its text stays findable."""
    now = work.now()
    pin = _pin_named(ref, await work.store.pins(scope_of(info), now))
    rules.check_release(pin, by)
    await work.store.release_pin(scope_of(info), pin.number, now)
    return pin


async def announce(
    work: Workspace, project: str, info: SessionInfo | None, known: Collection[int]
) -> tuple[Pin, ...]:
    """The pins for the project or for everywhere that are new to it; each is given once.

    `known`: the numbers of those the asker made; they stay to be told to others.
    """
    session = info.id if info is not None else None
    new = await work.store.unannounced_pins(project, session, work.now())
    found = tuple(pin for pin in new if pin.number not in known)
    if found:
        await work.store.mark_announced(project, [pin.number for pin in found])
    return found

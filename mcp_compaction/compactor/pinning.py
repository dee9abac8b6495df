"""Pins texts word for word, and releases them; shows pins that were made outside the conversation
once, after what the user says next.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from mcp_compaction.compactor.gauge import FillReading
from mcp_compaction.compactor.headless import tell_programs_by
from mcp_compaction.compactor.masking import secrets_in
from mcp_compaction.compactor.results import HEADLESS, MASKED, Pinned, PinWish
from mcp_compaction.compactor.workspace import Workspace, scope_of
from mcp_compaction.core import pins as rules
from mcp_compaction.core.log.conversation import is_own_call
from mcp_compaction.core.log.spoken_rules import Requests, Saying, saying_of
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.text.refs import number_of
from mcp_compaction.core.text.repeats import mask_repeats
from mcp_compaction.core.window.history import is_in
from mcp_compaction.errors import UnknownRef
from mcp_compaction.model import (
    Author,
    Channel,
    LatePins,
    Message,
    NewPin,
    Pin,
    PinAuthor,
    PinChange,
    Session,
    SessionInfo,
    ToolCall,
)
from mcp_compaction.ports import PinFacts

_END_WORDS = 3
_MOST_SOURCES = 20  # messages in which a pin's words are looked for

_MOST_LOOKED_AT = 50  # newest messages among which one is that the caller still has
_MOST_SINCE = 10_000  # messages in which a pin's words are looked for
_BY_CALL = ("tool", "dialog", "message")  # the channels of pins that an agent asked for
_QUOTES = ('"', "'", "`")  # around a text in a program


async def pin(work: Workspace, info: SessionInfo, wish: PinWish) -> Pinned:
    """Keep a text word for word; the answer says who it is from and what the block costs.

    An agent may not end, narrow, widen or replace a user's pin: NeedsUser, nothing is changed.
    """
    now, old = work.now(), None
    await work.threads.run(_check_wish, wish, now)
    facts = await _facts_of(work, info, wish.text)
    policy = work.policy_by(facts.info.traits, (await work.allowance(info)).is_near)
    saying = await _saying_in(work, facts, wish.text)
    known = secrets_in(info, (event for event in facts.events if event.name == MASKED))
    rules.check_secrets((await work.threads.run(mask_repeats, wish.text, known)).counts)
    if wish.supersedes is not None:
        old = _pin_named(wish.supersedes, await work.pins(info))
    owner = await owner_of(work, info, old) if old is not None else None
    decision = _Decision(work, info, wish, saying, owner, policy, now)
    kept = await work.store.change_pins(info.id, decision, now)
    return decision.done(kept)


class _Decision:
    """What a wish for a pin comes to when the pins in force are seen, in one transaction."""

    def __init__(
        self,
        work: Workspace,
        info: SessionInfo,
        wish: PinWish,
        saying: Saying | None,
        owner: PinAuthor | None,
        policy: Policy,
        now: datetime,
    ) -> None:
        self._work, self._info, self._wish, self._policy = work, info, wish, policy
        self._saying, self._now = saying, now
        self._owner: PinAuthor | None = owner
        self._same: Pin | None = None
        self._block_tokens = 0

    def __call__(self, known: tuple[Pin, ...]) -> PinChange:
        """Plan, check and make room; an error leaves everything as it is."""
        wish = self._wish
        plan = _plan_pin(self._info, wish, known, self._saying, self._owner, self._now)
        rules.check_question(plan.question)
        draft, self._same, old = plan.draft, plan.same, plan.replaces
        replaced = {pin.number for pin in (old, plan.same) if pin is not None}
        others = [pin for pin in known if pin.number not in replaced]
        count = self._work.counter.count
        self._block_tokens = rules.make_room(others, draft, self._policy, count)
        if plan.same is not None:
            return PinChange(releases=(old.number,) if old else ())
        told = draft.model_dump(include=set(NewPin.model_fields))
        new = NewPin(**told, supersedes=old.number if old else None)
        if _ends_unused(wish, draft):
            until = end_of_fact(self._work, draft.at)
            new = new.model_copy(update={"used": draft.at, "expires": until})
        return PinChange(new=new)

    def done(self, kept: Pin | None) -> Pinned:
        """The pin that a wish came to, whether it is new, and the sentence it was torn out of."""
        pin = kept or self._same
        assert pin is not None  # a pin that is not new is one that was there
        is_torn = pin.author == "agent" and self._saying is not None and self._saying.how == "part"
        return Pinned(
            pin=pin,
            is_new=kept is not None,
            block_tokens=self._block_tokens,
            whole=rules.what_counts(self._saying) if is_torn and self._saying else "",
        )


def _ends_unused(wish: PinWish, draft: Pin) -> bool:
    """Whether a pin is a fact that the user only agreed to, and that holds for the project."""
    is_agreed = wish.ends_unused or wish.channel == "dialog"
    is_fact = (draft.kind, draft.scope) == ("fact", "project")
    return is_agreed and is_fact and draft.expires is None


def end_of_fact(work: Workspace, used: datetime) -> datetime:
    """The end of a project fact that was last used at a moment."""
    return used + timedelta(days=work.policy.fact_days)


async def pin_question(
    work: Workspace, project: str, info: SessionInfo | None, wish: PinWish
) -> rules.UserQuestion | None:
    """The question that only the user may answer; the session need not exist yet."""
    now = work.now()
    _check_wish(wish, now)
    if info is None:
        known = await work.project_pins(project)
        return _plan_pin(info, wish, known, None, None, now).question
    known = await work.pins(info)
    saying = await _saying_of(work, info, wish.text)
    old = _pin_named(wish.supersedes, known) if wish.supersedes is not None else None
    owner = await owner_of(work, info, old) if old is not None else None
    return _plan_pin(info, wish, known, saying, owner, now).question


async def owner_of(work: Workspace, info: SessionInfo, pin: Pin) -> PinAuthor:
    """Whose a pin is: what the user said in a message is theirs, also where an agent pinned it
    before that was known, and so is a pin with a check, which would leave with it. The same goes
    for what a program said."""
    if pin.author == "user" or pin.checks:
        return "user"
    said_by = rules.author_of("agent", await _saying_of(work, info, pin.text))
    return pin.author if said_by == "agent" else said_by


async def is_said(work: Workspace, info: SessionInfo, text: str) -> bool:
    """Whether these words were said in a prompt of a session, by the user or a program."""
    saying = await _saying_of(work, info, text)
    return saying is not None and saying.how == "said"


async def _saying_of(work: Workspace, info: SessionInfo, text: str) -> Saying | None:
    """Where the words of a pin stand in what the session's user said."""
    return await _saying_in(work, await _facts_of(work, info, text), text)


async def _saying_in(work: Workspace, facts: PinFacts, text: str) -> Saying | None:
    sent = [event for event in facts.events if event.name == HEADLESS]
    heard = tell_programs_by(work, facts.info, facts.said, sent)
    return await work.threads.run(saying_of, text, heard)


async def _facts_of(work: Workspace, info: SessionInfo, text: str) -> PinFacts:
    # A text that leaves out what stands between a head and its item is found by its end.
    end = " ".join(text.split()[-_END_WORDS:])
    words = tuple(dict.fromkeys((text, text.strip().splitlines()[-1], end)))
    return await work.store.pin_facts(scope_of(info), words, _MOST_SOURCES, (HEADLESS, MASKED))


def _check_wish(wish: PinWish, now: datetime) -> None:
    rules.check_text(wish.text)
    rules.check_expiry(wish.expires, now)


def _plan_pin(
    info: SessionInfo | None,
    wish: PinWish,
    known: Sequence[Pin],
    saying: Saying | None,
    owner: PinAuthor | None,
    now: datetime,
) -> rules.PinPlan:
    """What a wish for one more pin comes to; `owner`: whose the pin is that it supersedes."""
    author = rules.author_of(wish.by, saying)
    old = _pin_named(wish.supersedes, known) if wish.supersedes is not None else None
    if old is not None and owner is not None:
        old = old.model_copy(update={"author": owner})
    draft = Pin(
        number=0,
        text=wish.text,
        kind=wish.kind,
        scope=wish.scope or (old.scope if old is not None else rules.default_scope(author)),
        author=author,
        session=info.name if info is not None else "",
        at=now,
        source=saying.ref if saying is not None else None,
        context=rules.context_of(wish.text, author, saying),
        expires=wish.expires,
        channel=_channel_of(wish, author),
    )
    grounds = rules.Grounds(wish.by, saying, old, has_scope=wish.scope is not None)
    return rules.plan_pin(draft, known, grounds)


def _channel_of(wish: PinWish, author: PinAuthor) -> Channel:
    """The channel a pin came by: an agent may pin what the user said in a message. A program's pin
    is known by it in the store, and has no other."""
    if wish.channel is not None and author != "program":
        return wish.channel
    if wish.by == "user":
        return "program"
    return "tool" if author == "agent" else "message"


def _pin_named(ref: str, pins: Sequence[Pin]) -> Pin:
    number = number_of(ref, "p")
    for pin in pins:
        if pin.number == number:
            return pin
    known = ", ".join(pin.ref for pin in pins) or "none"
    raise UnknownRef(f"no pin {ref} in force here; there are: {known}.")


async def unpin(work: Workspace, info: SessionInfo, ref: str, *, by: Author) -> Pin:
    """Release a pin; its text stays findable."""
    now = work.now()
    pin = _pin_named(ref, await work.store.pins(scope_of(info), now))
    rules.check_release(pin.model_copy(update={"author": await owner_of(work, info, pin)}), by)
    await work.store.release_pin(scope_of(info), pin.number, now)
    return pin


async def announce(
    work: Workspace, project: str, window: FillReading | None = None, known: Collection[int] = ()
) -> tuple[Pin, ...]:
    """The pins for the project or for everywhere that are new to it; each is given once.

    `window`: of the session of this project that is told, as it was just read. `known`: the numbers
    of those the asker made; they stay to be told to others.
    """
    new = window.news if window else await work.store.unannounced_pins(project, work.now())
    found = tuple(pin for pin in new if pin.number not in known)
    if found:
        await work.store.mark_announced(project, [pin.number for pin in found])
    return found


async def show_late_pins(work: Workspace, window: Session) -> bool:
    """Show the pins that nothing in the window tells of, if the user spoke last; says whether."""
    view = window.view
    new = waiting_pins(work, window)
    if not new:
        return False
    newest = await _messages_after(work, window, window.info.messages - _MOST_LOOKED_AT)
    if not newest or not newest[-1].is_request or newest[-1].results:
        return False
    since = await _messages_after(work, window, view.upto)
    said = await work.threads.run(_find_said, new, since)
    found = _find_said_before(work, window).union(said)
    work.said_pins.keep(window.info.id, (_start_of(window), found))
    new = [pin for pin in new if pin.number not in said]
    if not new:
        return False
    stored = await work.store.view(window.info.id, view.version)
    one = LatePins(after=newest[-1].seq, pins=tuple(pin.number for pin in new))
    changed = stored.model_copy(update={"late_pins": (*stored.late_pins, one)})
    # Overtaken: shown the next time.
    return await work.store.save_view(window.info.id, changed, stored.version)


def waiting_pins(work: Workspace, window: Session) -> list[Pin]:
    """The pins in force that nothing in a window is known to tell of, once it has begun."""
    view = window.view
    if not view.is_begun:
        return []
    known = {*view.pinned, *(number for one in view.late_pins for number in one.pins)}
    known |= _find_said_before(work, window)
    return [pin for pin in window.pins if pin.number not in known]


def _find_said_before(work: Workspace, window: Session) -> frozenset[int]:
    """The pins that messages were found to tell of; none where the caller has changed what it has
    since then."""
    start, pins = work.said_pins.get(window.info.id, (None, frozenset[int]()))
    return pins if start == _start_of(window) else frozenset[int]()


def _start_of(window: Session) -> object:
    return window.view.gone, window.view.reworded, window.view.upto


async def _messages_after(work: Workspace, window: Session, number: int) -> list[Message]:
    """The messages after a number that the caller still has."""
    found = await work.store.originals(
        scope_of(window.info), after=max(0, number), limit=_MOST_SINCE
    )
    return [one.message for one in found if not is_in(window.view.gone, one.message.seq)]


def _find_said(pins: Sequence[Pin], messages: Sequence[Message]) -> set[int]:
    """The pins that some messages tell of: a user said them, or a call made them."""
    requests = Requests(messages)
    return {
        pin.number
        for pin in pins
        if _is_said(pin, requests) or any(_makes(message, pin) for message in messages)
    }


def _is_said(pin: Pin, requests: Requests) -> bool:
    saying = requests.saying_of(pin.text)
    return saying is not None and saying.is_spoken


def _makes(message: Message, pin: Pin) -> bool:
    """Whether a message has the call that made a pin."""
    return pin.channel in _BY_CALL and any(
        _has_text(call, pin.text.strip()) for call in message.calls if is_own_call(call)
    )


def _has_text(call: ToolCall, text: str) -> bool:
    program = str(call.arguments.get("input", ""))
    is_whole = str(call.arguments.get("text", "")).strip() == text
    return is_whole or any(f"{quote}{text}{quote}" in program for quote in _QUOTES)

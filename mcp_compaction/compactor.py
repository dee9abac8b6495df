"""The one asynchronous shell: load, drive the flow, save; every host and command enters here."""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal, NamedTuple, assert_never

from mcp_compaction.core import pins as pinning
from mcp_compaction.core.compaction.flow import Flow, flow
from mcp_compaction.core.compaction.outcomes import paging_in, restoration
from mcp_compaction.core.digest.allowance import Allowance, Limits, allowance_of
from mcp_compaction.core.digest.extract import extract
from mcp_compaction.core.digest.text import render_digest
from mcp_compaction.core.excerpts.paging import messages_shown_whole, show_again, wanted_excerpts
from mcp_compaction.core.log.content import compact_json, whole_text
from mcp_compaction.core.log.quotes import Saying, saying_of
from mcp_compaction.core.pins import suggest_pins
from mcp_compaction.core.policy import Policy, for_session, under_pressure
from mcp_compaction.core.recall.flow import SearchResult, search
from mcp_compaction.core.recall.query import Question, read_query, terms_of
from mcp_compaction.core.recall.rank import choose
from mcp_compaction.core.text.refs import HOW, Ref, Refs, number_of, parse_refs
from mcp_compaction.core.text.secrets import redact
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.window.fill import Fill, Pressure, measure, pressure
from mcp_compaction.core.window.render import lay_out
from mcp_compaction.core.wording import kilo
from mcp_compaction.errors import (
    CompactionError,
    InputError,
    NothingRecorded,
    StoreError,
    SummarizerError,
    UnknownRef,
    UnknownSession,
)
from mcp_compaction.formats import Incoming, IncomingMessage, normalize, render
from mcp_compaction.formats.body import request_body
from mcp_compaction.formats.newcomers import (
    masked_in_new,
    masked_sections,
    newcomer,
    section_tokens,
)
from mcp_compaction.gauge import Gauge, Reading
from mcp_compaction.model import (
    Ask,
    Author,
    Channel,
    Compaction,
    Digest,
    Draft,
    Event,
    Failed,
    Find,
    Found,
    Hit,
    JsonObject,
    ListAll,
    Message,
    ModelCall,
    NewMessage,
    NothingToDo,
    Offer,
    Outcome,
    Pin,
    PinKind,
    PinScope,
    Read,
    Receipt,
    Refusal,
    SearchQuery,
    SearchRequest,
    Sections,
    Session,
    SessionInfo,
    Shape,
    Spent,
    SummaryRequest,
    Traits,
    Value,
    Via,
)
from mcp_compaction.ports import (
    Batch,
    Clock,
    Forgotten,
    Health,
    NewPin,
    Original,
    Recorded,
    Scope,
    SessionKey,
    Store,
    Summarizer,
    TokenCounter,
    Twins,
)
from mcp_compaction.threads import Threads

logger = logging.getLogger(__name__)

COMPLETED = "CONTEXT_BUDGET_COMPACTION_COMPLETED"
FAILED = "CONTEXT_BUDGET_COMPACTION_FAILED"
SAFETY_NET = "CONTEXT_BUDGET_COMPACTION_SAFETY_NET"
REGRET = "CONTEXT_BUDGET_COMPACTION_REGRET"  # its detail: the refs that had to be recalled
FALLBACK = "CONTEXT_BUDGET_COMPACTION_FALLBACK"  # its detail: why a summarizer gave no digest

Progress = Callable[[str], Awaitable[None]]
Drafts = list[tuple[SummaryRequest, Draft]]
"""What was asked for in one compaction, and what came: nothing is paid for twice."""

_MOST_ROWS = 1_000  # a longer transaction would make other processes wait
_MOST_TRIES = 3
_PATIENCE = 30.0  # seconds for which another's compaction of the same session is waited for
_NEWEST = 3
_MOST_SOURCES = 20  # messages in which a pin's words are looked for
_MOST_AFTER_ANSWER = 50  # messages among which the newest answer usually is
_MOST_OFFERED = 5
_MOST_OFFERED_ON_RECEIPT = 3


class Regret(Value):
    """How much of what left the window had to be recalled."""

    recalls: int = 0  # how often something of it was given back
    recalled: int = 0  # how many of the messages outside the window that were
    dropped: int = 0  # how many messages are outside the window


class Stats(Value):
    """What there is to know about a session's window."""

    info: SessionInfo
    fill: Fill
    pressure: Pressure
    would_free: Outcome
    pins: tuple[Pin, ...]
    digests: int
    events: tuple[tuple[str, int], ...]
    last: Receipt | None
    offer: Offer
    regret: Regret
    system: Spent = Spent()  # what summarizers took for it
    last_fall: str = ""  # why a digest was last written by another than was to write it
    is_pressed: bool = False  # a limit on model calls is near: budget pressure


class PinWish(NamedTuple):
    """What somebody wants to have pinned."""

    text: str
    by: Author
    kind: PinKind = "constraint"
    scope: PinScope | None = None  # None: as the author's words hold by default
    supersedes: str | None = None
    expires: datetime | None = None
    channel: Channel | None = None


class Pinned(Value):
    """A pin, and what the pinned block costs with it."""

    pin: Pin
    is_new: bool
    block_tokens: int


class Brief(Value):
    """What a fresh window needs to go on with a session."""

    info: SessionInfo
    pins: tuple[Pin, ...]
    digests: tuple[tuple[str, str], ...]  # name and text, oldest first
    said: tuple[tuple[str, str], ...]  # the first request and the newest words, by ref


class Recalled(Value):
    """Passages of the archive, and how many more there are."""

    hits: tuple[Hit, ...]
    more: int
    scope: Literal["session", "project", "all"]
    messages: int  # among which it was looked for
    too_common: tuple[str, ...] = ()  # words of which only the newest places were ranked
    nowhere: tuple[str, ...] = ()  # words that stand nowhere there
    is_full: bool = False  # there are more than were ranked
    suggestion: str | None = None  # a query that would find something, where this one did not


class Quote(Value):
    """What a ref gives, word for word: a message, a digest or a pin."""

    ref: str
    of: str  # whose words, or what it is
    at: datetime | None
    text: str
    source: Original | Digest | Pin


@dataclass(frozen=True, slots=True)
class Parts:
    """What a compactor is put together from."""

    store: Store
    summarizer: Summarizer
    counter: TokenCounter
    clock: Clock
    policy: Policy
    mask_secrets: bool = True
    limits: Limits = field(default_factory=Limits)


class Compactor:
    """Records, measures, compresses, pins, recalls, restores and forgets sessions."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._store = parts.store
        self._summarizer = parts.summarizer
        self._counter = parts.counter
        self._clock = parts.clock
        self._policy = parts.policy
        self._mask = parts.mask_secrets
        self._limits = parts.limits
        self._gauge = Gauge(parts.store, parts.counter)
        self._threads = Threads()

    def with_summarizer(self, chosen: Callable[[Summarizer], Summarizer]) -> Compactor:
        """The same compactor on the same store, with a summarizer made from its own."""
        return Compactor(replace(self._parts, summarizer=chosen(self._summarizer)))

    # Sessions

    async def open(self, key: SessionKey, traits: Traits | None = None) -> tuple[SessionInfo, bool]:
        """The session of that key, made where it is not there yet; and whether it is new."""
        return await self._store.open_session(key, traits or Traits(), self._clock.now())

    async def find(self, project: str, name: str | None) -> SessionInfo:
        """The session of that name, or the only one there is."""
        scope = Scope(project=project)
        if name is not None:
            found = await self._store.find_session(scope, name)
            if found is not None:
                return found
        known = await self._store.sessions(scope, 5)
        if name is None and len(known) == 1:
            return known[0]
        if not known:
            raise UnknownSession(
                "no session is recorded for this project yet; record messages first."
            )
        names = ", ".join(info.name for info in known)
        asked = f"no session {name!r} in this project" if name else "several sessions are recorded"
        raise UnknownSession(f"{asked}; name one of: {names}.")

    async def find_anywhere(self, name: str) -> SessionInfo | None:
        """The session of that name in whatever project, for one who asks across projects."""
        return await self._store.find_session(Scope(project=None), name)

    async def find_of_host(
        self, project: str, host_session: str, host: str | None = None
    ) -> SessionInfo | None:
        """The session that a host knows by this id of its own."""
        return await self._store.find_host_session(project, host_session, host)

    async def sessions(self, project: str | None, limit: int = 50) -> tuple[SessionInfo, ...]:
        """The sessions of a project, or of all, the newest first."""
        return await self._store.sessions(Scope(project=project), limit)

    async def own_window(self, info: SessionInfo) -> SessionInfo:
        """Note that this session's caller replaces its own window."""
        traits = info.traits.model_copy(update={"owns_window": True})
        await self._store.set_traits(info.id, traits)
        return info.model_copy(update={"traits": traits})

    async def put_pins_back(self, info: SessionInfo) -> None:
        """Note that a hook has shown this session its pins after the host's own compaction."""
        traits = info.traits.model_copy(update={"pins_put_back": self._clock.now()})
        await self._store.set_traits(info.id, traits)

    async def set_traits(self, info: SessionInfo, traits: Traits) -> None:
        """Set the model, window, complexity or manner of one session."""
        await self._store.set_traits(info.id, traits)

    # Recording

    async def record(
        self, info: SessionInfo, came: Incoming, after: str | None = None, via: Via = "host"
    ) -> Recorded:
        """Append what is not yet known; answers with the number of each message, in order.

        Via `tool`: an agent handed it over, so that it is only the agent's word who said what.
        """
        follows = number_of(after, "m") if after is not None else None
        if came.whole and after is None:
            came, follows = await self._beyond_view(info, came)
        given = came.messages if via == "host" else _without_ids(came.messages)
        ready = await self._threads.run(self._newcomers, given)
        sections, fixed, memory = await self._threads.run(self._fixed_parts, came)
        seqs: list[int] = []
        new = 0
        diverged: int | None = None
        masked = Counter[str]()
        # A whole history is aligned in one piece: half of it would look like another one.
        most = max(1, len(ready)) if came.whole else _MOST_ROWS
        for start in range(0, max(1, len(ready)), most):
            rows = tuple(ready[start : start + most])
            batch = Batch(
                messages=rows,
                counter=self._counter.id,
                via=via,
                after=follows if start == 0 else seqs[-1],
                whole=came.whole and start == 0,
                sections=sections if start == 0 else None,
                section_tokens=fixed,
                memory_tokens=memory,
            )
            done = await self._store.append(info.id, batch, self._clock.now())
            seqs += done.seqs
            new += done.new
            diverged = diverged or done.diverged
            masked += masked_in_new(rows, done)
        if came.model and came.model != info.traits.model:
            await self._store.set_traits(
                info.id, info.traits.model_copy(update={"model": came.model})
            )
        if came.reported is not None and seqs:
            await self._calibrate(info, came.reported)
        return Recorded(seqs=tuple(seqs), new=new, diverged=diverged, masked=masked)

    async def _calibrate(self, info: SessionInfo, reported: int) -> None:
        """Set what the provider counted beside our count of the same window."""
        window = await self._read_window(info)
        newest = window.session.info.messages
        first = max(window.session.view.upto, newest - _MOST_AFTER_ANSWER)
        found = await self._store.originals(_scope(info), after=first)
        since = _from_answer_on([original.message for original in found])
        if not since:
            since = _from_answer_on((await self.load(info)).messages)
        counted = window.fill.counted - sum(message.tokens for message in since)
        if counted > 0:
            await self._store.calibrate(info.id, counted, reported)

    async def _beyond_view(self, info: SessionInfo, came: Incoming) -> tuple[Incoming, int | None]:
        """What a loop says that was sent our own view: only what follows it is new."""
        window = await self._read_window(info)
        if not window.session.view.version or not came.messages:
            return came, None
        session = await self.load(info)
        shown = await self._threads.run(self._shown_again, session, came)
        if shown is None:
            return came, None
        rest = came.model_copy(update={"messages": came.messages[shown:], "whole": False})
        newest = max((message.seq for message in session.messages), default=session.view.upto)
        return rest, newest

    def _shown_again(self, session: Session, came: Incoming) -> int | None:
        """How many messages of what came are our own view; None where it does not begin so."""
        shown = lay_out(session, *self.index_terms(session))
        sent = [normalize(message) for message in render(shown, came.messages[0].shape)]
        said = [normalize(json.loads(message.raw)) for message in came.messages[: len(sent)]]
        return len(sent) if said == sent else None

    def _fixed_parts(self, came: Incoming) -> tuple[Sections | None, int, int]:
        """The sections without their secrets, and the tokens of what is fixed and of memory."""
        sections = came.sections
        if sections is None:
            return None, 0, 0
        sections = masked_sections(sections) if self._mask else sections
        return sections, *section_tokens(sections, self._policy, self._counter.count)

    def _newcomers(self, messages: Sequence[IncomingMessage]) -> list[NewMessage]:
        return [newcomer(message, self._counter.count, self._mask) for message in messages]

    # Looking

    async def load(self, info: SessionInfo) -> Session:
        """The session at this moment."""
        session = await self._store.load(info.id, self._clock.now())
        left = await self._allowance(info)
        return session.model_copy(update={"is_pressed": True}) if left.is_near else session

    async def fill(self, info: SessionInfo) -> Fill:
        """How full the window is; its messages are not read, so that it is not known by role."""
        return (await self._read_window(info)).fill

    async def fill_shown(self, info: SessionInfo) -> Fill | None:
        """How full the window is; None where it shows no message."""
        window = await self._read_window(info)
        return window.fill if window.messages else None

    def fill_of(self, session: Session) -> Fill:
        """How full the window of a loaded session is."""
        rules = self._rules(session)
        return measure(session, rules, self._counter.count, self._counter.precision)

    def count(self, text: str) -> int:
        """The tokens of a text."""
        return self._counter.count(text)

    def index_terms(self, session: Session) -> tuple[int, CountTokens]:
        """How large the index may be, and what counts it."""
        return self._rules(session).index_limit, self._counter.count

    async def stats(self, info: SessionInfo) -> Stats:
        """Fill, pressure, what compressing would free, pins and what happened so far."""
        return await self.stats_of(await self.load(info))

    async def stats_of(self, session: Session) -> Stats:
        """The statistics of a loaded session; they cost a plan of its whole window."""
        info = session.info
        fill = await self._threads.run(self.fill_of, session)
        events = await self._store.events(info.id)
        counts: dict[str, int] = {}
        for event in events:
            if event.name != REGRET:
                counts[event.name] = counts.get(event.name, 0) + 1
        dry = Ask(reason="stats", dry_run=True)
        return Stats(
            info=session.info,
            fill=fill,
            pressure=pressure(fill, self._rules(session)),
            would_free=await self._drive(session, dry, _in_silence, []),
            pins=session.pins,
            digests=len(session.digests),
            events=tuple(sorted(counts.items())),
            last=session.last_compaction,
            offer=await self._offer(session, _MOST_OFFERED),
            regret=_regret(session, events),
            system=await self._store.spent(info.id),
            last_fall=next((e.detail for e in reversed(events) if e.name == FALLBACK), ""),
            is_pressed=session.is_pressed,
        )

    async def context(self, info: SessionInfo, shape: Shape = "anthropic") -> JsonObject:
        """What the model should see now, as the request body of a provider, ready to send."""
        session = await self.load(info)

        def body() -> JsonObject:
            shown = lay_out(session, *self.index_terms(session))
            return request_body(session.sections.system, render(shown, shape), shape)

        return await self._threads.run(body)

    # Compressing

    async def compress(
        self, info: SessionInfo, ask: Ask, progress: Progress | None = None
    ) -> Outcome:
        """Compact the session as asked; whatever fails, the session is as before or as after.

        While another compacts it, in whatever process, that one's end is waited for.
        """
        check_ask(ask)
        report = progress or _in_silence
        if ask.dry_run:
            return await self._compress_or_tell(info, ask, report)
        if self.is_compacting(info):
            await report("waiting for another compaction of this session")
        async with self._store.compacting(info.id, _PATIENCE) as is_ours:
            if not is_ours:
                return _under_way(info)
            return await self._compress_or_tell(info, ask, report)

    def is_compacting(self, info: SessionInfo) -> bool:
        """Whether a session is being compacted now, in whatever process."""
        return self._store.is_compacting(info.id)

    async def _compress_or_tell(self, info: SessionInfo, ask: Ask, progress: Progress) -> Outcome:
        """Compact a session that nobody else compacts; a failure is noted and told."""
        ask = masked(ask) if self._mask else ask
        try:
            return await self._compress(info, ask, progress)
        except InputError:
            raise  # what was asked for was wrong: no compaction was tried
        except CompactionError as error:
            await self._note(info, FAILED, str(error))
            raise
        except (MemoryError, RecursionError):
            raise
        except Exception as error:  # compaction never kills its caller (S0.4)
            logger.exception("a compaction of %s failed", info.name)
            await self._note(info, FAILED, repr(error))
            return Failed(
                text=f"not compressed: {type(error).__name__} while planning; the session is as it "
                "was. Go on, and report this with the log."
            )

    async def foresee(self, info: SessionInfo, ask: Ask) -> SummaryRequest | None:
        """The first digest that compressing would ask a summarizer for; none where it asks none."""
        check_ask(ask)
        session = await self.load(info)
        _check_span(ask, session)
        if not session.messages or (await self._allowance(info)).refusal:
            return None
        running = self._flow(session, masked(ask) if self._mask else ask)
        request = await self._threads.run(_advance, running, None)
        return request if isinstance(request, SummaryRequest) else None

    async def relieve(self, info: SessionInfo) -> Outcome | None:
        """Compress where the fill has passed the trigger: the system's, or the safety net."""
        if not _is_due(await self._read_window(info)):
            return None
        async with self._store.compacting(info.id, _PATIENCE) as is_ours:
            if not is_ours:
                return _under_way(info)
            window = await self._read_window(info)  # another may have done it meanwhile
            return await self._relieve(info, window) if _is_due(window) else None

    async def fill_to_relieve(self, info: SessionInfo) -> Fill | None:
        """How full a window is that `relieve` would compress; None where it would not."""
        window = await self._read_window(info)
        owns_window = window.session.info.traits.owns_window
        return window.fill if owns_window and _is_due(window) else None

    async def _relieve(self, info: SessionInfo, window: Reading) -> Outcome | None:
        percent = f"{window.fill.percent:.0f} %"
        if pressure(window.fill, window.rules).level == "safety net":
            logger.warning("%s: %s at %s", SAFETY_NET, info.name, percent)
            await self._note(info, SAFETY_NET, percent)
        if not window.session.info.traits.owns_window:
            return None
        ask = Ask(reason=f"the window is {percent} full")
        return await self._compress_or_tell(info, ask, _in_silence)

    async def restore(self, info: SessionInfo, ref: str, force: bool = False) -> Outcome:
        """Go back to the view before a compaction, with everything said since."""
        number = number_of(ref, "c")
        receipts = await self._store.receipts(info.id)
        found = next((known for known in receipts if known[0].compaction == number), None)
        if found is None:
            known = ", ".join(receipt.ref for receipt, _ in receipts[-5:]) or "none yet"
            raise UnknownRef(f"no compaction {ref} in {info.name}; the newest are: {known}.")
        receipt, base = found
        if receipt.kind == "digest":
            return NothingToDo(
                text=f"nothing to restore: {ref} only kept your digest and changed no window. "
                "Write a better one with compress_context; where they disagree the later stands."
            )
        now = self._clock.now()
        session = await self._store.load(info.id, now)
        view = await self._store.view(info.id, base)
        back = await self._store.load(info.id, now, view)
        undone = tuple(r.ref for r, _ in receipts if r.compaction >= number and r.kind != "restore")
        before = await self._threads.run(self.fill_of, session)
        after = await self._threads.run(self.fill_of, back)
        if after.tokens > after.window and not force:
            return Refusal(
                text=f"not restored: the window would hold {kilo(after.tokens)} of "
                f"{kilo(after.window)} tokens. Pass force=true if the host has room for it."
            )
        compaction = restoration(session, view, undone, (before, after), now)
        if not await self._store.save(info.id, compaction):
            return Failed(text="not restored: the view changed meanwhile. Call again.")
        return compaction

    # Pins

    async def pins(self, info: SessionInfo) -> tuple[Pin, ...]:
        """The pins in force, notes included."""
        return await self._store.pins(_scope(info), self._clock.now())

    async def project_pins(self, project: str) -> tuple[Pin, ...]:
        """What every session of a project starts with: its rules, open tasks and facts."""
        found = await self._store.pins(Scope(project=project), self._clock.now())
        return tuple(pin for pin in found if pin.scope != "session" and pin.kind != "note")

    async def pin(
        self,
        info: SessionInfo,
        text: str,
        *,
        by: Author,
        kind: PinKind = "constraint",
        scope: PinScope | None = None,
        supersedes: str | None = None,
        expires: datetime | None = None,
        channel: Channel | None = None,
    ) -> Pinned:
        """Keep a text word for word; the answer says who it is from and what the block costs.

        An agent may not end, narrow, widen or replace a user's pin: NeedsUser, nothing is changed.
        """
        wish = PinWish(text, by, kind, scope, supersedes, expires, channel)
        rules = (await self._read_window(info)).rules
        known, plan = await self._plan_pin(info.project, info, wish)
        pinning.check_question(plan.question)
        draft, same, old = plan.draft, plan.same, plan.replaces
        others = [p for p in known if p not in (old, same)]
        tokens = pinning.check_budget([*others, draft], kind, rules, self._counter.count)
        if same is not None:
            if old is not None:
                await self._store.release_pin(_scope(info), old.number, draft.at)
            return Pinned(pin=same, is_new=False, block_tokens=tokens)
        new = NewPin(
            text=text,
            kind=kind,
            scope=draft.scope,
            author=draft.author,
            source=draft.source,
            expires=expires,
            channel=draft.channel,
            supersedes=old.number if old else None,
        )
        pin = await self._store.add_pin(info.id, new, draft.at)
        return Pinned(pin=pin, is_new=True, block_tokens=tokens)

    async def pin_question(
        self, project: str, info: SessionInfo | None, wish: PinWish
    ) -> pinning.Question | None:
        """What only the user may decide of a wish; the session may still have to be made."""
        return (await self._plan_pin(project, info, wish))[1].question

    async def _plan_pin(
        self, project: str, info: SessionInfo | None, wish: PinWish
    ) -> tuple[tuple[Pin, ...], pinning.PinPlan]:
        """The pins in force, and what a wish for one more comes to."""
        now = self._clock.now()
        pinning.check_text(wish.text)
        pinning.check_expiry(wish.expires, now)
        saying = await self._saying(info, wish.text) if info is not None else None
        if info is not None:
            known = await self._store.pins(_scope(info), now)
        else:
            known = await self.project_pins(project)
        author = pinning.author_of(wish.by, saying, wish.expires)
        old = _pin_of(known, wish.supersedes) if wish.supersedes is not None else None
        inherited = old.scope if old is not None else pinning.default_scope(author)
        by_default: Channel = "program" if wish.by == "user" else "tool"
        if wish.by == "agent" and author == "user":
            by_default = "message"
        draft = Pin(
            number=0,
            text=wish.text,
            kind=wish.kind,
            scope=wish.scope or inherited,
            author=author,
            session=info.name if info is not None else "",
            at=now,
            source=saying.ref if saying is not None else None,
            expires=wish.expires,
            channel=wish.channel or by_default,
        )
        told = pinning.Grounds(wish.by, saying, old, has_scope=wish.scope is not None)
        return known, pinning.plan_pin(draft, known, told)

    async def announce(
        self, project: str, info: SessionInfo | None = None, known: Collection[int] = ()
    ) -> tuple[Pin, ...]:
        """The pins for the project or for everywhere that are new to it; each is given once.

        `known`: the numbers of those the asker made; they stay to be told to others.
        """
        session = info.id if info is not None else None
        new = await self._store.unannounced(project, session, self._clock.now())
        found = tuple(pin for pin in new if pin.number not in known)
        if found:
            await self._store.mark_announced(project, [pin.number for pin in found])
        return found

    async def unpin(self, info: SessionInfo, ref: str, *, by: Author) -> Pin:
        """Release a pin; its text stays findable."""
        now = self._clock.now()
        pin = _pin_of(await self._store.pins(_scope(info), now), ref)
        pinning.check_release(pin, by)
        await self._store.release_pin(_scope(info), pin.number, now)
        return pin

    # Recall

    async def recall(
        self,
        info: SessionInfo | None,
        query: str,
        *,
        scope: Literal["session", "project", "all"] = "session",
        project: str | None = None,
        max_tokens: int | None = None,
        skip: int = 0,
    ) -> Recalled:
        """The passages of the archive that answer a query best; across sessions none need be named.

        What a caller looks up beyond its own project leaves no trace there.
        """
        question = read_query(query, self._clock.now().astimezone())
        if not (question.terms or question.is_narrow):
            raise InputError("the query holds no word to look for; pass words or an identifier.")
        reach = _reach(info, scope, project)
        searched = await self._search(reach, question)
        limit = max_tokens or self._policy.recall_max_tokens
        answered = choose(searched.hits, limit, self._counter.count, skip)
        # Across projects another's session may have the same name.
        if info is not None and scope != "all" and project in (None, info.project):
            own = [hit.ref for hit in answered.hits if hit.session == info.name]
            await self._count_regret(info, [int(ref[1:]) for ref in own if ref.startswith("m")])
        return Recalled(
            hits=answered.hits,
            more=answered.more,
            scope=scope,
            messages=searched.messages,
            too_common=searched.too_common,
            nowhere=searched.nowhere,
            is_full=searched.is_full,
            suggestion=searched.suggestion,
        )

    async def originals(self, info: SessionInfo, refs: str) -> tuple[Original, ...]:
        """Messages, byte for byte: `m42`, `m42~3`, `m12..m40`, or by the id of a tool call."""
        asked = parse_refs(refs)
        if asked.digests or asked.pins:
            raise InputError(f"{refs!r} names more than messages; write m42 or m12..m40.")
        return await self._originals(info, asked)

    async def quote(self, info: SessionInfo, refs: str) -> tuple[Quote, ...]:
        """What refs name, word for word: messages in order, then digests (`d1`), then pins."""
        asked = parse_refs(refs)
        messages = await self._originals(info, asked) if asked.messages or asked.calls else ()
        digests = await self._digests_of(info, asked.digests) if asked.digests else ()
        pins = await self._pins_of(info, asked.pins) if asked.pins else ()
        return (*map(_quote_message, messages), *map(_quote_digest, digests), *pins)

    async def recall_refs(self, info: SessionInfo, refs: str) -> tuple[Quote, ...]:
        """What `quote` gives, as a recall: what had left the window counts as regret."""
        found = await self.quote(info, refs)
        sources = [quote.source for quote in found]
        seqs = [source.message.seq for source in sources if isinstance(source, Original)]
        await self._count_regret(info, seqs)
        return found

    async def page_in(self, info: SessionInfo, refs: str) -> Outcome:
        """Show messages again, whole, from the next request on; the next compaction prefers them.

        For loops that replace their own window, by the refs of messages or ids of tool calls.
        """
        found = [original.message for original in await self.originals(info, refs)]
        for _ in range(_MOST_TRIES):
            session = await self.load(info)
            outcome = await self._threads.run(self._paged_in, session, found)
            if not isinstance(outcome, Compaction):
                return outcome
            gone = await self._store.not_shown(info.id, [message.seq for message in found])
            named = " ".join(f"m{seq}" for seq in gone)
            event = Event(name=REGRET, at=outcome.receipt.at, detail=named) if gone else None
            if await self._store.save(info.id, outcome, event):
                return outcome
        return Failed(text="not paged in: the view changed meanwhile. Call again.")

    async def brief(self, info: SessionInfo) -> Brief:
        """Pins, and the digests of the view as they are shown."""
        session = await self.load(info)
        shown = tuple((digest.ref, render_digest(digest)) for digest in session.digests)
        spoken = [m for m in session.messages if m.text.strip()]
        ends = {m.seq: m for m in (*[m for m in spoken if m.is_request][:1], *spoken[-_NEWEST:])}
        said = tuple((f"{m.ref} {_speaker(m)}", m.text) for m in ends.values())
        return Brief(info=session.info, pins=session.pins, digests=shown, said=said)

    async def digests(self, info: SessionInfo) -> tuple[Digest, ...]:
        """All digests ever made of this session, oldest first."""
        return await self._store.digests(info.id)

    async def receipts(self, info: SessionInfo) -> tuple[Receipt, ...]:
        """What every compaction did, oldest first."""
        return tuple(receipt for receipt, _ in await self._store.receipts(info.id))

    # Owning one's data

    async def twins(self, info: SessionInfo, ref: str, within: Scope) -> Twins:
        """The messages within a scope that would still hold all that a forgotten one said."""
        return await self._store.twins(_scope(info), number_of(ref, "m"), within)

    async def forget(self, scope: Scope, *refs: str) -> Forgotten:
        """Remove messages, or without any a session or a project, so that no byte is left."""
        seqs = [number_of(ref, "m") for ref in refs]
        return await self._store.forget(scope, seqs, self._clock.now())

    async def export(self, info: SessionInfo) -> AsyncIterator[str]:
        """The whole session as JSON lines: a header with all that was derived, then the log."""
        session = await self.load(info)
        header = {
            "session": session.info.model_dump(mode="json"),
            "sections": session.sections.model_dump(mode="json"),
            "view": session.view.model_dump(mode="json"),
            "pins": [p.model_dump(mode="json") for p in await self.pins(info)],
            "digests": [d.model_dump(mode="json") for d in await self.digests(info)],
            "receipts": [r.model_dump(mode="json") for r in await self.receipts(info)],
        }
        yield compact_json(header)
        after = 0
        while page := await self._store.originals(_scope(info), after=after, limit=_MOST_ROWS):
            for original in page:
                yield original.message.raw
            after = page[-1].message.seq

    async def backup(self, target: Path) -> None:
        """Write a sound copy of the whole store to a new file."""
        await self._store.backup(target)

    async def health(self) -> Health:
        """Look the store over."""
        return await self._store.health()

    async def repair(self) -> None:
        """Build the store's search index anew."""
        await self._store.repair()

    async def close(self) -> None:
        """Let go of the store."""
        await self._store.close()

    # How it is done

    def _paged_in(self, session: Session, messages: Sequence[Message]) -> Outcome:
        if not session.info.traits.owns_window:
            return Refusal(
                text="not paged in: this window is the host's, and only the host can show more in "
                "it. Read the messages with recall_archived instead."
            )
        there = messages_shown_whole(session)
        missing = [message for message in messages if message.seq not in there]
        if not missing:
            return NothingToDo(text="nothing to do: the window shows all of that whole. Go on.")
        view = show_again(session, missing)
        seen = session.model_copy(update={"view": view})
        before, after = self.fill_of(session), self.fill_of(seen)
        refs = ", ".join(message.ref for message in missing)
        if after.tokens > after.window:
            return Refusal(
                text=f"not paged in: with {refs} the window would hold {kilo(after.tokens)} of "
                f"{kilo(after.window)} tokens. Compress first, or ask for less."
            )
        return paging_in(session, view, refs, (before, after), self._clock.now())

    async def _read_window(self, info: SessionInfo) -> Reading:
        """How full the window is, measured without loading the session."""
        is_pressed = (await self._allowance(info)).is_near

        def rules_for(session: Session) -> Policy:
            return self._rules(session.model_copy(update={"is_pressed": is_pressed}))

        return await self._gauge.read(info.id, self._clock.now(), rules_for)

    def _rules(self, session: Session) -> Policy:
        policy = for_session(self._policy, session.info.traits)
        if session.is_pressed:
            policy = policy.model_copy(update={"budget_pressure": True})
        return under_pressure(policy)

    async def _allowance(self, info: SessionInfo) -> Allowance:
        """What may still be asked of models for this session."""
        if self._limits == Limits():
            return Allowance()
        hour_ago = self._clock.now() - timedelta(hours=1)
        session = await self._store.spent(info.id)
        return allowance_of(session, await self._store.spent(None, hour_ago), self._limits)

    async def _compress(self, info: SessionInfo, ask: Ask, progress: Progress) -> Outcome:
        drafts: Drafts = []
        for _ in range(_MOST_TRIES):
            await progress("reading the session")
            session = await self.load(info)
            if not session.messages and ask.digest is None:
                raise NothingRecorded(
                    f"nothing is recorded in {info.name}; pass your own digest, or record messages "
                    "first."
                )
            _check_span(ask, session)
            outcome = await self._drive(session, ask, progress, drafts)
            if not isinstance(outcome, Compaction):
                return outcome
            offered = await self._offer(session, _MOST_OFFERED_ON_RECEIPT)
            receipt = outcome.receipt.model_copy(update={"offer": offered})
            outcome = outcome.model_copy(update={"receipt": receipt})
            await progress("saving")
            done = Event(name=COMPLETED, at=self._clock.now(), detail=outcome.receipt.ref)
            if await self._store.save(info.id, outcome, done):
                return outcome
        return Failed(
            text=f"not compressed: the view of {info.name} changed {_MOST_TRIES} times meanwhile; "
            "the session is as it was. Call again."
        )

    async def _drive(
        self, session: Session, ask: Ask, progress: Progress, drafts: Drafts
    ) -> Outcome:
        """Run the flow, answering what it asks for."""
        running = self._flow(session, ask)
        has_fallen = False
        request = await self._threads.run(_advance, running, None)
        while not isinstance(request, _Returned):
            await progress(_doing(request))
            if has_fallen and isinstance(request, SummaryRequest):
                # Who failed once in a compaction is not waited for again.
                answer = await self._threads.run(extract, request)
            else:
                answer = await self._answer(session, request, drafts)
            if isinstance(answer, Draft) and answer.note and answer.author == "extractive":
                has_fallen = True
            request = await self._threads.run(_advance, running, answer)
        return request.outcome

    def _flow(self, session: Session, ask: Ask) -> Flow:
        rules, count = self._rules(session), self._counter.count
        return flow(session, rules, ask, self._clock.now(), count, self._counter.precision)

    async def _answer(
        self, session: Session, request: SummaryRequest | SearchRequest, drafts: Drafts
    ) -> Draft | Found:
        match request:
            case SummaryRequest():
                known = next((draft for asked, draft in drafts if asked == request), None)
                draft = known or await self._summarize(session.info, request)
                if known is None:
                    drafts.append((request, draft))
                return draft
            case SearchRequest():
                queries = await self._threads.run(_queries_of, request)
                hits = await self._store.search_many(_scope(session.info), queries, request.limit)
                return Found(hits=hits)
            case _:
                assert_never(request)

    async def _summarize(self, info: SessionInfo, request: SummaryRequest) -> Draft:
        left = await self._allowance(info)
        if left.refusal:
            note = f"no model was asked: {left.refusal}; extracted instead"
            draft = await self._extract(request, note)
        else:
            limits = {"calls_left": left.calls_left, "cost_left": left.cost_left}
            draft = await self._drafted(request.model_copy(update=limits))
        if draft.calls:
            # They were paid for, whatever becomes of this compaction.
            await self._store.add_calls(info.id, draft.calls, self._clock.now())
        if draft.note:
            await self._note(info, FALLBACK, draft.note)
        return draft

    async def _drafted(self, request: SummaryRequest) -> Draft:
        try:
            return await self._summarizer.summarize(request)
        except (MemoryError, RecursionError):
            raise
        except SummarizerError as error:
            note = f"{self._summarizer.name} failed: {error}; extracted instead"
            return await self._extract(request, note, error.calls)
        except Exception as error:  # noqa: BLE001  # a summarizer may fail in any way it likes
            logger.warning("%s failed: %r", self._summarizer.name, error)
            # The error's own words may come from anywhere: the log has them, the receipt does not.
            note = f"{self._summarizer.name} failed ({type(error).__name__}); extracted instead"
            return await self._extract(request, note)

    async def _extract(
        self, request: SummaryRequest, note: str, calls: tuple[ModelCall, ...] = ()
    ) -> Draft:
        """A draft by rules in place of another's, with the reason."""
        draft = await self._threads.run(extract, request)
        return draft.model_copy(update={"note": note, "calls": calls})

    async def _offer(self, session: Session, most: int) -> Offer:
        """The rules nobody has pinned; one that the user released is not missed.

        A pin of an agent's that is over says nothing: with it an agent could drop a user's rule.
        """
        now, scope = self._clock.now(), _scope(session.info)
        in_force = await self._store.pins(scope, now)
        ended = await self._store.pins(scope, now, released=True)
        known = [*in_force, *(pin for pin in ended if pin.author == "user")]
        return await self._threads.run(suggest_pins, session.messages, session.digests, known, most)

    async def _count_regret(self, info: SessionInfo, seqs: Sequence[int]) -> None:
        gone = await self._store.not_shown(info.id, seqs) if seqs else ()
        if gone:
            await self._note(info, REGRET, " ".join(f"m{seq}" for seq in gone))

    async def _originals(self, info: SessionInfo, asked: Refs) -> tuple[Original, ...]:
        scope = _scope(info)
        of_calls = await self._store.messages_of_calls(scope, asked.calls) if asked.calls else ()
        unknown = [call for call, seqs in zip(asked.calls, of_calls, strict=True) if not seqs]
        if unknown:
            raise UnknownRef(f"no ref or tool call {', '.join(unknown)} in {info.name}; {HOW}")
        seqs = sorted({*asked.seqs, *(seq for seqs in of_calls for seq in seqs)})
        found = await self._store.originals(scope, seqs)
        missing = _missing(asked.messages, found)
        if missing:
            raise UnknownRef(
                f"no message {', '.join(missing)} in {info.name}, which has {info.messages}; "
                "search by words instead."
            )
        return found

    async def _digests_of(self, info: SessionInfo, numbers: Sequence[int]) -> tuple[Digest, ...]:
        known = {digest.number: digest for digest in await self.digests(info)}
        unknown = ", ".join(f"d{number}" for number in numbers if number not in known)
        if unknown:
            listed = ", ".join(digest.ref for digest in known.values()) or "none yet"
            raise UnknownRef(f"no digest {unknown} in {info.name}; there are: {listed}.")
        return tuple(known[number] for number in numbers)

    async def _pins_of(self, info: SessionInfo, numbers: Sequence[int]) -> tuple[Quote, ...]:
        """Pins that hold or once held in this session: a release leaves the text findable."""
        now = self._clock.now()
        in_force = await self._store.pins(_scope(info), now)
        ever = await self._store.pins(_scope(info), now, released=True)
        known = {pin.number: pin for pin in ever}
        unknown = ", ".join(f"p{number}" for number in numbers if number not in known)
        if unknown:
            listed = ", ".join(pin.ref for pin in in_force) or "none"
            raise UnknownRef(f"no pin {unknown} in {info.name}; in force are: {listed}.")
        return tuple(_quote_pin(known[n], known[n] in in_force) for n in numbers)

    async def _saying(self, info: SessionInfo, text: str) -> Saying | None:
        """Where the user said it, in the window or anywhere in this session's archive."""
        found = await self._store.requests_with(_scope(info), text, _MOST_SOURCES)
        return saying_of(text, [original.message for original in found])

    async def _search(self, scope: Scope, question: Question) -> SearchResult:
        """Drive a recall: the store answers what it asks."""
        steps = search(question)
        request = next(steps)
        while True:
            match request:
                case Find():
                    answer = await self._store.find(scope, request.query)
                case Read():
                    answer = await self._store.read(scope, request.query, request.passages)
                case ListAll():
                    answer = await self._store.listed(scope, request.query, request.limit)
            try:
                request = steps.send(answer)
            except StopIteration as done:
                return done.value

    async def _note(self, info: SessionInfo, name: str, detail: str) -> None:
        event = Event(name=name, at=self._clock.now(), detail=detail)
        try:
            await self._store.add_event(info.id, event)
        except StoreError as error:  # what is being reported matters more than the report
            logger.warning("%s could not be noted: %s", name, error)


class _Returned(NamedTuple):
    """What a flow came to; a thread cannot raise StopIteration to a coroutine."""

    outcome: Outcome


def _advance(
    running: Flow, answer: Draft | Found | None
) -> SummaryRequest | SearchRequest | _Returned:
    """The next request of a flow, or what it came to."""
    try:
        return next(running) if answer is None else running.send(answer)
    except StopIteration as stop:
        return _Returned(stop.value)


def _queries_of(request: SearchRequest) -> list[SearchQuery]:
    return [SearchQuery(terms=terms_of(text)) for text in request.queries]


def _is_due(window: Reading) -> bool:
    """Whether a window is so full that it is compressed without being asked."""
    return pressure(window.fill, window.rules).level in ("act", "safety net")


def _under_way(info: SessionInfo) -> Refusal:
    return Refusal(
        text=f"not compressed: another compaction of {info.name} has been under way for over "
        f"{_PATIENCE:g} s, and its view will count. Go on; context_stats tells when it is there."
    )


async def _in_silence(_: str) -> None:
    """Nobody wants to know."""


def _doing(request: SummaryRequest | SearchRequest) -> str:
    if isinstance(request, SummaryRequest):
        return f"summarizing m{request.first}..m{request.last}"
    return "checking what recall gives back"


def _speaker(message: Message) -> str:
    is_told = message.role == "user" and message.via == "tool"
    return "user, as the agent told it" if is_told else message.role


def _from_answer_on(messages: Sequence[Message]) -> Sequence[Message]:
    """The newest answer of the model, and what followed it; nothing where there is no answer."""
    answers = [n for n, message in enumerate(messages) if message.role == "assistant"]
    return messages[answers[-1] :] if answers else ()


def _without_ids(messages: Sequence[IncomingMessage]) -> tuple[IncomingMessage, ...]:
    """An agent could claim a host's id first and so keep the real message out."""
    return tuple(message.model_copy(update={"host_id": None}) for message in messages)


def _regret(session: Session, events: Iterable[Event]) -> Regret:
    details = [event.detail for event in events if event.name == REGRET]
    seqs = {int(seq) for detail in details for seq in re.findall(r"\bm(\d+)", detail)}
    shown = {message.seq for message in session.messages}
    shown |= {one.seq for one in wanted_excerpts(session.view.promoted)}
    return Regret(
        recalls=len(details),
        recalled=len(seqs - shown),
        dropped=session.info.messages - len(shown),
    )


def _scope(info: SessionInfo) -> Scope:
    return Scope(project=info.project, session=info.id)


def _reach(
    info: SessionInfo | None, scope: Literal["session", "project", "all"], project: str | None
) -> Scope:
    match scope:
        case "all":
            return Scope(project=None)
        case "project" if project is not None or info is not None:
            return Scope(project=project or (info.project if info else None))
        case "session" if info is not None:
            return _scope(info)
        case _:
            raise InputError("name the session to look in, or the project.")


def masked(ask: Ask) -> Ask:
    """The request without the secrets in its texts."""
    texts = {"reason": ask.reason, "digest": ask.digest, "focus": ask.focus}
    return ask.model_copy(
        update={name: redact(text).text for name, text in texts.items() if text is not None}
    )


def check_ask(ask: Ask) -> None:
    """Refuse what can be seen to be wrong before anything is looked at."""
    if not ask.reason.strip():
        raise InputError("the reason is blank; say in a few words why now.")
    if ask.target_percent is not None and not 0 < ask.target_percent < 100:
        raise InputError(
            f"{ask.target_percent:g} is no target; pass a percentage above 0 and below 100."
        )
    if ask.digest is not None and not ask.digest.strip():
        raise InputError("the digest is blank; leave it out, or write lines under its headings.")


def _check_span(ask: Ask, session: Session) -> None:
    newest = max((m.seq for m in session.messages), default=0)
    if ask.span is not None and ask.span[1] > newest:
        raise UnknownRef(f"m{ask.span[1]} is not recorded; the newest message is m{newest}.")


def _pin_of(pins: Sequence[Pin], ref: str) -> Pin:
    number = number_of(ref, "p")
    for pin in pins:
        if pin.number == number:
            return pin
    known = ", ".join(pin.ref for pin in pins) or "none"
    raise UnknownRef(f"no pin {ref} in force here; there are: {known}.")


def _quote_message(original: Original) -> Quote:
    said = original.message
    text = whole_text(said)
    return Quote(ref=said.ref, of=_speaker(said), at=said.at, text=text, source=original)


def _quote_digest(digest: Digest) -> Quote:
    text = render_digest(digest)
    return Quote(ref=digest.ref, of="digest", at=digest.ended, text=text, source=digest)


def _quote_pin(pin: Pin, in_force: bool) -> Quote:
    what = f"{pin.kind.replace('_', ' ')}, {pin.scope}, by {pin.author}"
    of = what if in_force else f"{what}, no longer in force"
    return Quote(ref=pin.ref, of=of, at=pin.at, text=pin.text, source=pin)


def _missing(asked: Iterable[Ref], found: Iterable[Original]) -> list[str]:
    there = {original.message.seq for original in found}
    return [ref.text for ref in asked if not there.intersection(range(ref.first, ref.last + 1))]

"""The workspace that the compactor's verbs share: what it is made of, and how to read a session.

The verbs are functions on it, so that each module can be read without the others.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from mcp_compaction.core.digest.allowance import Allowance, Limits, allowance_of
from mcp_compaction.core.policy import Policy, for_session, under_pressure, with_reserve
from mcp_compaction.errors import StoreError
from mcp_compaction.model import Event
from mcp_compaction.ports import Scope
from mcp_compaction.threads import Threads

if TYPE_CHECKING:
    from mcp_compaction.compactor.gauge import FillReading, Gauge
    from mcp_compaction.compactor.histories import KnownHistory
    from mcp_compaction.core.tokens import CountTokens
    from mcp_compaction.core.window.fill import Fill
    from mcp_compaction.formats.thinking import Bindings
    from mcp_compaction.model import Compaction, Grade, Pin, Session, SessionInfo, Traits, View
    from mcp_compaction.ports import Clock, Past, Store, Summarizer, TokenCounter

K = TypeVar("K")
V = TypeVar("V")

_MOST_KNOWN = 64  # sessions, chats or the like

Progress = Callable[[str], Awaitable[None]]
logger = logging.getLogger(__name__)

MOST_ROWS = 1_000  # a longer transaction would make other processes wait
MOST_TRIES = 3  # to save a view that others change meanwhile


class Newest(dict[K, V]):
    """The values that were kept last, by their keys; the newest is the last."""

    def keep(self, key: K, value: V) -> V | None:
        """Keep a value as the newest one; gives the oldest where there are too many."""
        self.pop(key, None)
        self[key] = value
        return self.pop(next(iter(self))) if len(self) > _MOST_KNOWN else None


async def ignore_progress(_: str) -> None:
    """Take a report of progress that nobody wants to read."""


@dataclass(eq=False)
class Workspace:
    """The parts that a compactor works with, and the readings that several of its verbs need."""

    store: Store
    summarizer: Summarizer
    counter: TokenCounter
    clock: Clock
    policy: Policy
    mask_secrets: bool = True
    limits: Limits = field(default_factory=Limits)
    # Whether the user counts the prompts of programs in a project as their own.
    trusts_headless: Callable[[str], bool] = lambda _: False
    threads: Threads = field(default_factory=Threads, init=False)
    # The models of sessions that write their own handovers, by session.
    own_models: dict[int, Summarizer] = field(default_factory=dict[int, "Summarizer"], init=False)
    # Compactions made before they are due, by session: `relieve` saves one then, unless the view
    # is another by that time.
    ready: dict[int, Compaction] = field(default_factory=dict[int, "Compaction"], init=False)

    # What is known of the newest sessions, by their numbers: the histories that callers sent, that
    # which came first; their thinking; the pins that their messages were found to tell of, and the
    # start of the history that these stand in; the grade of their last compaction, and when.
    histories: Newest[int, tuple[KnownHistory, ...]] = field(
        default_factory=Newest[int, "tuple[KnownHistory, ...]"], init=False
    )
    thinking: Newest[int, Bindings] = field(default_factory=Newest[int, "Bindings"], init=False)
    grades: Newest[int, tuple[object, Grade | None]] = field(
        default_factory=Newest[int, "tuple[object, Grade | None]"], init=False
    )
    said_pins: Newest[int, tuple[object, frozenset[int]]] = field(
        default_factory=Newest[int, tuple[object, frozenset[int]]], init=False
    )

    @cached_property
    def _gauge(self) -> Gauge:
        from mcp_compaction.compactor.gauge import Gauge

        return Gauge(self.store, self.counter)

    def now(self) -> datetime:
        """The present moment, in UTC."""
        return self.clock.now()

    async def load(
        self, info: SessionInfo, view: View | None = None, *, to_digest: bool = False
    ) -> Session:
        """The session at this moment, seen through its newest view or through the one given.

        `to_digest`: with all that counts as the words of its model.
        """
        return await self._as_loaded(await self.store.load(info.id, self.now(), view), to_digest)

    async def load_with_past(
        self, info: SessionInfo, view: View | None = None, *, to_digest: bool = False
    ) -> tuple[Session, Past]:
        """What `load` gives, with what happened to the session until the same moment."""
        session, past = await self.store.load_with_past(info.id, self.now(), view)
        return await self._as_loaded(session, to_digest), past

    async def load_change(
        self, info: SessionInfo, wants_earlier: Callable[[Session], bool]
    ) -> tuple[Session, Session | None]:
        """The session at this moment, and where that is wanted as the view before showed it."""
        now, had = await self.store.load_change(info.id, self.now(), wants_earlier)
        return await self._as_loaded(now), had

    async def _as_loaded(self, session: Session, to_digest: bool = False) -> Session:
        """A session as verbs need it: with its budget, and all that counts as its model's words."""
        from mcp_compaction.lexicon.models import rule_of

        if to_digest and rule_of(session.info.traits.model or "") == "bound":
            from mcp_compaction.formats.thinking import hear_thinking

            session = session.model_copy(update={"messages": hear_thinking(session.messages)})
        left = await self.allowance(session.info)
        return session.model_copy(update={"is_pressed": True}) if left.is_near else session

    async def pins(self, info: SessionInfo) -> tuple[Pin, ...]:
        """The pins in force in a session, notes included."""
        return await self.store.pins(scope_of(info), self.now())

    async def project_pins(self, project: str) -> tuple[Pin, ...]:
        """The pins that every session of a project starts with: rules, open tasks and facts."""
        found = await self.store.pins(Scope(project=project), self.now())
        return tuple(pin for pin in found if pin.scope != "session" and pin.kind != "note")

    async def read_window(self, info: SessionInfo) -> FillReading:
        """The fill of the window, measured without loading the session."""
        is_pressed = (await self.allowance(info)).is_near

        def policy_for(session: Session) -> Policy:
            return self.policy_by(session.info.traits, is_pressed)

        return await self._gauge.read(info.id, self.now(), policy_for)

    async def load_window(self, info: SessionInfo) -> Session:
        """The session at this moment without its messages: its view, and the pins in force."""
        return await self._gauge.load(info.id, self.now())

    def policy_for(self, session: Session) -> Policy:
        """The policy by which this session acts: its own traits, budget and reserve applied."""
        return self.policy_by(session.info.traits, session.is_pressed)

    def policy_by(self, traits: Traits, is_pressed: bool) -> Policy:
        """The policy of a session with these traits; `is_pressed`: its calls are nearly used up."""
        policy = for_session(self.policy, traits)
        if is_pressed:
            policy = policy.model_copy(update={"budget_pressure": True})
        return with_reserve(under_pressure(policy))

    async def allowance(self, info: SessionInfo) -> Allowance:
        """The model calls and cost still allowed for this session."""
        if self.limits == Limits():
            return Allowance()
        hour_ago = self.now() - timedelta(hours=1)
        session = await self.store.spent(info.id)
        return allowance_of(session, await self.store.spent(None, hour_ago), self.limits)

    def fill_of(self, session: Session) -> Fill:
        """The fill of a loaded session's window."""
        from mcp_compaction.core.window.fill import measure

        policy = self.policy_for(session)
        return measure(session, policy, self.counter.count, self.counter.precision)

    def index_terms(self, session: Session) -> tuple[int, CountTokens]:
        """The largest size of the index, and the function that counts it."""
        return self.policy_for(session).index_limit, self.counter.count

    async def note(self, info: SessionInfo, name: str, detail: str) -> None:
        """Note an event; a store that cannot keep it does not stop what is going on."""
        event = Event(name=name, at=self.now(), detail=detail)
        try:
            await self.store.add_event(info.id, event)
        except StoreError as error:
            logger.warning("%s could not be noted: %s", name, error)


def scope_of(info: SessionInfo) -> Scope:
    """The scope that holds one session only."""
    return Scope(project=info.project, session=info.id)

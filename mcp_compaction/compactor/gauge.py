"""Measures windows without reading their messages (what is known of a view is not counted anew),
and has the statistics of a session as values.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from pydantic import Field

from mcp_compaction.compactor.results import HeldCalls
from mcp_compaction.core.compaction.receipt import (
    describe_fill,
    projection_text,
    would_not_pay,
)
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.window.fill import Fill, PartName, Pressure, measure, pressure
from mcp_compaction.core.wording import plural
from mcp_compaction.model import (
    Grade,
    Offer,
    Outcome,
    Pin,
    Receipt,
    Session,
    SessionInfo,
    Spent,
    Value,
)
from mcp_compaction.ports import Store, TokenCounter, WindowCount
from mcp_compaction.threads import Threads

_MOST_KNOWN = 256  # windows a process remembers
_OF_THE_VIEW: tuple[PartName, ...] = ("digests", "index", "promoted")

PolicyFor = Callable[[Session], Policy]


class FillReading(NamedTuple):
    """The fill of a window, with its policy and the number of messages it shows."""

    session: Session  # without its messages
    policy: Policy
    fill: Fill
    messages: int
    news: tuple[Pin, ...]  # for its project, that no other session there was told of yet

    @property
    def fill_shown(self) -> Fill | None:
        """The fill; None where the window shows no message."""
        return self.fill if self.messages else None

    @property
    def pressure(self) -> Pressure:
        """The pressure that the fill makes."""
        return pressure(self.fill, self.policy)


class _Known(NamedTuple):
    """A window as it was last counted, without the texts of its view, and what those take."""

    window: WindowCount
    policy: Policy
    texts: dict[PartName, int]


class Gauge:
    """Measures the windows of a store; a reading costs what came since the one before."""

    def __init__(self, store: Store, counter: TokenCounter) -> None:
        self._store = store
        self._counter = counter
        self._threads = Threads()
        self._known: dict[int, _Known] = {}

    async def read(self, session: int, now: datetime, policy_for: PolicyFor) -> FillReading:
        """The fill of a session's window now."""
        known = self._known.get(session)
        window = await self._store.count_window(session, now, known.window if known else None)
        policy = policy_for(window.session)
        if known is not None and known.policy != policy:
            known = None
            window = await self._store.count_window(session, now)
        if known is not None and known.window.session.view.version == window.session.view.version:
            texts = known.texts
            fill = await self._threads.run(self._fill, window, policy, texts)
        else:
            texts, fill = await self._threads.run(self._count, window, policy)
        self._remember(session, _Known(_without_texts(window), policy, texts))
        return FillReading(window.session, policy, fill, window.messages, window.news)

    async def load(self, session: int, now: datetime) -> Session:
        """A session without its messages, and without measuring it."""
        known = self._known.get(session)
        counted = await self._store.count_window(session, now, known.window if known else None)
        return counted.session

    def _count(self, window: WindowCount, policy: Policy) -> tuple[dict[PartName, int], Fill]:
        parts = dict(self._measure(window.session, policy).parts)
        texts: dict[PartName, int] = {name: parts[name] for name in _OF_THE_VIEW}
        return texts, self._fill(window, policy, texts)

    def _fill(self, window: WindowCount, policy: Policy, texts: dict[PartName, int]) -> Fill:
        fill = self._measure(_without_texts(window).session, policy)
        messages = window.tokens + policy.overhead_per_message * window.messages
        counted: dict[PartName, int] = {**texts, "messages": messages}
        parts = tuple((name, counted.get(name, tokens)) for name, tokens in fill.parts)
        return fill.model_copy(update={"parts": parts})

    def _measure(self, session: Session, policy: Policy) -> Fill:
        return measure(session, policy, self._counter.count, self._counter.precision)

    def _remember(self, session: int, known: _Known) -> None:
        self._known.pop(session, None)
        self._known[session] = known
        if len(self._known) > _MOST_KNOWN:
            del self._known[next(iter(self._known))]


def _without_texts(window: WindowCount) -> WindowCount:
    """The count without the digests and excerpts of its view."""
    view = window.session.view.model_copy(update={"body": (), "promoted": ()})
    session = window.session.model_copy(update={"view": view, "digests": ()})
    return window.model_copy(update={"session": session})


class Regret(Value):
    """The number of messages that left the window, and how many were recalled."""

    recalls: int = 0  # how often something of it was given back
    recalled: int = 0  # of how many messages; it never falls, also where they are shown again
    dropped: int = 0  # how many messages are outside the window, or were and came back by that


class Stats(Value):
    """The statistics of a session's window."""

    info: SessionInfo
    fill: Fill
    pressure: Pressure
    would_free: Outcome
    pins: tuple[Pin, ...]
    shown: int = 0  # messages in the window
    unread: int = 0  # of these; only where they are more than a window holds
    digests: int
    events: tuple[tuple[str, int], ...]
    last: Receipt | None
    offer: Offer
    regret: Regret
    grade: Grade | None = None  # of the last compaction, by what came after it
    system: Spent = Field(default_factory=Spent)  # what summarizers took for it
    last_fall: str = ""  # why a digest was last written by another than was to write it
    paid: str = ""  # what a gateway last told of its calls and compactions, in lines
    is_pressed: bool = False  # a limit on model calls is near: budget pressure
    held: tuple[HeldCalls, ...] = ()  # by the checks of pins

    def __str__(self) -> str:
        """What a person reads of it: the fill, what compressing would free, pins, the last one."""
        gain = self.would_free
        lines = [
            f"{self.info.name}: {plural(self.info.messages, 'message')}",
            describe_fill(self.fill),
            would_not_pay(gain) if gain.kind != "projection" else projection_text(gain),
            plural(len(self.pins), "pin"),
            *([f"last: {self.last}"] if self.last else []),
        ]
        return "\n".join(lines)

"""The statistics of a session as values, apart from those that need no measure of a window."""

from __future__ import annotations

from pydantic import Field

from mcp_compaction.compactor.results import HeldCalls
from mcp_compaction.core.window.fill import Fill, Pressure
from mcp_compaction.model import Offer, Outcome, Pin, Receipt, SessionInfo, Spent, Value


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
    system: Spent = Field(default_factory=Spent)  # what summarizers took for it
    last_fall: str = ""  # why a digest was last written by another than was to write it
    paid: str = ""  # what a gateway last told of its calls and compactions, in lines
    is_pressed: bool = False  # a limit on model calls is near: budget pressure
    held: tuple[HeldCalls, ...] = ()  # by the checks of pins

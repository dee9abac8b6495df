"""A session: its traits, its calibration, and all that a decision needs of it."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal

from pydantic import Field

from mcp_compaction.model.messages import Message, Sections, Value
from mcp_compaction.model.outcomes import Receipt
from mcp_compaction.model.view import Digest, Pin, View

# Who can make the window smaller, and what becomes of pins when a host does. own: the caller
# replaces its window by our view. turn: the host takes our view over when the turn ends. host: it
# does when it next compacts. hooks: after the host's own compaction a hook shows the pins again.
# plain: nothing does.
Mode = Literal["own", "turn", "host", "hooks", "plain"]

Complexity = Literal["simple", "medium", "complex", "epic"]
AgentProfile = Literal["plain", "verbose", "deliberative"]

# The host of a session that only holds a pin from a terminal, until the first chat takes it over.
AT_TERMINAL: Final = "terminal"


class Traits(Value):
    """What is set per session: the model, its window, the task's complexity, the agent's manner."""

    model: str | None = None
    window_tokens: int | None = None
    complexity: Complexity | None = None
    agent_profile: AgentProfile | None = None
    owns_window: bool = True  # False: the window is the host's, which shrinks it by itself
    pins_put_back: datetime | None = None  # when a hook last did so after the host's compaction
    # Of a host's window, as its reports tell: what its own prompt and tools take, as the model
    # counts, and how many tokens the model makes of one that we count.
    unseen_tokens: int | None = Field(default=None, exclude_if=lambda found: found is None)
    token_factor: float | None = Field(default=None, exclude_if=lambda found: found is None)
    title: str | None = Field(default=None, exclude_if=lambda found: found is None)  # the host's

    @property
    def mode(self) -> Mode:
        """Who can make the window smaller, and what becomes of pins when a host does."""
        if self.owns_window:
            return "own"
        return "hooks" if self.pins_put_back is not None else "plain"


class Calibration(Value):
    """Real usage against our count of the same window, as the provider last reported it."""

    counted: int = 0
    reported: int = 0


class SessionInfo(Value):
    """A session's name and place, without what was said."""

    id: int
    name: str
    project: str
    agent: str = ""
    host: str = ""
    host_session: str | None = None
    parent: int | None = None
    created: datetime
    updated: datetime
    messages: int = 0
    title: str = ""  # the host's, else the user's first words, in lists
    traits: Traits = Field(default_factory=Traits)


class Session(Value):
    """Everything a decision needs of one session, as it was at one moment."""

    info: SessionInfo
    sections: Sections = Field(default_factory=Sections)
    section_tokens: int = 0  # system, tools, task
    memory_tokens: int = 0
    view: View = Field(default_factory=View)
    messages: tuple[Message, ...] = ()  # those the view shows, in order
    digests: tuple[Digest, ...] = ()  # those the view shows
    pins: tuple[Pin, ...] = ()  # in force in this session, from every scope
    calibration: Calibration = Field(default_factory=Calibration)
    next_digest: int = 1
    next_compaction: int = 1
    last_compaction: Receipt | None = None
    recalled: tuple[Message, ...] = ()  # that left the view and were recalled again and again
    is_pressed: bool = False  # a limit on model calls is near: budget pressure

    @property
    def said_since(self) -> tuple[Message, ...]:
        """The messages that were said since the view was made."""
        return tuple(message for message in self.messages if message.seq > self.view.upto)

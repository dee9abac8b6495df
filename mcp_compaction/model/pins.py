"""Pins, and what is offered to be pinned or kept for later sessions."""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256
from typing import Literal

from pydantic import Field

from mcp_compaction.model.digests import Writer
from mcp_compaction.model.messages import Value

PinKind = Literal["constraint", "open_task", "fact", "note"]
PinScope = Literal["session", "project", "global"]
Author = Literal["user", "agent"]  # who asks for something
# "program": the words of a prompt that a program sent, which outrank no person's.
PinAuthor = Literal["user", "program", "agent"]
# By which way a pin came: typed at a terminal, agreed to in the host's dialog, a prompt the user
# started, found in a recorded message, an agent's own call, a command without a terminal, a
# program, from another store (a machine's on the team's server, the team's on a machine); "": it
# was not noted.
Channel = Literal[
    "terminal", "dialog", "prompt", "message", "tool", "command", "program", "team", ""
]


class Pin(Value):
    """A constraint, open task or fact shown word for word in every view until it is released."""

    number: int
    text: str
    kind: PinKind = "constraint"
    scope: PinScope = "session"
    author: PinAuthor = "agent"
    session: str  # the name of the session it was said in
    at: datetime
    source: str | None = None  # the ref it was said in, where that is known
    context: str = ""  # of words torn out there: what governs them
    expires: datetime | None = None
    channel: Channel = ""
    used: datetime | None = None  # of a project fact: when a session last used it
    checks: str = ""  # what it holds before a tool runs, one check a line

    @property
    def ref(self) -> str:
        """The short id a model can say: `p2`."""
        return f"p{self.number}"

    @property
    def checksum(self) -> str:
        """A tagged hash of the exact text."""
        return "sha256:" + sha256(self.text.encode()).hexdigest()


class NewPin(Value):
    """A pin on its way into the store."""

    text: str
    kind: PinKind
    scope: PinScope
    author: PinAuthor
    source: str | None = None
    context: str = ""  # of words torn out of the source: what governs them
    expires: datetime | None = None
    channel: Channel = ""
    used: datetime | None = None  # of a project fact, which ends unused
    supersedes: int | None = None  # released in the same transaction


class PinChange(Value):
    """What becomes of the pins in force: a new one, and those that are released."""

    new: NewPin | None = None
    releases: tuple[int, ...] = ()


class Candidate(Value):
    """A user's sentence that sounds like a standing constraint, and where it was said."""

    ref: str
    text: str
    is_told: bool = False  # only an agent recorded that the user said it


class FactOffer(Value):
    """Something that a session taught and later ones may need; only the user may keep it."""

    kind: Literal["command", "decision", "finding"]
    ref: str
    text: str
    by: Writer = ""  # a model, where no call proved it
    others: tuple[str, ...] = ()  # further messages that it comes from

    @property
    def id(self) -> str:
        """The short name of the offer, which its words alone decide: `f3a9c1`."""
        return "f" + sha256(self.text.encode()).hexdigest()[:6]


class Offer(Value):
    """Candidates for a pin, the plainest and newest first, and how many more rules there are."""

    candidates: tuple[Candidate, ...] = ()
    more: int = 0
    # What later sessions may need, while the offer is at hand; it is not stored.
    facts: tuple[FactOffer, ...] = Field(default=(), exclude=True)

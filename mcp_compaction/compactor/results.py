"""The values that a compactor takes and gives back."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, NamedTuple

from mcp_compaction.model import (
    Author,
    Channel,
    Digest,
    Hit,
    Item,
    Pin,
    PinKind,
    PinScope,
    RunningJob,
    SessionInfo,
    Value,
    Via,
)
from mcp_compaction.ports import Original

SearchScope = Literal["session", "project", "all"]


class HeldCalls(Value):
    """How often a pin held a call, where, and how often the user let one past it."""

    pin: int
    times: int = 0
    refs: tuple[str, ...] = ()
    allowed: int = 0

    def __str__(self) -> str:
        """The line that tells of it: `p2 held 3 times: m41, m77, m90`."""
        times = "once" if self.times == 1 else f"{self.times} times"
        refs = f": {', '.join(self.refs)}" if self.refs else ""
        allowed = f"; allowed by the user: {self.allowed}" if self.allowed else ""
        return f"p{self.pin} held {times}{refs}{allowed}"


class FitOptions(NamedTuple):
    """What is to be done to a window beside recording what is new."""

    relieve: bool = True  # compress where it is too full
    offload_over_tokens: int | None = None  # the size over which a new result becomes a preview
    microcompact: bool = False  # large results outside the recent turns become previews first
    prints: tuple[bytes, ...] | None = None  # of the messages, where the caller knows them
    is_sent: bool = True  # what is given back: thinking leaves that would be refused
    model: str | None = None  # that will be asked, where the request does not say it
    is_hearsay: bool = False  # whoever sends it, it is only told what the user said
    joins: bool = (
        False  # records with the user's messages beside them, as the Messages API has turns
    )
    shows_late_pins: bool = True  # made outside the chat: False where the caller tells them itself
    beside: bytes = b""  # the fingerprint of what the caller sends beside what it gives here

    @property
    def via(self) -> Via:
        """Whose word it is what the user said."""
        return "tool" if self.is_hearsay else "host"


class PinWish(NamedTuple):
    """The wish to have a text pinned."""

    text: str
    by: Author
    kind: PinKind = "constraint"
    scope: PinScope | None = None  # None: as the author's words hold by default
    supersedes: str | None = None
    expires: datetime | None = None
    channel: Channel | None = None
    ends_unused: bool = False  # a fact for the project, kept for as long as sessions use it


class Pinned(Value):
    """A pin, and what the pinned block costs with it."""

    pin: Pin
    is_new: bool
    block_tokens: int
    whole: str = ""  # where its words are torn out: those that would be the user's


class PastCall(Value):
    """A recorded call that a check would have spoken of."""

    session: str
    ref: str
    verdict: str
    text: str


class Trial(Value):
    """What checks would have done in the recorded past."""

    calls: int
    held: tuple[PastCall, ...] = ()


class Brief(Value):
    """The brief that a fresh window needs to go on with a session."""

    info: SessionInfo
    pins: tuple[Pin, ...]
    digests: tuple[tuple[str, str], ...]  # name and text, oldest first
    said: tuple[tuple[str, str], ...]  # the first request and the newest words, by ref


class Prepared(Value):
    """A preparation that wrote digests; the window shows what it showed before."""

    kind: Literal["prepared"] = "prepared"
    digests: tuple[Digest, ...]  # those written now
    digested_upto: int  # the newest message that a digest stands for
    notes: tuple[str, ...] = ()
    running: tuple[RunningJob, ...] = ()  # in the background, while it was made


class HostSummary(Value):
    """What became of a conversation in a host's own summary of it."""

    rules: int  # rules, open tasks and pins that were to stay
    lost: tuple[Item, ...]  # what neither the window nor the archive's search gives back


class Recalled(Value):
    """Passages of the archive, and how many more there are."""

    hits: tuple[Hit, ...]
    more: int
    after: int  # passages of the ranking to skip for the next answer
    in_window: tuple[str, ...] = ()  # refs of those that the caller may see anyway
    scope: SearchScope
    messages: int  # among which it was looked for
    too_common: tuple[str, ...] = ()  # words of which only the newest places were ranked
    nowhere: tuple[str, ...] = ()  # words that stand nowhere there
    is_full: bool = False  # there are more than were ranked
    suggestion: str | None = None  # a query that would find something, where this one did not
    is_undated: bool = False  # a day was asked for, and of some only that of recording is known


class Quote(Value):
    """The text of a ref, word for word: a message, a digest or a pin."""

    ref: str
    of: str  # whose words, or what it is
    at: datetime | None
    text: str
    source: Original | Digest | Pin

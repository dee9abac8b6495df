"""The values that a compactor takes and gives back, and the names of the events that it notes in a
session's history; a caller's arguments become the request for a compaction, or are refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError

from mcp_compaction.core.text.refs import parse_span
from mcp_compaction.errors import InputError
from mcp_compaction.model import (
    Ask,
    Author,
    Channel,
    Digest,
    Item,
    Pin,
    PinKind,
    PinScope,
    RunningJob,
    SearchResult,
    SessionInfo,
    Value,
    Via,
)
from mcp_compaction.ports import HOST_COMPACTED as HOST_COMPACTED
from mcp_compaction.ports import Event, Original

COMPLETED = "CONTEXT_BUDGET_COMPACTION_COMPLETED"
FAILED = "CONTEXT_BUDGET_COMPACTION_FAILED"
SAFETY_NET = "CONTEXT_BUDGET_COMPACTION_SAFETY_NET"
HOST_SUMMARY_CHECKED = "CONTEXT_BUDGET_HOST_SUMMARY_CHECKED"  # its detail: what it had lost
REGRET = "CONTEXT_BUDGET_COMPACTION_REGRET"  # its detail: the refs that had to be recalled
OFFLOADED = "CONTEXT_BUDGET_RESULT_OFFLOADED"  # its detail: the refs of what became a preview
SHORTENED = "CONTEXT_BUDGET_RESULT_SHORTENED"  # its detail: the refs of stale results
PAID = "CONTEXT_BUDGET_GATEWAY_RECEIPT"  # its detail: what a provider counted, in lines
FACT_TOLD = "CONTEXT_BUDGET_FACT_TOLD"  # in stores of earlier versions
FACT_DECLINED = "CONTEXT_BUDGET_FACT_DECLINED"  # its detail: the id of the offer
MASKED = "CONTEXT_BUDGET_SECRET_MASKED"  # its detail: the digests of a value that was masked
THINKING_REFUSED = "CONTEXT_BUDGET_THINKING_REFUSED"  # its detail: how many blocks left
THINKING_REMOVED = "ANSWERS_WITH_THINKING_LEFT_OUT_BY_THE_PROVIDER_({})"  # and its reason
# At the moment of a prompt that a program sent; its detail: the ref of one without a moment.
HEADLESS = "CONTEXT_BUDGET_HEADLESS_PROMPT"
RECORDING = "CONTEXT_BUDGET_RECORDING"  # its detail: off, or on again
FALLBACK = "CONTEXT_BUDGET_COMPACTION_FALLBACK"  # its detail: why a summarizer gave no digest

SearchScope = Literal["session", "project", "all"]


def count_recalls(events: Iterable[Event]) -> Counter[int]:
    """How many recalls brought back each message that had left the window."""
    details = [event.detail for event in events if event.name == REGRET]
    return Counter(int(seq) for detail in details for seq in {*re.findall(r"\bm(\d+)", detail)})


def paid_in(events: Sequence[Event]) -> str:
    """What the last gateway of a session has told; empty: there was none."""
    return next((one.detail for one in reversed(events) if one.name == PAID), "")


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


class Recalled(SearchResult):
    """Passages of the archive, as many as one answer holds, and how many more there are."""

    more: int
    after: int  # passages of the ranking to skip for the next answer
    in_window: tuple[str, ...] = ()  # refs of those that the caller may see anyway
    scope: SearchScope


class Quote(Value):
    """The text of a ref, word for word: a message, a digest or a pin."""

    ref: str
    of: str  # whose words, or what it is
    at: datetime | None
    text: str
    source: Original | Digest | Pin


def make_ask(*, span: str | None = None, **given: Any) -> Ask:
    """The request of a caller's arguments; `span` as it is written, m12..m40."""
    if span is not None and not isinstance(span, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"span is {span!r}; write it as m12..m40.")
    try:
        ask = Ask(span=parse_span(span) if span is not None else None, **given)
    except ValidationError as error:
        fault = error.errors()[0]
        name, value = ".".join(map(str, fault["loc"])), fault["input"]
        raise InputError(
            f"{name} is {value!r}: {fault['msg'].lower()}; pass another value, or leave it out."
        ) from None
    check_ask(ask)
    return ask


def check_ask(ask: Ask) -> None:
    """Refuse what can be seen to be wrong before anything is looked at."""
    if not ask.reason.strip():
        raise InputError("the reason is blank; say in a few words why now.")
    if ask.target_percent is not None and not 0 < ask.target_percent < 100:
        raise InputError(
            f"{ask.target_percent:g} is no target; pass a percentage above 0 and below 100."
        )
    if ask.room_tokens is not None and ask.room_tokens <= 0:
        raise InputError(f"{ask.room_tokens} is no room; pass how many tokens shall be free.")
    if ask.room_tokens is not None and (ask.target_percent is not None or ask.span is not None):
        raise InputError("room_tokens says how far to go by itself; leave out the other.")
    if ask.digest is not None and not ask.digest.strip():
        raise InputError("the digest is blank; leave it out, or write lines under its headings.")

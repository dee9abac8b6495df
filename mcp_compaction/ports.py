"""What the compactor needs from outside, as small Protocols."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

from pydantic import AfterValidator, Field

from mcp_compaction.core.text.paths import without_surrogates
from mcp_compaction.model import (
    Calibration,
    Compaction,
    Digest,
    Draft,
    Event,
    Hit,
    Logged,
    Matches,
    Message,
    ModelCall,
    NewMessage,
    Pin,
    PinChange,
    Precision,
    Receipt,
    SearchQuery,
    Sections,
    Session,
    SessionInfo,
    Spent,
    SummaryRequest,
    Traits,
    Twins,
    Value,
    Via,
    View,
    Worth,
)

if TYPE_CHECKING:
    from mcp_compaction.checks.file import HeldNote

Project = Annotated[str, AfterValidator(without_surrogates)]  # a folder's name may be no text
HOST_COMPACTED = "CONTEXT_BUDGET_HOST_COMPACTED"  # its detail: what for, tokens before and after
OUR_VIEW = "our view"  # begins the detail of one that the host made with our view
EARLIER_VIEWS = 10  # that a store keeps before the newest, beside those that a receipt goes back to


class Scope(Value):
    """How far a query may see; every query of a store goes through one."""

    project: Project | None  # None: every project, and only when that was asked for
    session: int | None = None


class SessionKey(Value):
    """What makes a session the same session: its name, or the host's own id for it."""

    project: Project
    name: str | None = None  # None: one is made up
    agent: str = ""
    host: str = ""
    host_session: str | None = None
    parent: int | None = None


class Mark(Value):
    """The place up to which a transcript is recorded."""

    address: str  # hash of where the transcript is
    position: int  # what comes before it is recorded
    tail: str  # what stands just before the position, to see whether it is still there


class KnownTranscript(Value):
    """A transcript that was recorded before, and its session unless that was forgotten."""

    mark: Mark
    session: SessionInfo | None


class Placed(Value):
    """Where a batch goes that was laid beside the log already, and the view that comes of it."""

    newest: int  # the newest message of the log then; with another one nothing is appended
    follows: tuple[int, ...]  # for each message of the batch the one that it follows
    base_version: int
    view: View | None = None  # None: the view stays
    same: tuple[int, ...] = ()  # known messages that came again, word for word


class Batch(Value):
    """Messages to append, with what came beside them."""

    messages: tuple[NewMessage, ...]
    counter: str  # the id of the counter behind each message's tokens
    after: int | None = None  # the number of the known message they follow
    whole: bool = False  # the caller sent the history from its start
    sections: Sections | None = None
    section_tokens: int = 0
    memory_tokens: int = 0
    via: Via = "host"
    has_ids: bool = False  # every message is known by its host id, whatever its content
    mark: Mark | None = None  # saved with the messages, or neither is
    events: tuple[Event, ...] = ()
    placed: Placed | None = None  # None: the store finds out where it goes
    # Of the window with these messages, by the view of `placed.base_version`: no other takes it.
    calibration: Calibration | None = None


class Recorded(Value):
    """The numbers of a batch's messages in the log, in order, and how many are new."""

    seqs: tuple[int, ...]
    new: int
    diverged: int | None = None  # the first known message that what came contradicts
    masked: dict[str, int] = Field(default_factory=dict[str, int])  # secrets taken out, by kind
    ours: tuple[int, ...] = ()  # places of a whole history at which records of ours stand
    cut: tuple[int, ...] = ()  # and those of messages as a view of ours shows them shorter

    @property
    def refs(self) -> tuple[str, ...]:
        """The refs of the messages, in order: `m41`, `m42`."""
        return tuple(f"m{seq}" for seq in self.seqs)


class PinFacts(Value):
    """What decides about a pin, read at one moment."""

    info: SessionInfo
    said: tuple[Message, ...]  # user messages that may hold its words
    events: tuple[Event, ...]  # of the names that were asked for


class Original(Value):
    """One message of the log as it was recorded."""

    session: str
    message: Message


class WindowCount(Value):
    """What a window holds, counted without reading its messages."""

    session: Session  # without messages, sections and receipt; its view without their entries
    upto: int  # the newest message that is counted
    messages: int  # how many the window shows
    tokens: int  # theirs, as the window shows them
    news: tuple[Pin, ...] = ()  # for its project, that no other session there was told of yet


class Past(Value):
    """What happened to a session, and what was pinned in it and offered for pinning until now."""

    events: tuple[Event, ...]
    pins: tuple[Pin, ...]  # in force, notes included
    pins_ever: tuple[Pin, ...]  # with those that are over
    receipts: tuple[Receipt, ...]  # the oldest first
    answers: int  # of its model


class Forgotten(Value):
    """What a forget removed."""

    messages: int = 0
    sessions: int = 0
    pins: int = 0
    digest_lines: int = 0
    kept_pins: tuple[str, ...] = ()  # said in what is forgotten; the user may release them


class Health(Value):
    """What there is to know about the store's state."""

    place: str  # fit to be shown: without a password
    engine: str  # and its version
    schema_version: int
    size_bytes: int
    sessions: int
    messages: int
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what is worth knowing but does no harm here
    masked: dict[str, int] = Field(default_factory=dict[str, int])  # secrets' masks, by kind


class LogPort(Protocol):
    """Sessions and what was said in them: appended to in order, never rewritten."""

    async def open_session(
        self, key: SessionKey, traits: Traits, now: datetime
    ) -> tuple[SessionInfo, bool]:
        """The session of that key, and whether it was made just now."""
        ...

    async def take_over(self, copy: int, key: SessionKey, said: Mapping[str, str]) -> bool:
        """Give a session and its subagents' to a host, where they hold nothing but messages that
        it says: their contents, by the host's ids."""
        ...

    async def find_session(self, scope: Scope, name: str) -> SessionInfo | None:
        """The session of that name in the scope."""
        ...

    async def find_host_session(
        self, project: str, host_session: str, host: str | None = None
    ) -> SessionInfo | None:
        """The session that a host knows by this id of its own."""
        ...

    async def sessions(self, scope: Scope, limit: int) -> tuple[SessionInfo, ...]:
        """The sessions of the scope, the newest first."""
        ...

    async def set_traits(self, session: int, traits: Traits) -> SessionInfo:
        """Set those traits of a session that are named; the others stay as they are."""
        ...

    async def append(self, session: int, batch: Batch, now: datetime) -> Recorded:
        """Append what is not yet known; known messages keep their numbers."""
        ...

    async def find_transcript(self, address: str) -> KnownTranscript | None:
        """How far a transcript is recorded; None where nothing of it is."""
        ...

    async def history(self, session: int) -> tuple[Logged, ...]:
        """All messages of a session by their identity, in order."""
        ...

    async def hearsay(self, session: int) -> tuple[Message, ...]:
        """The messages in the user's role that only somebody else told of, not the host."""
        ...

    async def vouch(self, session: int, seqs: Sequence[int]) -> None:
        """Note that the host itself tells of these messages, so that they are the user's."""
        ...

    async def originals(
        self, scope: Scope, seqs: Sequence[int] = (), after: int = 0, limit: int = 1000
    ) -> tuple[Original, ...]:
        """Messages of one session by number, or those after a number."""
        ...

    async def count_answers(self, session: int) -> int:
        """How often the model has answered in that session."""
        ...

    async def messages_of_calls(
        self, scope: Scope, calls: Sequence[str]
    ) -> tuple[tuple[int, ...], ...]:
        """For each id of a tool call the messages of one session with the call and its result."""
        ...

    async def calibrate(self, session: int, counted: int, reported: int) -> None:
        """Note our count of the window beside the provider's count of the same window."""
        ...

    async def add_event(self, session: int, event: Event) -> None:
        """Note that something happened."""
        ...

    async def events(self, session: int, name: str | None = None) -> tuple[Event, ...]:
        """What happened to that session, oldest first; with a name only the events of it."""
        ...

    async def add_calls(self, session: int, calls: Sequence[ModelCall], now: datetime) -> None:
        """Note what was asked of models on behalf of a session."""
        ...

    async def spent(self, session: int | None, since: datetime | None = None) -> Spent:
        """What the model calls of a session took since a moment; None: of all sessions, ever."""
        ...

    async def thinking(self, session: int) -> dict[str, str]:
        """What each thinking block was made behind, as fingerprints; empty: it was left out."""
        ...

    async def keep_thinking(self, session: int, changes: Mapping[str, str | None]) -> None:
        """Keep the beginnings of thinking blocks; None: nothing is to be known of one."""
        ...


class ViewPort(Protocol):
    """What a session shows, what stands for what left it, and who is about to change that."""

    async def load(self, session: int, now: datetime, view: View | None = None) -> Session:
        """The session at this moment, seen through its newest view or through the one given."""
        ...

    async def load_with_past(
        self, session: int, now: datetime, view: View | None = None
    ) -> tuple[Session, Past]:
        """What `load` gives, and what happened to the session until then, read at one moment."""
        ...

    async def load_change(
        self, session: int, now: datetime, wants_earlier: Callable[[Session], bool]
    ) -> tuple[Session, Session | None]:
        """The session, and where that is wanted as the view before showed it, at one moment."""
        ...

    async def count_window(
        self, session: int, now: datetime, known: WindowCount | None = None
    ) -> WindowCount:
        """The count of a window; where its view is the known one, only what came since is read."""
        ...

    async def save(self, session: int, compaction: Compaction, event: Event | None = None) -> bool:
        """Save view, digests, receipt, search rows and event; False if the view has changed."""
        ...

    async def save_view(
        self, session: int, view: View, base_version: int, event: Event | None = None
    ) -> bool:
        """Show a session by another view, without a compaction; False if its view has changed."""
        ...

    async def save_prepared(self, session: int, prepared: Compaction) -> bool:
        """Keep a view and its digests beside the shown view; False if that one has changed."""
        ...

    async def prepared_view(self, session: int) -> View | None:
        """The view that was prepared beside the shown one; None where that has changed since."""
        ...

    def compacting(self, session: int, patience: float) -> AbstractAsyncContextManager[bool]:
        """Claims the session: no other process compacts it inside the block. It gives False if
        another still does after so many seconds; a dead owner holds nothing."""
        ...

    async def is_compacting(self, session: int) -> bool:
        """Whether somebody compacts that session now."""
        ...

    async def view(self, session: int, version: int) -> View:
        """A view of that session as it once was: one of the newest, or the base of a receipt."""
        ...

    async def not_shown(self, session: int, seqs: Sequence[int]) -> tuple[int, ...]:
        """Which of these messages the newest view no longer shows; none without a compaction."""
        ...

    async def shown_whole(self, session: int, seqs: Sequence[int]) -> tuple[int, ...]:
        """Which of these messages the newest view shows whole; none without a compaction."""
        ...

    async def digests(self, session: int) -> tuple[Digest, ...]:
        """All digests of that session, oldest first."""
        ...

    async def receipts(self, session: int) -> tuple[tuple[Receipt, int], ...]:
        """All receipts, oldest first, each with the version of the view it was made from."""
        ...


class PinPort(Protocol):
    """Pins: kept word for word until they are released."""

    async def pins(self, scope: Scope, now: datetime, released: bool = False) -> tuple[Pin, ...]:
        """The pins in force in the scope: its own, its project's and the global ones."""
        ...

    async def pin_facts(
        self, scope: Scope, words: Sequence[str], limit: int, events: Sequence[str]
    ) -> PinFacts:
        """What decides about a pin of one session, with the user messages that may hold its words:
        for each of the words at most `limit`, the host's first, then the oldest. Up to the limit,
        every message that holds them as whole sentences is among them."""
        ...

    async def change_pins(
        self, session: int, decide: Callable[[tuple[Pin, ...]], PinChange], now: datetime
    ) -> Pin | None:
        """Change the pins in force in a session as `decide` says when it is shown them, in one
        transaction; the new pin, if any. `decide` may run on another thread, and more than once."""
        ...

    async def release_pin(self, scope: Scope, number: int, now: datetime) -> None:
        """Take a pin out of force; its text stays findable."""
        ...

    async def set_checks(self, scope: Scope, number: int, checks: str) -> None:
        """Set the checks beside a pin in force; blank: it has none."""
        ...

    async def held(self) -> tuple[HeldNote, ...]:
        """The calls that checks held, of all sessions, the oldest first."""
        ...

    async def renew_facts(self, numbers: Sequence[int], now: datetime, expires: datetime) -> None:
        """Note that a session used these project facts, which are to last until a moment."""
        ...

    async def unannounced_pins(self, project: str, now: datetime) -> tuple[Pin, ...]:
        """The pins for the project or for everywhere that no session was told of yet."""
        ...

    async def mark_announced(self, project: str, numbers: Sequence[int]) -> None:
        """Note that the project's sessions were told of these pins."""
        ...


class IndexPort(Protocol):
    """Where words stand; what is worth reading is decided by the core."""

    async def find(self, scope: Scope, query: SearchQuery) -> Matches:
        """Where each term of a query stands."""
        ...

    async def read(
        self, scope: Scope, query: SearchQuery, wanted: Sequence[Worth]
    ) -> tuple[Hit, ...]:
        """The texts of what is worth reading, in that order; only what the query may see."""
        ...

    async def list_passages(self, scope: Scope, query: SearchQuery, limit: int) -> tuple[Hit, ...]:
        """The passages that a query means by its qualifiers alone, in order."""
        ...

    async def search_many(
        self, scope: Scope, queries: Sequence[SearchQuery], limit: int
    ) -> tuple[tuple[int, ...], ...]:
        """For each query the newest messages that hold its terms, by number; one round trip."""
        ...

    async def twins(self, scope: Scope, seq: int, within: Scope) -> Twins:
        """The messages within a scope that hold all that one message of a session says."""
        ...


class AdminPort(Protocol):
    """What an owner does with a store as a whole."""

    async def forget(self, scope: Scope, seqs: Sequence[int], now: datetime) -> Forgotten:
        """Remove messages, or without any a session or a project; no query finds them again."""
        ...

    async def backup(self, target: Path) -> None:
        """Write a sound copy of the store to a new file."""
        ...

    async def health(self) -> Health:
        """Look the store over without changing it."""
        ...

    async def repair(self) -> None:
        """Build the search index anew from its texts."""
        ...

    async def close(self) -> None:
        """Let go of whatever the store is kept in."""
        ...


class Store(LogPort, ViewPort, PinPort, IndexPort, AdminPort, Protocol):
    """Sessions that survive the process; each writing method is one transaction. What every store
    has to hold is in `tests/store/contract/`."""


class Summarizer(Protocol):
    """Writes the draft of a digest."""

    @property
    def name(self) -> str:
        """What the receipt calls it."""
        ...

    async def summarize(self, request: SummaryRequest) -> Draft:
        """A draft for that span; raises SummarizerError when there is none."""
        ...


class TokenCounter(Protocol):
    """Counts tokens, always offline."""

    @property
    def id(self) -> str:
        """What is stored beside each count, so that counts of another counter are not mixed in."""
        ...

    @property
    def precision(self) -> Precision:
        """How far to believe a count."""
        ...

    def count(self, text: str) -> int:
        """The tokens of a text."""
        ...


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """The present moment, in UTC."""
        ...

"""What is asked of a compaction, what its core asks of the outside, and what came of it."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, NamedTuple

from pydantic import Field

from mcp_compaction.model.messages import Message, Precision, Value
from mcp_compaction.model.view import Digest, Draft, IndexItem, Item, Offer, SectionName, View

JobKind = Literal["command", "agent", "schedule"]

Strategy = Literal["summarize", "archive"]
Holder = Literal[
    "system", "pins", "first_request", "recent_steps", "older_steps", "digests", "excerpts"
]
HeldBy = tuple[tuple[Holder, int], ...]
"""What takes tokens of a window, each with how many."""


class RunningJob(NamedTuple):
    """What was started in the background."""

    kind: JobKind
    id: str  # by which a later call asks for it or stops it; blank: only its call is known
    text: str  # the command, or what a subagent is to do
    ref: str
    at: datetime | None = None  # when it was started


class HostJobs(Value):
    """What runs in the background at one moment, by the word of the host that runs it."""

    at: datetime
    kinds: tuple[JobKind, ...]  # of these it names all that run
    names: tuple[str, ...]  # the id of each, or what it is to do


class SummaryRequest(Value):
    """Please write a digest of this span; what stays in the window is not shown to you."""

    first: int
    last: int
    messages: tuple[Message, ...]
    # What stays in the window before and after it, by which our own lines tell how things stand.
    earlier: tuple[Message, ...] = ()
    later: tuple[Message, ...] = ()
    is_newest: bool = True  # no newer span is digested beside it
    running: tuple[RunningJob, ...] = ()  # in the background, now
    must_keep: tuple[tuple[SectionName, tuple[Item, ...]], ...] = ()
    index: tuple[IndexItem, ...] = ()
    max_tokens: int
    focus: str | None = None
    memory: str | None = None
    cost_left: float | None = None  # dollars that may still be spent; None: no limit
    calls_left: int | None = None  # how many model calls may still be made; None: no limit


class SearchRequest(Value):
    """Which messages does the archive's own search give first for each of these?"""

    queries: tuple[str, ...]
    limit: int = 5


class Found(Value):
    """For each query of a SearchRequest, the numbers of the messages that came first."""

    hits: tuple[tuple[int, ...], ...]


class SearchQuery(Value):
    """A question to the archive, already read: words to look for and rows to look at."""

    terms: tuple[str, ...]
    roles: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    is_start: bool = False  # whatever begins with a term is meant as well


class Hit(Value):
    """One passage the archive's search found."""

    session: str
    project: str = ""
    ref: str
    role: str
    at: datetime | None = None
    text: str
    score: float = 0.0
    is_beside: bool = False  # it holds no word of the query, and stands beside what does
    ordinal: int = 0  # which passage of its message, digest or pin
    has_tool: bool = False  # its message calls a tool, or is what one answered
    is_undated: bool = False  # `at` is when it was recorded, since it came without a time
    is_told: bool = False  # a user's words that only an agent recorded
    also: tuple[str, ...] = ()  # where the same stands once more
    note: str = ""


class Match(NamedTuple):
    """Where a term stands: a passage without its text."""

    row: int
    session: int | None
    kind: str  # m, d or p, as in a ref
    number: int
    chars: int
    ordinal: int  # which passage of its message
    size: int  # the number of passages of its message
    has_tool: bool  # its message calls a tool, or is what one answered


class TermMatches(NamedTuple):
    """Where one term stands, the newest first."""

    term: str
    places: int  # at least so many passages hold it
    matches: tuple[Match, ...]
    is_cut: bool = False  # it stands in so many that only the newest were looked at


class Matches(NamedTuple):
    """Where the terms of a question stand, and among how much."""

    terms: tuple[TermMatches, ...]
    messages: int
    passages: int  # at least so many


class SearchResult(Value):
    """What a question found, the best first, and how it was looked for."""

    hits: tuple[Hit, ...]
    messages: int  # among which it was looked for
    too_common: tuple[str, ...] = ()  # words of which only the newest places were ranked
    nowhere: tuple[str, ...] = ()  # words that stand nowhere there
    is_full: bool = False  # there are more than were ranked
    suggestion: str | None = None  # a query that would find something, where this one did not
    is_undated: bool = False  # of some of them only the time of recording is known


class Worth(NamedTuple):
    """A passage worth reading: a match by its row, or one beside matches by its place."""

    score: float
    session: int | None
    row: int | None = None
    number: int | None = None
    ordinal: int = 0


class Find(NamedTuple):
    """Where do the terms of a query stand? Answered by Matches."""

    query: SearchQuery


class Read(NamedTuple):
    """What do these passages say? Answered by hits."""

    query: SearchQuery
    passages: tuple[Worth, ...]


class ListAll(NamedTuple):
    """What was said in these rows, in order? Answered by hits."""

    query: SearchQuery
    limit: int


class Event(Value):
    """Something worth counting that happened to a session."""

    name: str
    at: datetime
    detail: str = ""


class Twin(Value):
    """A message that holds all that another one says."""

    project: str
    session: str
    ref: str


class Twins(Value):
    """The messages that hold all that one says, those of its own session first."""

    found: tuple[Twin, ...] = ()
    more: int = 0  # that were found and are not listed


class Ask(Value):
    """What a caller wants of one compaction."""

    reason: str
    digest: str | None = None
    focus: str | None = None
    strategy: Strategy = "summarize"
    preserve_markers: bool = True
    span: tuple[int, int] | None = None
    target_percent: float | None = None
    room_tokens: int | None = None  # that shall be free afterwards
    dry_run: bool = False
    force: bool = False
    prose: Draft | None = None  # that the session's own model wrote; a digest goes before it
    running: tuple[HostJobs, ...] = ()  # what its host says of the background, oldest first
    for_others: bool = False  # for a window that somebody else empties: it is given no account


class Tally(Value):
    """How much of one kind is in the view, how much comes back by recall, how much is lost."""

    kind: str
    retained: int = 0
    recoverable: int = 0
    lost: int = 0

    @property
    def total(self) -> int:
        """All that was looked for."""
        return self.retained + self.recoverable + self.lost


class Replaced(Value):
    """A span and the digest that now stands for it."""

    first: int
    last: int
    digest: int


class Receipt(Value):
    """What one compaction did."""

    compaction: int
    kind: Literal["compress", "restore", "digest", "page_in"] = "compress"
    reason: str
    at: datetime
    strategy: Strategy = "summarize"
    before: int
    after: int
    window: int
    precision: Precision
    freed: tuple[tuple[str, int], ...] = ()  # by the name of the rung
    replaced: tuple[Replaced, ...] = ()
    pins: int = 0
    tallies: tuple[Tally, ...] = ()
    target: int | None = None
    shortfall: str | None = None  # what holds the window above the target, with the numbers
    # The same for programs, while the outcome is at hand; it is not stored.
    held_by: HeldBy = Field(default=(), exclude=True)
    author: str = "extractive"
    checked: bool = True
    notes: tuple[str, ...] = ()
    offer: Offer = Field(default_factory=Offer)

    def __str__(self) -> str:
        """What a person reads of it: sizes, what each rung freed, what held it, how to undo it."""
        freed = ", ".join(f"{rung} {tokens:,}" for rung, tokens in self.freed)
        lines = [
            f"{self.ref}: {self.before:,} -> {self.after:,} of {self.window:,} tokens",
            *([f"freed: {freed}"] if freed else []),
            *([self.shortfall] if self.shortfall else []),
            *self.notes,
            f"undo: restore {self.ref}",
        ]
        return "\n".join(lines)

    @property
    def is_enough(self) -> bool:
        """Whether the target was reached, or none was set."""
        return self.shortfall is None

    @property
    def ref(self) -> str:
        """The short id a model can say: `c4`."""
        return f"c{self.compaction}"


class WayGrade(Value):
    """What a view held of that which was needed after it: ours, or another of the same size."""

    way: str
    tokens: int  # about
    names: int  # of those that calls passed
    lacks: int  # of the files that were used, whose text it has not
    lacks_tokens: int
    recalled: int  # of the messages that were recalled
    told: int  # of the sentences that were said again


class Grade(Value):
    """What the agent did after a compaction with what it had known before it."""

    compaction: int
    answers: int  # of the agent since, as far as is looked
    files: int  # that it read or changed since, and had read before
    again: int  # of them, that it read again since their text had left the window
    again_tokens: int
    names: int = 0  # that its calls passed
    recalled: int = 0  # messages
    told: int = 0  # sentences that the user said, or questions that the agent asked, once more
    ways: tuple[WayGrade, ...] = ()  # ours, then others of its size


class Compaction(Value):
    """A new view with its digests and receipt, ready to be saved in one transaction."""

    kind: Literal["compaction"] = "compaction"
    base_version: int  # the view it was made from; saved only if that is still the view
    view: View
    digests: tuple[Digest, ...]
    receipt: Receipt
    running: tuple[RunningJob, ...] = ()  # in the background, while it was made

    def __str__(self) -> str:
        """What a person reads of it: its receipt."""
        return str(self.receipt)


RefusalReason = Literal[
    "few_messages",
    "below_release",
    "no_progress",
    "too_soon",
    "too_little_gain",
    "being_compacted",
    "window_too_small",
    "window_of_host",
]


class Refusal(Value):
    """What was asked for would not pay or cannot be: why, with the numbers, and from when on."""

    kind: Literal["refusal"] = "refusal"
    text: str
    reason: RefusalReason
    held_by: HeldBy = ()
    worth_from_tokens: int | None = None  # the fill from which on it would pay, where it is known
    needed_tokens: int | None = None  # the fill that a window which is too small would have


class NothingToDo(Value):
    """The view is already as this request would make it."""

    kind: Literal["nothing"] = "nothing"
    text: str
    reason: Literal[
        "target_met",
        "already_prepared",
        "all_needed",
        "digest_as_large",
        "no_window_changed",
        "shown_already",
    ]
    held_by: HeldBy = ()


class Budget(Value):
    """The most tokens of a window that each part may take; what one leaves is for those after."""

    target: int
    system: int  # with the tools, the memory and what only the host sees: what it takes
    pins: int  # what they take
    request: int  # the first one
    newest_request: int
    unread: int  # tools' answers that the model has not seen
    tail: int  # the newest steps
    digest: int  # each of them
    names: int  # in the newest digest
    index: int
    excerpts: int = 0  # of what all others leave


class Projection(Value):
    """What a dry run found: nothing was written and no summarizer was asked."""

    kind: Literal["projection"] = "projection"
    before: int
    after: int  # at most
    window: int
    precision: Precision
    freed: tuple[tuple[str, int], ...] = ()  # by the name of the rung
    spans: tuple[tuple[int, int], ...] = ()
    shortfall: str | None = None  # what may hold the window above the target
    held_by: HeldBy = ()  # the same for programs
    budget: Budget | None = None  # None where nothing is shared out

    @property
    def is_enough(self) -> bool:
        """Whether the target would be reached for sure, or none was set."""
        return self.shortfall is None


class Failed(Value):
    """A compaction that came to nothing: which step failed; the session is as it was."""

    kind: Literal["failed"] = "failed"
    text: str
    reason: Literal["error", "view_changed", "process_ended"]
    error: str = ""  # the name of the error's class, where there was one


Outcome = Compaction | Refusal | NothingToDo | Projection | Failed

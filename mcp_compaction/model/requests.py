"""What the core asks of the outside, and what it is answered with."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, NamedTuple

from mcp_compaction.model.digests import IndexItem, Item, SectionName
from mcp_compaction.model.messages import Message, Value

JobKind = Literal["command", "agent", "schedule"]


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

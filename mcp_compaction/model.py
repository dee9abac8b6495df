"""The vocabulary of the project as frozen values: what was said, shown and decided."""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, JsonValue

JsonObject = dict[str, JsonValue]

Role = Literal["system", "user", "assistant", "tool"]
Shape = Literal["anthropic", "openai", "responses"]
Precision = Literal["exact", "scaled", "estimate"]
Via = Literal["host", "tool"]  # "tool": an agent handed it over, so its role is its word only


class Value(BaseModel):
    """A frozen value that knows all its fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


# What was said


class Text(Value):
    """Words meant to be read."""

    kind: Literal["text"] = "text"
    text: str


class Thinking(Value):
    """A model's reasoning; shown whole or not at all, since providers sign it."""

    kind: Literal["thinking"] = "thinking"
    text: str = ""


class ToolCall(Value):
    """A request to run a tool."""

    kind: Literal["call"] = "call"
    id: str
    name: str
    arguments: JsonObject


class ToolResult(Value):
    """What a tool answered to one call."""

    kind: Literal["result"] = "result"
    call: str
    text: str
    is_error: bool = False
    has_media: bool = False


class Media(Value):
    """An image, a document or a sound."""

    kind: Literal["media"] = "media"
    media_type: str


class Opaque(Value):
    """A provider's block that is kept whole and not looked into."""

    kind: Literal["opaque"] = "opaque"
    type: str
    text: str = ""


Part = Annotated[
    Text | Thinking | ToolCall | ToolResult | Media | Opaque, Field(discriminator="kind")
]


class Message(Value):
    """One recorded message; `raw` is its original JSON, byte for byte."""

    seq: int
    role: Role
    parts: tuple[Part, ...]
    shape: Shape
    raw: str
    at: datetime | None = None
    tokens: int = 0
    via: Via = "host"

    @property
    def ref(self) -> str:
        """The short id a model can say: `m42`."""
        return f"m{self.seq}"

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of this message, in order."""
        return tuple([p for p in self.parts if isinstance(p, ToolCall)])

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The tool results of this message, in order."""
        return tuple([p for p in self.parts if isinstance(p, ToolResult)])

    @property
    def text(self) -> str:
        """The words of this message, without calls, results and thinking."""
        return "\n".join(p.text for p in self.parts if isinstance(p, Text))

    @property
    def is_request(self) -> bool:
        """Whether a user said something here, rather than a tool."""
        return self.role == "user" and not self.results


class Spoken(NamedTuple):
    """A piece of a message that a search can find, and whose words it is."""

    by: Role
    text: str


class NewMessage(Value):
    """A message on its way into the log: parsed, masked and counted, not yet numbered."""

    role: Role
    parts: tuple[Part, ...]
    shape: Shape
    raw: str
    normal: str  # the JSON that identity is judged by: canonical, without cache marks
    passages: tuple[Spoken, ...] = ()  # what the search will find it by
    host_id: str | None = None
    at: datetime | None = None
    tokens: int = 0
    masked: dict[str, int] = {}  # how many secrets of each kind were taken out of it


class Sections(Value):
    """What a session starts with; never compacted, but `memory` goes into the first digest."""

    system: JsonValue = None
    tools: tuple[JsonObject, ...] = ()
    task: str | None = None
    memory: str | None = None


class Step(Value):
    """The unit of cutting: a call and its result are never separated."""

    messages: tuple[Message, ...]
    is_open: bool = False  # some call still waits for its result

    @property
    def first(self) -> int:
        """The number of the first message."""
        return self.messages[0].seq

    @property
    def last(self) -> int:
        """The number of the last message."""
        return self.messages[-1].seq

    @property
    def tokens(self) -> int:
        """The tokens of all messages as they were recorded."""
        return sum(m.tokens for m in self.messages)


# What is kept in sight

PinKind = Literal["constraint", "open_task", "fact", "note"]
PinScope = Literal["session", "project", "global"]
Author = Literal["user", "agent"]
# By which way a pin came: typed at a terminal, agreed to in the host's dialog, a prompt the user
# started, found in a recorded message, an agent's own call, a command without a terminal, a
# program; "": it was not noted.
Channel = Literal["terminal", "dialog", "prompt", "message", "tool", "command", "program", ""]


class Pin(Value):
    """A constraint, open task or fact shown word for word in every view until it is released."""

    number: int
    text: str
    kind: PinKind = "constraint"
    scope: PinScope = "session"
    author: Author = "agent"
    session: str  # the name of the session it was said in
    at: datetime
    source: str | None = None  # the ref it was said in, where that is known
    expires: datetime | None = None
    channel: Channel = ""

    @property
    def ref(self) -> str:
        """The short id a model can say: `p2`."""
        return f"p{self.number}"

    @property
    def checksum(self) -> str:
        """A tagged hash of the exact text."""
        return "sha256:" + sha256(self.text.encode()).hexdigest()


class Candidate(Value):
    """A user's sentence that sounds like a standing constraint, and where it was said."""

    ref: str
    text: str
    is_told: bool = False  # only an agent recorded that the user said it


class Offer(Value):
    """The newest candidates for a pin, and how many more there are."""

    candidates: tuple[Candidate, ...] = ()
    more: int = 0


Provenance = Literal["verbatim", "extracted", "summarized"]


class Item(Value):
    """One line of a digest, with the refs it came from."""

    text: str
    refs: tuple[str, ...] = ()
    provenance: Provenance = "extracted"
    superseded: bool = False
    must_stay: bool = False  # no search would give it back


IndexKind = Literal["file", "command", "url", "id", "error", "number"]


class IndexItem(Value):
    """One thing that was met in a span: a file, a command, an id; with what was done and where."""

    kind: IndexKind
    text: str
    note: str = ""
    refs: tuple[str, ...] = ()


SectionName = Literal[
    "PROGRESS",
    "DECISIONS",
    "FACTS",
    "OPEN",
    "ERRORS",
    "CONSTRAINTS",
    "ARTIFACTS",
    "NEXT",
    "UNCERTAIN",
]
SECTION_NAMES: tuple[SectionName, ...] = (
    "PROGRESS",
    "DECISIONS",
    "FACTS",
    "OPEN",
    "ERRORS",
    "CONSTRAINTS",
    "ARTIFACTS",
    "NEXT",
    "UNCERTAIN",
)


class ModelCall(Value):
    """One request to a model: what it took, and why it gave nothing where it did."""

    model: str
    seconds: float
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0  # of the input, what the provider had at hand
    cost: float | None = None  # dollars; None: no price is known
    failed: str = ""  # in words fit for a receipt


class Spent(Value):
    """What the model calls of one session took together."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float = 0.0  # dollars, of the calls whose price is known
    seconds: float = 0.0
    failed: int = 0


NO_DIGEST = "no digest needed"
"""The author of a compaction that wrote no digest."""

OWN_AUTHORS = ("extractive", "agent", "archive")
"""Authors of drafts that no model wrote; no model may be called so."""


class Draft(Value):
    """What a summarizer proposes for a span: items by section; nothing in it is trusted yet."""

    author: str  # "extractive", "agent", "archive", a model's name
    sections: tuple[tuple[SectionName, tuple[Item, ...]], ...] = ()
    note: str = ""  # why another summarizer had to step in, for the receipt
    calls: tuple[ModelCall, ...] = ()  # what was asked of models for it, failures too

    def items(self, name: SectionName) -> tuple[Item, ...]:
        """The items of one section."""
        return next((items for section, items in self.sections if section == name), ())


class Digest(Value):
    """The structured summary that stands for a span."""

    number: int
    first: int
    last: int
    messages: int
    sections: tuple[tuple[SectionName, tuple[Item, ...]], ...]
    index: tuple[IndexItem, ...] = ()
    author: str = "extractive"
    checked: bool = True
    began: datetime | None = None
    ended: datetime | None = None
    merged: tuple[int, ...] = ()
    tokens: int = 0

    @property
    def ref(self) -> str:
        """The short id a model can say: `d3`."""
        return f"d{self.number}"

    def items(self, name: SectionName) -> tuple[Item, ...]:
        """The items of one section."""
        return next((items for section, items in self.sections if section == name), ())


# What is shown

CutReason = Literal["duplicate", "superseded", "recalled", "preview", "truncated"]


class Cut(Value):
    """One part of a message shown as something shorter."""

    part: int
    shown: Part
    why: CutReason


class Kept(Value):
    """A message shown as it was said."""

    kind: Literal["kept"] = "kept"
    seq: int


class Trimmed(Value):
    """A message of which some parts are shown shorter."""

    kind: Literal["trimmed"] = "trimmed"
    seq: int
    cuts: tuple[Cut, ...]
    tokens: int


class Digested(Value):
    """A digest standing where its span was; thin: only what must stay of it is shown."""

    kind: Literal["digested"] = "digested"
    digest: int
    thin: bool = False


MessageEntry = Annotated[Kept | Trimmed, Field(discriminator="kind")]
Entry = Annotated[Kept | Trimmed | Digested, Field(discriminator="kind")]


# Whose words a piece is, and of what kind: what a user said, as a host or an agent recorded it;
# what an agent decided, answered, was unsure of or else said; what a tool was given or gave back.
# And a whole message, whosoever's, that was asked for after it had left the window.
By = Literal[
    "user",
    "reported",
    "decision",
    "answer",
    "doubt",
    "agent",
    "command",
    "field",
    "line",
    "talk",
    "wanted",
]


class Promoted(Value):
    """What is still shown, word for word, of a message that left the window."""

    seq: int
    by: By = "agent"
    role: Role | None = None  # of a message that is shown whole
    pieces: tuple[str, ...]


class View(Value):
    """What is in the window: entries into the log; what came after `upto` follows whole."""

    version: int = 0
    compaction: int | None = None  # the compaction or restore that wrote it
    head: tuple[MessageEntry, ...] = ()
    pinned: tuple[int, ...] = ()
    body: tuple[Entry, ...] = ()
    promoted: tuple[Promoted, ...] = ()
    upto: int = 0
    memory_in: int | None = None  # the digest that took in the memory section
    index_most: int | None = None  # tokens of the index, where a target left less than usual


class ShownMessage(Value):
    """A recorded message as a view shows it."""

    message: Message
    cuts: tuple[Cut, ...] = ()


class ShownRecord(Value):
    """A text of ours in a view: the pinned block, a digest, the index. Never an instruction."""

    text: str


Shown = ShownMessage | ShownRecord


# A session

# Who can make the window smaller, and what becomes of pins when a host does. own: the caller
# replaces its window by our view. hooks: after the host's own compaction a hook shows the pins
# again. plain: nothing does.
Mode = Literal["own", "hooks", "plain"]

Complexity = Literal["simple", "medium", "complex", "epic"]
AgentProfile = Literal["plain", "verbose", "deliberative"]


class Traits(Value):
    """What is set per session: the model, its window, the task's complexity, the agent's manner."""

    model: str | None = None
    window_tokens: int | None = None
    complexity: Complexity | None = None
    agent_profile: AgentProfile | None = None
    owns_window: bool = True  # False: the window is the host's, which shrinks it by itself
    pins_put_back: datetime | None = None  # when a hook last did so after the host's compaction

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
    traits: Traits = Traits()


class Session(Value):
    """Everything a decision needs of one session, as it was at one moment."""

    info: SessionInfo
    sections: Sections = Sections()
    section_tokens: int = 0  # system, tools, task
    memory_tokens: int = 0
    view: View = View()
    messages: tuple[Message, ...] = ()  # those the view shows, in order
    digests: tuple[Digest, ...] = ()  # those the view shows
    pins: tuple[Pin, ...] = ()  # in force in this session, from every scope
    calibration: Calibration = Calibration()
    next_digest: int = 1
    next_compaction: int = 1
    last_compaction: Receipt | None = None
    is_pressed: bool = False  # a limit on model calls is near: budget pressure


# What was asked and what came of it

Strategy = Literal["summarize", "archive"]
RungName = Literal["deduplicate", "shrink", "summarize", "merge", "truncate"]


class Ask(Value):
    """What a caller wants of one compaction."""

    reason: str
    digest: str | None = None
    focus: str | None = None
    strategy: Strategy = "summarize"
    preserve_markers: bool = True
    span: tuple[int, int] | None = None
    target_percent: float | None = None
    dry_run: bool = False
    force: bool = False


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
    freed: tuple[tuple[RungName, int], ...] = ()
    replaced: tuple[Replaced, ...] = ()
    pins: int = 0
    tallies: tuple[Tally, ...] = ()
    target: int | None = None
    shortfall: str | None = None  # what holds the window above the target, with the numbers
    author: str = "extractive"
    checked: bool = True
    notes: tuple[str, ...] = ()
    offer: Offer = Offer()

    @property
    def ref(self) -> str:
        """The short id a model can say: `c4`."""
        return f"c{self.compaction}"


class Compaction(Value):
    """A new view with its digests and receipt, ready to be saved in one transaction."""

    kind: Literal["compaction"] = "compaction"
    base_version: int  # the view it was made from; saved only if that is still the view
    view: View
    digests: tuple[Digest, ...]
    receipt: Receipt


class Refusal(Value):
    """Compressing now would not pay: why, with the numbers, and from when it would."""

    kind: Literal["refusal"] = "refusal"
    text: str


class NothingToDo(Value):
    """The view is already as small as this request can make it."""

    kind: Literal["nothing"] = "nothing"
    text: str


class Projection(Value):
    """What a dry run found: nothing was written and no summarizer was asked."""

    kind: Literal["projection"] = "projection"
    before: int
    after: int
    window: int
    precision: Precision
    freed: tuple[tuple[RungName, int], ...] = ()
    spans: tuple[tuple[int, int], ...] = ()
    shortfall: str | None = None


class Failed(Value):
    """A compaction that came to nothing: which step failed; the session is as it was."""

    kind: Literal["failed"] = "failed"
    text: str


Outcome = Compaction | Refusal | NothingToDo | Projection | Failed


# What the core asks of the outside


class SummaryRequest(Value):
    """Please write a digest of this span; what stays in the window is not shown to you."""

    first: int
    last: int
    messages: tuple[Message, ...]
    must_keep: tuple[tuple[SectionName, tuple[Item, ...]], ...] = ()
    index: tuple[IndexItem, ...] = ()
    max_tokens: int
    focus: str | None = None
    memory: str | None = None
    lost: tuple[str, ...] = ()  # a repair: these must be in it
    cost_left: float | None = None  # dollars that may still be spent; None: no limit
    calls_left: int | None = None  # how many model calls may still be made; None: no limit


class SearchRequest(Value):
    """Which messages does the archive's own search give first for each of these?"""

    queries: tuple[str, ...]
    limit: int = 5


class Found(Value):
    """For each query of a SearchRequest, the numbers of the messages that came first."""

    hits: tuple[tuple[int, ...], ...]


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


class TermMatches(NamedTuple):
    """Where one term stands, the newest first."""

    term: str
    places: int  # at least so many passages hold it
    matches: tuple[Match, ...]
    is_cut: bool = False  # it stands in so many that only the newest were looked at


class Matches(NamedTuple):
    """Where the terms of a question stand, and among how many messages."""

    terms: tuple[TermMatches, ...]
    total: int


class Worth(NamedTuple):
    """A passage worth reading: a match by its row, or a message beside matches by its number."""

    score: float
    session: int | None
    row: int | None = None
    number: int | None = None


class Event(Value):
    """Something worth counting that happened to a session."""

    name: str
    at: datetime
    detail: str = ""


Session.model_rebuild()

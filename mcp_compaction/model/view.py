"""What is shown: digests, pins, the entries of a view, and the view laid out."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from hashlib import sha256
from typing import Annotated, Literal, get_args

from pydantic import ConfigDict, Field

from mcp_compaction.model.messages import Message, Part, Role, Value

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

Provenance = Literal["verbatim", "extracted", "summarized"]
Writer = Literal["", "model", "agent"]
"""Who wrote a line of a digest; nobody did, where rules extracted it."""
ValueKind = Literal[
    "file", "failure", "tests", "commit", "request", "task", "job", "refusal", "label"
]
CutReason = Literal["duplicate", "superseded", "recalled", "preview", "truncated", "offloaded"]


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


class AccountValue(Value):
    """How a thing stands of which a digest tells: the item has its name or its words."""

    kind: ValueKind
    status: str = ""  # created, failed, newest, done; of a label, its words
    more: str = ""  # why, where to, on which branch, since when
    times: int = 1
    since: tuple[str, ...] = ()  # the files changed after a run of tests; where a file was lost
    key: str = ""  # what two calls have in common that do the same; a task's number


class Item(Value):
    """One line of a digest, with the refs it came from; a value is put in words by `render`."""

    text: str
    value: AccountValue | None = None
    refs: tuple[str, ...] = ()
    provenance: Provenance = "extracted"
    superseded: bool = False
    newer: str = ""  # the ref of what users said later on the same matter
    must_stay: bool = False  # no search would give it back
    by: Writer = ""
    doubt: str = ""  # why it may not be so: nothing shows it, or which rule it is against


IndexKind = Literal["file", "command", "url", "id", "error", "number"]


class IndexItem(Value):
    """One thing that was met in a span: a file, a command, an id; with what was done and where."""

    kind: IndexKind
    text: str
    note: str = ""
    refs: tuple[str, ...] = ()


SectionName = Literal[
    "GOAL",
    "REJECTED",
    "CONSTRAINTS",
    "STATE",
    "DONE",
    "PROGRESS",
    "DECISIONS",
    "LEARNED",
    "ERRORS",
    "FACTS",
    "NAMES",
    "ARTIFACTS",
    "UNCERTAIN",
    "ASKED",
    "OPEN",
    "NEXT",
]
SECTION_NAMES: tuple[SectionName, ...] = get_args(SectionName)
"""All sections in the order they are shown."""

EARLIER_SECTIONS: dict[SectionName, SectionName] = {
    "PROGRESS": "DONE",
    "LEARNED": "ERRORS",
    "ARTIFACTS": "DONE",
}
"""Sections that only stored digests have, each with the one that new digests have instead."""


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
    # Of one that the session's own model wrote over its whole window: the newest message then.
    up_to: int | None = None

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
    """A digest standing where its span was."""

    kind: Literal["digested"] = "digested"
    digest: int
    thin: bool = False  # of views that earlier versions stored


MessageEntry = Annotated[Kept | Trimmed, Field(discriminator="kind")]
Entry = Annotated[Kept | Trimmed | Digested, Field(discriminator="kind")]


# Whose words a piece is, and of what kind.
By = Literal[
    "user",
    "reported",  # a user's words as an agent recorded them
    "lead",  # another agent's, in the user's role
    "said",  # the agent's, between its calls
    "closing",  # the agent's, at the end of a turn
    "doubt",  # the agent's, where it was unsure
    "step",  # a call, or a run of them, and what answered it
    "file",  # what the agent last saw of a file
    "talk",  # a piece of plain talk
    "wanted",  # whole: the agent keeps it, or recalled it again and again
    # Only in views that earlier versions stored:
    "decision",
    "answer",
    "agent",
    "command",
    "field",
    "line",
]


class Excerpt(Value):
    """An excerpt: what is still shown, word for word, of a message that left the window."""

    seq: int
    by: By = "agent"
    role: Role | None = None  # of a message that is shown whole
    pieces: tuple[str, ...]  # of a step what was called, and what answered it
    last: int = Field(default=0, exclude_if=lambda last: not last)  # of a run of messages


Run = tuple[int, int]
"""The first and the last of messages that follow one another."""


class LatePins(Value):
    """Pins that were made outside the conversation, shown once after a message of the user's."""

    after: int
    pins: tuple[int, ...]


class Reworded(Value):
    """A message that the caller edited where it stands; `words`: the one that says it now."""

    seq: int
    words: int


class TakenAway(Value):
    """What a host's own compaction took out of the window; `seq`: the message with its summary."""

    seq: int
    runs: tuple[Run, ...]
    told: bool = False  # by our view, which was made of it since then


class View(Value):
    """What is in the window: entries into the log; what came after `upto` follows whole.

    Of what came after, `since` shows some messages shorter, and `late_pins` stand in between.
    Stored views have those under `told`.
    """

    model_config = ConfigDict(validate_by_name=True, serialize_by_alias=True)

    version: int = 0
    compaction: int | None = None  # the compaction or restore that wrote it
    head: tuple[MessageEntry, ...] = ()
    pinned: tuple[int, ...] = ()
    body: tuple[Entry, ...] = ()
    promoted: tuple[Excerpt, ...] = ()
    upto: int = 0
    memory_in: int | None = None  # the digest that took in the memory section
    index_most: int | None = None  # tokens of the index, where a target left less than usual
    since: tuple[Trimmed, ...] = ()
    late_pins: tuple[LatePins, ...] = Field(
        default=(), validation_alias="told", serialization_alias="told"
    )
    gone: tuple[Run, ...] = ()  # messages that the caller's history does not have any more
    reworded: tuple[Reworded, ...] = Field(default=(), exclude_if=lambda found: not found)
    taken: tuple[TakenAway, ...] = Field(default=(), exclude_if=lambda found: not found)
    begun: bool = False  # it was shown before any compaction

    @property
    def is_begun(self) -> bool:
        """Whether a caller has it: what stands at its start stays until the next compaction."""
        return self.begun or self.compaction is not None

    def with_whole(self, seqs: Collection[int]) -> View:
        """The view with these messages whole where it showed parts of them."""
        return self.model_copy(
            update={
                "head": tuple(Kept(seq=e.seq) if e.seq in seqs else e for e in self.head),
                "body": tuple(
                    Kept(seq=e.seq) if isinstance(e, Trimmed) and e.seq in seqs else e
                    for e in self.body
                ),
                "since": tuple(e for e in self.since if e.seq not in seqs),
            }
        )


class ShownMessage(Value):
    """A recorded message as a view shows it."""

    message: Message
    cuts: tuple[Cut, ...] = ()


class ShownRecord(Value):
    """A text of ours in a view: the pinned block, a digest, the index. Never an instruction."""

    text: str


Shown = ShownMessage | ShownRecord

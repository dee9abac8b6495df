"""What is shown: the entries of a view, and the view laid out."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from mcp_compaction.model.messages import Message, Part, Role, Value

CutReason = Literal["duplicate", "superseded", "recalled", "preview", "truncated", "offloaded"]


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

"""What was said: messages and their parts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue

JsonObject = dict[str, JsonValue]

Role = Literal["system", "user", "assistant", "tool"]
Shape = Literal["anthropic", "openai", "responses"]
Precision = Literal["exact", "scaled", "estimate"]
Via = Literal["host", "tool"]  # "tool": an agent handed it over, so its role is its word only
# "program": a host told of it, as a prompt that a program sent and no person typed. It is kept as
# the host's, with an event beside it.
HeardVia = Literal["host", "tool", "program"]
# Who speaks in the user's role, where a host says that it is not the user: the host (a skill, a
# command's text, a notice) or another agent. "user": a result in it holds words of the user.
Speaker = Literal["", "user", "host", "agent"]


class Value(BaseModel):
    """A frozen value that knows all its fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


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
    via: HeardVia = "host"
    speaker: Speaker = ""

    @cached_property
    def ref(self) -> str:
        """The short id a model can say: `m42`."""
        return f"m{self.seq}"

    @cached_property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of this message, in order."""
        return tuple([p for p in self.parts if isinstance(p, ToolCall)])

    @cached_property
    def results(self) -> tuple[ToolResult, ...]:
        """The tool results of this message, in order."""
        return tuple([p for p in self.parts if isinstance(p, ToolResult)])

    @cached_property
    def text(self) -> str:
        """The words of this message, without calls, results and thinking."""
        return "\n".join(p.text for p in self.parts if isinstance(p, Text))

    @property
    def is_request(self) -> bool:
        """Whether a user said something here, rather than a tool or the host."""
        if self.role != "user" or self.speaker == "host":
            return False
        return not self.results or bool(self.text.strip())

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some fields changed; what was read from them is read again."""
        copied = super().model_copy(update=update, deep=deep)
        for name in vars(copied).keys() - type(self).model_fields.keys():
            del vars(copied)[name]
        return copied


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
    early_id: str | None = None  # the host id that it may be known by until it has its own
    at: datetime | None = None
    tokens: int = 0
    via: HeardVia | None = None  # None: as the batch it comes in
    speaker: Speaker = ""
    masked: dict[str, int] = {}  # how many secrets of each kind were taken out of it
    # Its raw text with only those masked that it tells itself, where `raw` has more masked: what
    # came beside a message does not make it another one.
    alone: str | None = None

    @property
    def raw_to_compare(self) -> str:
        """Its raw text as it is masked whatever comes beside it."""
        return self.raw if self.alone is None else self.alone


class Logged(NamedTuple):
    """A message of the log by what its identity is judged by, without its words."""

    seq: int
    role: Role
    content: str  # a hash
    host_id: str | None = None
    at: str = ""  # when it was said, else recorded
    tokens: int = 0


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

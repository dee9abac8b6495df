"""What a transcript tells: the chat it belongs to, and its messages piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, cast

from mcp_compaction.core.text.host_texts import has_words_between_endings
from mcp_compaction.formats import FORMATS, IncomingMessage
from mcp_compaction.formats.arrival import parse_moment
from mcp_compaction.formats.content import check_size, dump_original
from mcp_compaction.model import (
    Event,
    HeardVia,
    JsonObject,
    Part,
    Sections,
    Shape,
    Speaker,
    Text,
    Thinking,
    ToolResult,
)
from mcp_compaction.ports import Mark

MOST_MESSAGES: Final = 500  # of a piece, which is one transaction
MOST_BYTES: Final = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Chat:
    """The chat that a transcript tells of, as its host names it."""

    session: str | None = None  # the host's own id of it
    agent: str = ""  # the subagent within that chat
    parent: str | None = None  # the host's id of the chat that started this one
    parent_file: Path | None = None  # the transcript of that chat
    is_agents: bool = False  # an agent started it, nobody knows which
    is_headless: bool = False  # a program holds it, and no person types in it
    folder: str | None = None  # where it worked
    name: str | None = None  # how it was called here
    sections: Sections | None = None

    @property
    def is_subagent(self) -> bool:
        """Whether an agent, and not the user, speaks in the user's role."""
        return bool(self.agent or self.parent) or self.is_agents


class Compacted(NamedTuple):
    """What a host tells of a compaction; what it does not tell is None or empty."""

    trigger: str = ""
    before: int | None = None  # tokens of the window
    after: int | None = None
    seconds: float | None = None
    kept: tuple[str, ...] = ()  # the ids of the messages that stayed
    kept_text: str = ""  # what stayed, where the host tells it by its words


class TranscriptLine(NamedTuple):
    """One line of a transcript: a message, a compaction, a model, or a reported fill."""

    messages: tuple[IncomingMessage, ...] = ()
    agent: str = ""  # the subagent that it is about
    events: tuple[Event, ...] = ()
    reported: int | None = None  # the window as the provider counted it
    model: str | None = None
    window_tokens: int | None = None
    title: str | None = None  # that the host gave the chat
    skipped: int = 0  # messages in it that could not be read
    compacted: Compacted | None = None
    summary: str = ""  # the host's own summary, which a compaction left
    is_ours: bool = False  # a compaction that left our view


NOTHING: Final = TranscriptLine()


@dataclass(slots=True)
class Told:
    """The messages of one agent in a piece of a transcript."""

    messages: list[IncomingMessage] = field(default_factory=list[IncomingMessage])
    events: list[Event] = field(default_factory=list[Event])
    reported: int | None = None
    first_reported: tuple[int, int] | None = None  # and how many messages were said by then
    model: str | None = None
    window_tokens: int | None = None
    title: str | None = None

    def add(self, line: TranscriptLine) -> None:
        """Take in what a line tells; what is newer counts."""
        self.messages += line.messages
        self.events += line.events
        if line.reported and self.first_reported is None:
            self.first_reported = (line.reported, len(self.messages))
        self.reported = line.reported or self.reported
        self.model = line.model or self.model
        self.window_tokens = line.window_tokens or self.window_tokens
        self.title = line.title or self.title


@dataclass(slots=True)
class TranscriptPart:
    """A piece of a transcript that was read at once, and the place behind it."""

    position: int
    tail: str = ""
    is_last: bool = True
    is_anew: bool = False  # the file does not go on where it was read to
    agents: dict[str, Told] = field(default_factory=dict[str, Told])  # "": the chat's main one
    skipped: int = 0  # lines that could not be read

    @property
    def count(self) -> int:
        """The number of its messages."""
        return sum(len(told.messages) for told in self.agents.values())

    def add(self, line: TranscriptLine) -> None:
        """Take in what a line tells."""
        self.skipped += line.skipped
        if line != NOTHING:
            self.agents.setdefault(line.agent, Told()).add(line)


class Transcript(Protocol):
    """A chat's transcript, wherever its host keeps it."""

    @property
    def host(self) -> str:
        """The name of the host that wrote it."""
        ...

    @property
    def path(self) -> Path:
        """The file it is in."""
        ...

    @property
    def is_hosts_word(self) -> bool:
        """Whether the host itself wrote it, so that it tells who said what."""
        ...

    @property
    def address(self) -> str:
        """The hash of where it is."""
        ...

    def address_if(self, is_hosts_word: bool) -> str:
        """The address that it has where it is read as the host's word, or as the agent's."""
        ...

    def size(self) -> int:
        """The bytes of its file as it is now; 0 where it shares one with others."""
        ...

    def chat(self) -> Chat:
        """The chat that it tells of."""
        ...

    def read(self, mark: Mark | None) -> TranscriptPart:
        """The next piece after a mark; from the start where that does not fit any more."""
        ...

    def lines(self) -> Iterator[TranscriptLine]:
        """All messages of the transcript, in its order; lines that cannot be read are left out."""
        ...


def early_id_of_result(call: str) -> str:
    """The id of a result that a hook tells of before the host writes it down."""
    return f"result of {call}"


def message_of(
    obj: JsonObject,
    shape: Shape,
    host_id: str,
    at: object = None,
    via: HeardVia | None = None,
    *,
    speaker: Speaker = "",
    is_signed: bool = False,
) -> tuple[IncomingMessage, ...]:
    """A message as it goes into the log; none where it says nothing. What the host or another agent
    wrote in the user's role is no word of the user's.

    `is_signed`: the host itself says who wrote it. Where it does not, a text in the user's role
    whose host text cannot be told from other words is nobody's. Raises MalformedMessage where it
    is no message, or too large for one.
    """
    role, parts = FORMATS[shape].read(obj, "the message")
    raw = dump_original(obj, "the message")
    check_size(raw, "the message")
    if not any(map(_says, parts)):
        return ()
    if via is None and role == "user" and not is_signed:
        texts = (part.text for part in parts if isinstance(part, Text))
        via = "tool" if any(map(has_words_between_endings, texts)) else None
    moment = parse_moment(at if isinstance(at, str | int | float) else None)
    results = [part for part in parts if isinstance(part, ToolResult)]
    early = early_id_of_result(results[0].call) if len(results) == len(parts) == 1 else None
    message = IncomingMessage(
        shape=shape,
        raw=raw,
        host_id=host_id,
        early_id=early,
        at=moment,
        via="tool" if role == "user" and speaker in ("host", "agent") else via,
        speaker=speaker,
    )
    return (message,)


def says_something(message: JsonObject) -> bool:
    """Whether anything of a provider's message is worth recording: a thought may be empty."""
    _, parts = FORMATS["anthropic"].read(message, "the message") if message else ("", ())
    return any(map(_says, parts))


def _says(part: Part) -> bool:
    return bool(part.text.strip()) if isinstance(part, Text | Thinking) else True


def text_at(obj: Mapping[str, object], key: str) -> str | None:
    """The text under a key, unless it is empty."""
    value = obj.get(key)
    return value if isinstance(value, str) and value else None


def value_at(data: Any, place: Sequence[str | int]) -> Any:
    """The value at some keys and places, one within the other; None where there is none."""
    for key in place:
        is_there = (isinstance(data, dict) and key in data) or (
            isinstance(data, list) and isinstance(key, int) and key < len(cast("list[Any]", data))
        )
        data = cast("Any", data)[key] if is_there else None
    return data


def words_at(value: object, place: Sequence[str]) -> str:
    """The text that stands there, or none."""
    found = value_at(value, place)
    return found if isinstance(found, str) else ""


def object_at(obj: JsonObject, key: str) -> JsonObject:
    """The object under a key; empty where there is none."""
    value = obj.get(key)
    return value if isinstance(value, dict) else {}


def count_at(obj: JsonObject, key: str) -> int:
    """The positive number under a key, else 0."""
    value = obj.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0

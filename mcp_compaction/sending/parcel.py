"""What goes over the wire between a store of one machine and a team's server."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from typing import Annotated, Final

from pydantic import AfterValidator, AwareDatetime, ConfigDict, Field

from mcp_compaction.formats import Incoming, IncomingMessage
from mcp_compaction.model import Author, Message, Pin, PinKind, PinScope, Shape, Speaker, Value, Via

PATH: Final = "/sent"
MOST_MESSAGES: Final = 200
MOST_BYTES: Final = 2**20  # of messages in one parcel; a longer message goes alone
MOST_BODY: Final = 2**26  # bytes that a server reads of one

_Name = Annotated[str, Field(max_length=1000)]


def _to_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("a time that no calendar has") from None


_Moment = Annotated[AwareDatetime, AfterValidator(_to_utc)]


class SentMessage(Value):
    """One message as its own store has it."""

    seq: int
    shape: Shape
    raw: str
    at: _Moment | None = None
    via: Via = "host"
    # Left out where it says nothing: an older server takes no field that it does not know.
    speaker: Speaker = Field(default="", exclude_if=lambda speaker: not speaker)


class SentPin(Value):
    """A pin as it is in force in its own store."""

    number: int
    text: str
    kind: PinKind
    scope: PinScope
    author: Author
    expires: _Moment | None = None
    checks: str = ""


class Parcel(Value):
    """Some messages of one session, in order, or some of its pins."""

    source: _Name  # the session, among all of all machines
    parent: _Name = ""  # the session that started it
    project: _Name
    name: _Name
    host: _Name = ""
    agent: _Name = ""
    messages: tuple[SentMessage, ...] = ()
    pins: tuple[SentPin, ...] = ()
    released: tuple[int, ...] = ()  # pins that came so before, by their numbers on the server


class ServerAnswer(Value):
    """What a server answers; a newer one may say more."""

    model_config = ConfigDict(extra="ignore")


class TakenParcel(ServerAnswer):
    """What the server did with a parcel."""

    new: int  # messages that it did not know
    # By their numbers in their own store: the pins' numbers on the server, or why they have none.
    pins: dict[int, int] = Field(default_factory=dict[int, int])
    refused: dict[int, str] = Field(default_factory=dict[int, str])


class SharedPin(ServerAnswer):
    """A pin of a project as the server has it."""

    number: int
    text: str
    kind: PinKind
    author: Author
    checks: str = ""


class SharedPins(ServerAnswer):
    """The pins that are in force in a project."""

    pins: tuple[SharedPin, ...]


def sent_message(message: Message) -> SentMessage:
    """A message as it is sent; a program's prompt counts there as only told by the agent."""
    via: Via = "host" if message.via == "host" else "tool"
    return SentMessage(
        seq=message.seq,
        shape=message.shape,
        raw=message.raw,
        at=message.at,
        via=via,
        speaker=message.speaker,
    )


def sent_pin(pin: Pin) -> SentPin:
    """A pin as it is sent."""
    return SentPin(
        number=pin.number,
        text=pin.text,
        kind=pin.kind,
        scope=pin.scope,
        author="user" if pin.author == "user" else "agent",
        expires=pin.expires,
        checks=pin.checks,
    )


def incoming_of(parcel: Parcel) -> Incoming:
    """What came, each message under an id of its own: its place and its words.

    By that id a message that comes again is known; a store that was put back to an older state
    and went on differently has other words at the same place.
    """
    return Incoming(
        messages=tuple(
            IncomingMessage(
                shape=one.shape,
                raw=one.raw,
                at=one.at,
                via=one.via,
                speaker=one.speaker,
                host_id=f"{one.seq}:{sha256(one.raw.encode('utf-8', 'replace')).hexdigest()[:24]}",
            )
            for one in parcel.messages
        )
    )

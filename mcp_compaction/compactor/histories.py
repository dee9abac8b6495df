"""What stands in the place of a caller's history, as one value, and what a process remembers of the
histories that callers sent, so that only news are paid for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple, TypeVar

from mcp_compaction.formats import FORMATS
from mcp_compaction.formats.identity import bare_fingerprint_of
from mcp_compaction.model import JsonObject, NewMessage, Part, Role, Run, Session, Shape

T = TypeVar("T")

ViewState = tuple[int, tuple[int, ...]]
"""What the layout of a window depends on: the version of its view, and the pins in force."""


def state_of(window: Session) -> ViewState:
    """What the layout of a window depends on now."""
    return window.view.version, tuple(pin.number for pin in window.pins)


class Layout(NamedTuple):
    """What stands for every history that begins with certain messages.

    Messages that stay always come from the history at hand, with their cache marks, their
    signatures and whatever keys they have.
    """

    length: int  # of those messages
    mark: str  # by which they are known
    places: tuple[int | JsonObject, ...]  # the place of a message that stays, or an object of ours
    view: ViewState | None = None  # that it shows; None: it is not known

    def serves(self, prints: Sequence[bytes]) -> bool:
        """Whether a history, by its fingerprints, begins with those messages."""
        return len(prints) >= self.length and mark_of_prints(prints[: self.length]) == self.mark

    def apply(self, history: Sequence[T]) -> list[T | JsonObject]:
        """What to send for a history that it serves, whatever its owner has for each message."""
        laid = [history[one] if isinstance(one, int) else one for one in self.places]
        return [*laid, *history[self.length :]]

    def is_like(self, other: Layout) -> bool:
        """Whether it gives the same messages for the same histories."""
        return self[:3] == other[:3]


def mark_of_prints(prints: Sequence[bytes]) -> str:
    """The mark of messages by their fingerprints."""
    return blake2b(b"".join(prints), digest_size=16).hexdigest()


def layout_between(
    prints: Sequence[bytes],
    given: Sequence[JsonObject],
    laid: Sequence[JsonObject],
    view: ViewState | None = None,
) -> Layout:
    """The layout by which a history became what was laid out around its own objects."""
    place_of = {id(obj): place for place, obj in enumerate(given)}
    places: list[int | JsonObject] = [place_of.get(id(obj), obj) for obj in laid]
    end = len(given)
    while places and places[-1] == end - 1 and isinstance(places[-1], int):
        places.pop()
        end -= 1
    return Layout(end, mark_of_prints(prints[:end]), tuple(places), view)


class Seen(NamedTuple):
    """What a message that came is: a message of the log, our cut of one, or a record of ours."""

    seq: int | None  # None: a record of ours
    is_whole: bool = True


class Frame(NamedTuple):
    """The view without what came after it, around the own objects of a caller."""

    state: ViewState
    upto: int
    objects: tuple[JsonObject | None, ...]  # None: the caller's own, by its number
    prints: tuple[bytes, ...]
    seen: tuple[Seen, ...]
    later: dict[int, list[JsonObject]]  # what stands for messages that came after it
    late_pins: dict[int, list[JsonObject]]  # and what stands behind some of them

    def serves(self, state: ViewState, own: Mapping[int, JsonObject]) -> bool:
        """Whether it is the frame of that view, for a caller that has these messages."""
        wanted = (s.seq for s, obj in zip(self.seen, self.objects, strict=True) if obj is None)
        return self.state == state and all(seq in own for seq in wanted)


Answer = tuple[Role, tuple[Part, ...]]
"""What a model answered, whichever keys an SDK puts beside it."""


class Counted(NamedTuple):
    """Our count of a window as it was shown."""

    version: int  # of its view
    tokens: int
    per_message: int  # that each one takes beside its own

    def plus(self, messages: Sequence[NewMessage]) -> Counted:
        """The count with more messages behind it."""
        more = sum(message.tokens + self.per_message for message in messages)
        return self._replace(tokens=self.tokens + more)


class KnownHistory(NamedTuple):
    """A history as it was last sent."""

    shape: Shape
    is_sure: bool  # of its shape
    prints: list[bytes]
    seen: list[Seen]
    newest: int  # message of the log then
    gone: tuple[Run, ...]  # messages of the log that it does not have
    rest: bytes  # the fingerprint of what stood beside the messages
    bare: dict[bytes, bytes]  # the prints of messages with host text, without it
    frame: Frame | None = None
    answers: tuple[Answer, ...] = ()  # the last of them, recorded before the caller sent them
    counted: Counted | None = None  # of what is shown for it; None: it has to be read

    def start_of(
        self, prints: Sequence[bytes], messages: Sequence[JsonObject]
    ) -> KnownHistory | None:
        """This history as another one begins with it; None where that does not.

        What a host put into a message may have changed; answers are known by what they say.
        """
        start = list(prints[: len(self.prints)])
        if len(start) < len(self.prints):
            return None
        if start == self.prints:
            return self._replace(answers=())
        bare = dict(self.bare)
        for place, (known, new) in enumerate(zip(self.prints, start, strict=True)):
            if known == new or self._is_answer(place, messages[place]):
                continue
            found = bare_fingerprint_of(messages[place])
            if found != self.bare.get(known, known):
                return None
            bare[new] = found
        left = bare.keys() & set(start)
        return self._replace(prints=start, bare={one: bare[one] for one in left}, answers=())

    def _is_answer(self, place: int, message: JsonObject) -> bool:
        """Whether a message says what a model answered there."""
        first = len(self.prints) - len(self.answers)
        if place < first:
            return False
        return FORMATS[self.shape].read(message, "the answer") == self.answers[place - first]

    def with_answer(
        self, prints: Sequence[bytes], seqs: Sequence[int], answers: tuple[Answer, ...], new: int
    ) -> KnownHistory:
        """The history with what a model answered."""
        return self._replace(
            prints=[*self.prints, *prints],
            seen=[*self.seen, *map(Seen, seqs)],
            newest=self.newest + new,
            answers=(*self.answers, *answers),
        )


def find_longest_start(
    histories: Sequence[KnownHistory], prints: Sequence[bytes], messages: Sequence[JsonObject]
) -> KnownHistory | None:
    """The longest of some histories that another one begins with, as it begins with it."""
    starts = (history.start_of(prints, messages) for history in histories)
    found = [start for start in starts if start is not None]
    return max(found, key=lambda start: len(start.prints), default=None)

"""What is sent in place of a caller's history: the places of its messages that stay, and ours."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple, TypeVar

from mcp_compaction.model import JsonObject, Session

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
        return len(prints) >= self.length and mark_of(prints[: self.length]) == self.mark

    def apply(self, history: Sequence[T]) -> list[T | JsonObject]:
        """What to send for a history that it serves, whatever its owner has for each message."""
        laid = [history[one] if isinstance(one, int) else one for one in self.places]
        return [*laid, *history[self.length :]]

    def is_like(self, other: Layout) -> bool:
        """Whether it gives the same messages for the same histories."""
        return self[:3] == other[:3]


def mark_of(prints: Sequence[bytes]) -> str:
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
    return Layout(end, mark_of(prints[:end]), tuple(places), view)

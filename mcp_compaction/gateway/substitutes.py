"""What stands for the beginning of a history: our records, and places of messages that stay.

Messages that stay always come from the request at hand, with their cache marks, their signatures
and whatever keys they have.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

from mcp_compaction.model import JsonObject


class Substitute(NamedTuple):
    """A layout for every history that begins with certain messages."""

    length: int  # of those messages
    mark: str  # by which they are known
    layout: tuple[int | JsonObject, ...]  # the place of a message that stays, or an object of ours
    view: object = None  # what it was made of: it serves until that is another

    def serves(self, prints: Sequence[bytes]) -> bool:
        """Whether a history begins with those messages."""
        return len(prints) >= self.length and mark_of(prints[: self.length]) == self.mark

    def apply(self, messages: Sequence[JsonObject]) -> list[JsonObject]:
        """The messages to send for a history that it serves."""
        laid = [messages[one] if isinstance(one, int) else one for one in self.layout]
        return [*laid, *messages[self.length :]]

    def is_like(self, other: Substitute) -> bool:
        """Whether it gives the same messages for the same histories."""
        return self[:3] == other[:3]


def mark_of(prints: Sequence[bytes]) -> str:
    """The mark of messages by their fingerprints."""
    return blake2b(b"".join(prints), digest_size=16).hexdigest()


def make_substitute(
    prints: Sequence[bytes],
    given: Sequence[JsonObject],
    laid: Sequence[JsonObject],
    view: object = None,
) -> Substitute:
    """The substitute by which a history became what was laid out around its own objects.

    What the host itself tells the model, its environment say, stays: it stands behind the first
    request, where hosts put it.
    """
    places = {id(obj): place for place, obj in enumerate(given)}
    layout: list[int | JsonObject] = [places.get(id(obj), obj) for obj in laid]
    end = len(given)
    while layout and layout[-1] == end - 1 and isinstance(layout[-1], int):
        layout.pop()
        end -= 1
    shown = {one for one in layout if isinstance(one, int)}
    told = {prints[n]: n for n in range(end) if n not in shown and _is_told_by_host(given[n])}
    first = next((n + 1 for n, one in enumerate(layout) if _is_request(one, given)), 0)
    layout[first:first] = told.values()  # each once: hosts repeat their reminders
    return Substitute(end, mark_of(prints[:end]), tuple(layout), view)


def _is_told_by_host(message: JsonObject) -> bool:
    """Whether a message is the host's own word to the model: its environment, its tools."""
    is_system = message.get("role") in ("system", "developer")
    return is_system or message.get("type") == "additional_tools"


def _is_request(entry: int | JsonObject, given: Sequence[JsonObject]) -> bool:
    return isinstance(entry, int) and given[entry].get("role") == "user"


def begins_with(prints: Sequence[bytes], known: Sequence[bytes]) -> bool:
    """Whether a history is another one, or that with more behind it."""
    return list(prints[: len(known)]) == list(known)

"""What a process remembers of the histories that callers sent, so that only news are paid for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mcp_compaction.formats import FORMATS
from mcp_compaction.model import JsonObject, Part, Role, Run, Shape

_MOST_KNOWN = 64  # sessions


class Seen(NamedTuple):
    """What a message that came is: a message of the log, our cut of one, or a record of ours."""

    seq: int | None  # None: a record of ours
    is_whole: bool = True


class Frame(NamedTuple):
    """The view without what came after it, around the own objects of a caller."""

    version: int
    pins: tuple[int, ...]  # that were in force then
    upto: int
    objects: tuple[JsonObject | None, ...]  # None: the caller's own, by its number
    prints: tuple[bytes, ...]
    seen: tuple[Seen, ...]
    later: dict[int, list[JsonObject]]  # what stands for messages that came after it
    late_pins: dict[int, list[JsonObject]]  # and what stands behind some of them

    def serves(self, version: int, pins: tuple[int, ...], own: Mapping[int, JsonObject]) -> bool:
        """Whether it is the frame of that view, for a caller that has these messages."""
        wanted = (s.seq for s, obj in zip(self.seen, self.objects, strict=True) if obj is None)
        is_same = (self.version, self.pins) == (version, pins)
        return is_same and all(seq in own for seq in wanted)


Answer = tuple[Role, tuple[Part, ...]]
"""What a model answered, whichever keys an SDK puts beside it."""


class KnownHistory(NamedTuple):
    """A history as it was last sent."""

    shape: Shape
    is_sure: bool  # of its shape
    prints: list[bytes]
    seen: list[Seen]
    newest: int  # message of the log then
    gone: tuple[Run, ...]  # messages of the log that it does not have
    rest: bytes  # the fingerprint of what stood beside the messages
    frame: Frame | None = None
    answers: tuple[Answer, ...] = ()  # the last of them, recorded before the caller sent them

    def begins_but_answers(self, prints: Sequence[bytes]) -> bool:
        """Whether another history begins with this one, as far as a caller sent it before."""
        sent = len(self.prints) - len(self.answers)
        return len(prints) >= len(self.prints) and list(prints[:sent]) == self.prints[:sent]

    def start_of(
        self, prints: Sequence[bytes], messages: Sequence[JsonObject]
    ) -> KnownHistory | None:
        """This history as another one begins with it; answers are known by what they say."""
        form = FORMATS[self.shape]
        first = len(self.prints) - len(self.answers)
        for place, answer in enumerate(self.answers, start=first):
            is_same = prints[place] == self.prints[place]
            if not is_same and form.read(messages[place], "the answer") != answer:
                return None
        return self._replace(prints=list(prints[: len(self.prints)]), answers=())

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


class KnownHistories:
    """The newest histories of each session: what a caller sent, and what it was given for it."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[KnownHistory, ...]] = {}

    def of(self, session: int) -> tuple[KnownHistory, ...]:
        """The histories that are remembered, the sent one first."""
        return self._known.get(session, ())

    def find(self, session: int, prints: Sequence[bytes]) -> KnownHistory | None:
        """The longest remembered history that another one begins with."""
        found = (history for history in self.of(session) if history.begins_but_answers(prints))
        return max(found, key=lambda history: len(history.prints), default=None)

    def keep(self, session: int, *histories: KnownHistory) -> None:
        """Remember histories in place of those before."""
        self._known.pop(session, None)
        self._known[session] = histories
        if len(self._known) > _MOST_KNOWN:
            del self._known[next(iter(self._known))]

    def drop(self, session: int) -> None:
        """Remember nothing of a session."""
        self._known.pop(session, None)

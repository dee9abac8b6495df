"""Finds the words of a pin in what users said, and tells how far they are the user's own."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Literal, NamedTuple

from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.text.pasted import unify_lines
from mcp_compaction.core.text.wholes import LaidOutText, Standing
from mcp_compaction.core.text.words import one_line
from mcp_compaction.model import Message, Text

_LEAST_CHARS = 8


class Saying(NamedTuple):
    """Where the words of a pin stand, and how far they are the user's own.

    said: the user's own words, which mean the same alone. part: words torn out of what governs
    them. told: only an agent recorded that the user said them. passed on: the user quotes or pastes
    them, or a host put them there.
    """

    ref: str
    how: Literal["said", "part", "told", "passed on"]
    whole: str = ""  # of a part: the words that mean the same alone
    is_told: bool = False  # of a part: only an agent recorded the message
    is_programs: bool = False  # a program sent the message: no person is known to have typed it

    @property
    def is_spoken(self) -> bool:
        """Whether the message says just these words."""
        return self.how in ("said", "told")


class Requests:
    """The messages of users, in which the words of many lines are looked for."""

    def __init__(self, messages: Iterable[Message]) -> None:
        """Fold each message once."""
        asked = [m for m in messages if m.role == "user"]
        self._own = {m.seq: _list_said(m) for m in conversation_of(asked) if m.text}
        both = ((m, dict.fromkeys((m.text, *self._own.get(m.seq, ())))) for m in asked)
        self._texts = [(m, one_line(unify_lines("\n".join(one)))) for m, one in both if any(one)]

    def saying_of(self, text: str) -> Saying | None:
        """The message that holds these words, the best first."""
        wanted = unify_lines(text)
        words = wanted.split()  # also where the text leaves something out in between
        if len(wanted.strip()) < _LEAST_CHARS:
            return None
        best: Saying | None = None
        for message, folded in self._texts:
            if words[-1] not in folded or not all(map(folded.__contains__, words)):
                continue  # a cheap look: to read a message for its parts takes far longer
            stand = self._standing_in(message, wanted)
            if stand is None:
                continue
            found = _saying_in(message, stand)
            if found.how == "said" and not found.is_programs:
                return found
            if best is None or _ORDER.index(found.how) < _ORDER.index(best.how):
                best = found
        return best

    def _standing_in(self, message: Message, wanted: str) -> Standing | None:
        """How a message holds these words; what only the host says in it is passed on."""
        own = self._own.get(message.seq, [])
        found = [_read(unify_lines(text)).standing_of(wanted) for text in own]
        standing = min(filter(None, found), key=lambda one: _ORDER.index(one.how), default=None)
        if standing is not None or own == [message.text]:
            return standing
        in_all = _read(unify_lines(message.text)).standing_of(wanted)
        return Standing("passed on") if in_all else None


def _list_said(message: Message) -> list[str]:
    """What a user said in a message; each of several answers to an agent stands for itself."""
    said = [part.text for part in message.parts if isinstance(part, Text)]
    return said if message.speaker == "user" else [message.text]


_ORDER = ("said", "told", "part", "passed on")


def _saying_in(message: Message, stand: Standing) -> Saying:
    if message.via != "tool" or stand.how == "passed on":
        return Saying(message.ref, *stand, is_programs=message.via == "program")
    if stand.how == "said":
        return Saying(message.ref, "told")
    return Saying(message.ref, *stand, is_told=True)


def saying_of(text: str, messages: Iterable[Message]) -> Saying | None:
    """The user message that holds these words, the best first."""
    return Requests(messages).saying_of(text)


def whole_of(words: str, text: str) -> str:
    """What of a text means the same alone and holds these words; blank where nothing does."""
    read = _read(unify_lines(text))
    standing = read.standing_of(unify_lines(words))
    if standing is None or standing.how != "part":
        return words if standing is not None and standing.how == "said" else ""
    whole = read.standing_of(standing.whole)
    return standing.whole if whole is not None and whole.how == "said" else ""


@lru_cache(maxsize=32)
def _read(text: str) -> LaidOutText:
    return LaidOutText(text)

"""Finds the words of a pin in what users said, and tells how far they are the user's own."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, lru_cache
from itertools import islice
from typing import Literal, NamedTuple

from mcp_compaction.core.limits import MOST_TRIED
from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.text.pasted import TextSpan, is_passed_on, passed_on_spans, unify_lines
from mcp_compaction.core.text.wholes import LaidOutText, fold_lines, is_laid_out_as
from mcp_compaction.model import Message

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
    cuts: bool = False  # whether a part cuts a sentence
    is_told: bool = False  # of a part: only an agent recorded the message

    @property
    def is_spoken(self) -> bool:
        """Whether the message says these words as whole sentences."""
        return self.how in ("said", "told") or (self.how == "part" and not self.cuts)


class _Standing(NamedTuple):
    """How a text holds some words."""

    how: Literal["said", "part", "passed on"]
    whole: str = ""
    cuts: bool = False


class Requests:
    """The messages of users, in which the words of many lines are looked for."""

    def __init__(self, messages: Iterable[Message]) -> None:
        """Fold each message once."""
        self._texts = [(m, unify_lines(m.text)) for m in messages if m.is_request]
        self._folded = [fold_lines(text) for _, text in self._texts]
        self._own = {m.seq: m.text for m in conversation_of(m for m, _ in self._texts)}

    @cached_property
    def _all(self) -> str:
        return "\n".join(self._folded)

    def saying_of(self, text: str) -> Saying | None:
        """The message that holds these words, the best first."""
        unified = unify_lines(text)
        wanted = fold_lines(unified)
        words = wanted.split()  # also where the text leaves something out in between
        tail = words[-1] if words else ""
        if len(wanted) < _LEAST_CHARS or tail not in self._all:
            return None
        best: Saying | None = None
        for (message, said), folded in zip(self._texts, self._folded, strict=True):
            if tail not in folded or not all(map(folded.__contains__, words)):
                continue  # a cheap look: to read a message for its parts takes far longer
            stand = self._standing_in(message, said, wanted)
            if stand is None:
                continue
            if stand.how == "said" and not is_laid_out_as(unified, said):
                stand = _Standing("part", wanted)
            found = _saying_in(message, stand)
            if found.how == "said":
                return found
            if best is None or _ORDER.index(found.how) < _ORDER.index(best.how):
                best = found
        return best

    def _standing_in(self, message: Message, said: str, wanted: str) -> _Standing | None:
        """How a message holds these words; what only the host says in it is passed on."""
        own = self._own.get(message.seq, "")
        if own == message.text:
            return _standing_of(wanted, said)
        standing = _standing_of(wanted, unify_lines(own)) if own else None
        return standing or (_Standing("passed on") if _standing_of(wanted, said) else None)


_ORDER = ("told", "part", "passed on")


def _saying_in(message: Message, stand: _Standing) -> Saying:
    if message.via == "host" or stand.how == "passed on":
        return Saying(message.ref, *stand)
    if stand.how == "said":
        return Saying(message.ref, "told")
    return Saying(message.ref, *stand, is_told=True)


def saying_of(text: str, messages: Iterable[Message]) -> Saying | None:
    """The user message that holds these words, the best first."""
    return Requests(messages).saying_of(text)


def whole_of(words: str, text: str) -> str:
    """What of a text means the same alone and holds these words; blank where nothing does."""
    said = unify_lines(text)
    standing = _standing_of(fold_lines(unify_lines(words)), said)
    if standing is None or standing.how != "part":
        return words if standing is not None and standing.how == "said" else ""
    whole = _standing_of(fold_lines(standing.whole), said)
    return standing.whole if whole is not None and whole.how == "said" else ""


@lru_cache(maxsize=32)
def _read(text: str) -> tuple[LaidOutText, tuple[TextSpan, ...]]:
    return LaidOutText(text), passed_on_spans(text)


def _standing_of(wanted: str, text: str) -> _Standing | None:
    """How a text holds these words; None: it does not."""
    read, spans = _read(text)
    standing: _Standing | None = None
    for start, end in islice(_places_of(wanted, read.folded), MOST_TRIED):
        if is_passed_on(read.places[start], read.places[end - 1] + 1, spans):
            standing = standing or _Standing("passed on")
            continue
        units = read.units_at(start, end)
        whole = read.whole_of(units or read.units_over(start, end))
        if units is not None and whole <= set(units):
            return _Standing("said")
        if standing is None or standing.how == "passed on":
            standing = _Standing("part", read.raw_of(whole), units is None)
    return standing or _standing_with_head(wanted, read, spans)


def _places_of(wanted: str, folded: str) -> Iterable[tuple[int, int]]:
    """Where these words stand as whole words."""
    start = folded.find(wanted)
    while wanted and start >= 0:
        end = start + len(wanted)
        before, after = folded[start - 1 : start] if start else "", folded[end : end + 1]
        if not (_goes_on(before, wanted[0]) or _goes_on(wanted[-1], after)):
            yield start, end
        start = folded.find(wanted, end)


def _goes_on(one: str, other: str) -> bool:
    """Whether two signs are inside one word; of a wide script nobody can tell."""
    return one.isascii() and other.isascii() and one.isalnum() and other.isalnum()


def _standing_with_head(
    wanted: str, read: LaidOutText, spans: tuple[TextSpan, ...]
) -> _Standing | None:
    """Whether the words are a part with all that governs it, without what stands between."""
    held = ((number, unit) for number, unit in enumerate(read.units) if unit.text in wanted)
    for number, unit in islice(held, MOST_TRIED):
        for part in ((number,), read.blocks[unit.block].units):
            whole = read.whole_of(part)
            ways = {read.folded_of(whole), read.folded_of(whole, with_signs=False)}
            if wanted in ways and not any(_is_passed_on(read, one, spans) for one in whole):
                return _Standing("said")
    return None


def _is_passed_on(read: LaidOutText, number: int, spans: tuple[TextSpan, ...]) -> bool:
    unit = read.units[number]
    return is_passed_on(read.places[unit.start], read.places[unit.end - 1] + 1, spans)

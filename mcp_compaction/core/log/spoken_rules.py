"""Finds the rules that users stated in a session and nobody has pinned, and tells how far the words
of a pin are the user's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from mcp_compaction.core.limits import LONGEST_SENTENCE, MOST_LOOKED_AT
from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.reading import read_once
from mcp_compaction.core.text.signs import FoundRule, find_likely_rules
from mcp_compaction.core.text.wholes import LaidOutText, Standing, unify_lines
from mcp_compaction.core.text.words import fold, one_line
from mcp_compaction.lexicon.languages import Strength
from mcp_compaction.model import Candidate, Message, Pin, Text

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


class LikelyRule(NamedTuple):
    """A sentence that may be a rule, where it was said, and how plainly it is one."""

    candidate: Candidate
    strength: Strength


def unpinned_rules(messages: Sequence[Message], pins: Sequence[Pin]) -> tuple[Candidate, ...]:
    """The constraints that users stated and nobody has pinned yet, each once, oldest first."""
    found: dict[str, Candidate] = {}
    for rule in likely_rules(messages, pins):
        if rule.strength != "hint":
            found.setdefault(fold(rule.candidate.text), rule.candidate)
    return tuple(found.values())


def likely_rules(messages: Sequence[Message], pins: Sequence[Pin]) -> Iterator[LikelyRule]:
    """What users said that nobody has pinned and that is or may be a rule, each time it was said,
    oldest first."""
    pinned = PinnedRules(pins)
    for message in conversation_of(messages):
        if message.role != "user":
            continue
        rules = (rule for said in _list_said(message) for rule in _whole_likely_rules(said))
        for text, strength in rules:
            if not pinned.hold(text):
                is_told = message.via == "tool"
                candidate = Candidate(ref=message.ref, text=text, is_told=is_told)
                yield LikelyRule(candidate, strength)


def whole_rules(text: str) -> tuple[str, ...]:
    """The rules of a text, each on one line with what may turn it round."""
    found = _whole_likely_rules(text)
    return tuple(one_line(rule.text) for rule in found if rule.strength != "hint")


@read_once
def _whole_likely_rules(text: str) -> tuple[FoundRule, ...]:
    """The likely rules of a text, each with the heading, list head or sentence that may turn it
    round, so that a pin of it is the user's; where there are very many, only the first of them."""
    found = find_likely_rules(text)
    first, others = found[:MOST_LOOKED_AT], found[MOST_LOOKED_AT:]
    wholes = ((rule, whole_of(rule.text, text)) for rule in first)
    return (
        *(
            rule._replace(text=whole) if 0 < len(whole) <= LONGEST_SENTENCE else rule
            for rule, whole in wholes
        ),
        *others,
    )


class PinnedRules:
    """The rules that are pinned: an agent's pin counts only for the very words that it holds, so
    that none hides what the user said."""

    def __init__(self, pins: Iterable[Pin]) -> None:
        self._exact: set[str] = set()
        self._users: list[str] = []
        for pin in pins:
            words = fold(pin.text)
            self._exact.add(words)
            self._users += [words] if pin.author == "user" else []

    def hold(self, rule: str) -> bool:
        """Whether a rule is pinned."""
        return fold(rule) in self._exact or is_known(rule, self._users)


def is_known(text: str, known: Iterable[str]) -> bool:
    """Whether a rule says more or less the same as one that is known."""
    words = fold(text)
    return any(words in pinned or pinned in words for pinned in known)

"""Finds the rules that users stated in a session and nobody has pinned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from mcp_compaction.core.limits import LONGEST_SENTENCE, MOST_LOOKED_AT
from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.log.quotes import whole_of
from mcp_compaction.core.text.reading import read_once
from mcp_compaction.core.text.rules import FoundRule, find_likely_rules
from mcp_compaction.core.text.words import fold, one_line
from mcp_compaction.lexicon.languages import Strength
from mcp_compaction.model import Candidate, Message, Pin


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
        for text, strength in _whole_likely_rules(message.text):
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

"""Finds the rules that users stated in a session and nobody has pinned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.text.rules import find_likely_rules
from mcp_compaction.core.text.words import fold
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
    known = [fold(pin.text) for pin in pins]
    for message in conversation_of(messages):
        if message.role != "user":
            continue
        for text, strength in find_likely_rules(message.text):
            if not is_known(text, known):
                is_told = message.via == "tool"
                candidate = Candidate(ref=message.ref, text=text, is_told=is_told)
                yield LikelyRule(candidate, strength)


def is_known(text: str, known: Iterable[str]) -> bool:
    """Whether a rule says more or less the same as one that is known."""
    words = fold(text)
    return any(words in pinned or pinned in words for pinned in known)

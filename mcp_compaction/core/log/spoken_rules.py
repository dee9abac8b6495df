"""Finds the rules that users stated in a session and nobody has pinned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mcp_compaction.core.text.rules import find_rules
from mcp_compaction.core.text.words import fold
from mcp_compaction.model import Candidate, Message, Pin


def unpinned_rules(messages: Sequence[Message], pins: Sequence[Pin]) -> tuple[Candidate, ...]:
    """The constraints that users stated and nobody has pinned yet, each once, oldest first."""
    known = [fold(pin.text) for pin in pins]
    found: dict[str, Candidate] = {}
    for message in messages:
        if message.role != "user":
            continue
        for sentence in find_rules(message.text):
            words = fold(sentence)
            if not is_known(sentence, known):
                is_told = message.via == "tool"
                found.setdefault(words, Candidate(ref=message.ref, text=sentence, is_told=is_told))
    return tuple(found.values())


def is_known(text: str, known: Iterable[str]) -> bool:
    """Whether a rule says more or less the same as one that is known."""
    words = fold(text)
    return any(words in pinned or pinned in words for pinned in known)

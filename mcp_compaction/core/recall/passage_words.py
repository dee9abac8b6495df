"""Tells for thousands of queries at once which messages hold all their words.

To ask a full-text index would cost each query a look at all places of every common word it names.
Here the texts are read once, and a term is looked for only where all its words stand.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from mcp_compaction.core.text.patterns import pattern_of

_WORD = pattern_of(r"[a-z0-9]+|[^\W_a-z0-9]+")  # a name may stand in a script without spaces


class Passage(NamedTuple):
    """A piece of a message."""

    number: int  # of the message
    text: str


class PassageWords:
    """The words of some passages, in which queries are looked for."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        """Read each passage once, for all queries that will come."""
        self._with: dict[str, set[int]] = defaultdict(set)  # the messages with each word
        self._texts: dict[int, list[str]] = defaultdict(list)
        for number, text in passages:
            words = _words_of(text)
            self._texts[number].append(f" {' '.join(words)} ")
            for word in set(words):
                self._with[word].add(number)

    def find_messages_with_all(
        self, queries: Sequence[Sequence[str]], limit: int
    ) -> tuple[tuple[int, ...], ...]:
        """For each query, given by its terms, the newest messages that hold all of them.

        A term with a word that stands nowhere does not count: the last of a long line may be cut.
        """
        held = {term: self._messages_with(term) for term in {t for query in queries for t in query}}
        return tuple(
            tuple(sorted(set[int].intersection(*found), reverse=True)[:limit]) if found else ()
            for found in ([held[term] for term in query if held[term]] for query in queries)
        )

    def _messages_with(self, term: str) -> set[int]:
        """The messages in which the words of a term stand side by side."""
        words = _words_of(term)
        found = set[int].intersection(*(self._with.get(word, set()) for word in words or [""]))
        phrase = f" {' '.join(words)} "
        return {n for n in found if any(phrase in text for text in self._texts[n])}


def _words_of(text: str) -> list[str]:
    return _WORD.findall(text.lower())

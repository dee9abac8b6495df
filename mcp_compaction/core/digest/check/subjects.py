"""Tells whether a source speaks at all of what a line tells, whatever its wording."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

from mcp_compaction.core.digest.check.evidence import Evidence, words_in
from mcp_compaction.core.digest.check.successes import TELLS_OF_THE_PAST
from mcp_compaction.core.log.findings import exact_words
from mcp_compaction.core.text.language import Votes, count_votes, main_language
from mcp_compaction.core.text.words import telling_stem
from mcp_compaction.lexicon.languages import head_of
from mcp_compaction.model import Item, SectionName

_ENOUGH = 0.4  # of the telling words of a line, those that the source has in some form
_FEWEST_WORDS = 2
_LONGEST_STEM = 5  # letters: "deploy" and "deployment" are one word
_FEWEST_VOTES = 30  # for a language, of a source that says enough to be held against a line
_CLEARLY = 3  # times the votes for any other language


@dataclass(frozen=True)
class Subjects:
    """What a source speaks of: all its texts, and the words of those who speak in it."""

    evidence: Evidence
    spoken: str

    def hold(self, section: SectionName, item: Item) -> bool:
        """Whether the source has enough of the words of a line that tells of the past. A line
        that names something exact has been compared by that, one in another language than the
        source has other words, and without a stemmer the forms of a word look like different
        words: they are believed."""
        # A heading of somebody's own tells nothing.
        is_heading = item.text.endswith(":")
        if section not in TELLS_OF_THE_PAST or is_heading or exact_words(item.text):
            return True
        language = main_language(item.text)
        if not head_of(language).stemmer:
            return True
        told = {word: telling_stem(word, language) for word in words_in(item.text)}
        beginnings = {_beginning_of(word, stem) for word, stem in told.items() if stem.isalpha()}
        if len(beginnings) < _FEWEST_WORDS or not self._is_in(language):
            return True
        known = sum(f" {beginning}" in self.evidence.words for beginning in beginnings)
        return known >= _ENOUGH * len(beginnings)

    def _is_in(self, language: str) -> bool:
        """Whether those who speak in the source do so in this language and in no other."""
        own = self._votes.get(language, 0)
        most = max((n for code, n in self._votes.items() if code != language), default=0)
        return own >= _FEWEST_VOTES and own >= _CLEARLY * most

    @cached_property
    def _votes(self) -> Votes:
        return count_votes(self.spoken)


def _beginning_of(word: str, stem: str) -> str:
    """What all forms of a word begin with: "cop" for copy, whose stem is "copi"."""
    shared = takewhile(
        lambda pair: pair[0] == pair[1], zip(word, stem[:_LONGEST_STEM], strict=False)
    )
    return "".join(letter for letter, _ in shared) or word

"""Tells whether a success that a line claims was shown by a result or stated in its source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from mcp_compaction.core.digest.reading import refs_of
from mcp_compaction.core.log.failures import is_run_of_tests
from mcp_compaction.core.log.ledger import CallEntry, ledger_of
from mcp_compaction.core.text.language import ENGLISH
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.sentences import Sentence, spoken_sentences
from mcp_compaction.core.text.signs import find_sign, part_of
from mcp_compaction.core.text.words import telling_words
from mcp_compaction.model import Item, Message, SectionName

TELLS_OF_THE_PAST: tuple[SectionName, ...] = (
    "STATE", "DONE", "PROGRESS", "LEARNED", "FACTS", "DECISIONS",
)  # fmt: skip
"""The sections whose lines tell what has happened or been found."""
_STEM = 5  # letters: "deploy" and "deployment" are one word
_MOST_READ = 4_000  # characters at the end of a result
_PASSED = pattern_of(
    r"\b(?:pass(?:ed|es|ing)?|success\w*|succeeded|correct(?:ly)?|ok)\b|[✓✔✅]", re.I
)


class _Event(NamedTuple):
    """A success or a failure in the source: where it is, and the stems of what it is about."""

    seq: int
    is_success: bool
    is_of_tests: bool
    stems: frozenset[str]
    says_passed: bool = False  # in words of its own


@dataclass(frozen=True)
class Successes:
    """The successes and failures that some messages show or state."""

    messages: Sequence[Message]
    known: Sequence[str] = ()  # what was told of earlier messages

    def hold(self, section: SectionName, item: Item) -> bool:
        """Whether each success that a line claims has one like it in the source which no failing
        run of tests came after, or stands at a message that the line names."""
        if section not in TELLS_OF_THE_PAST:
            return True
        named = {int(ref[1:]) for ref in refs_of(item) if ref[0] == "m"}
        near = {seq for place in named for seq in (place - 1, place, place + 1)}
        return all(self._holds(claim, near) for claim in _claims_in(item.text))

    def _holds(self, claim: _Event, near: set[int]) -> bool:
        alike = [event for event in self._events if _is_alike(claim, event)]
        reached = [event for event in alike if event.is_success]
        if not reached:
            return any(_is_alike(claim, event) for event in self._events_known)
        if any(event.seq in near for event in reached):
            return True
        failed = [event.seq for event in alike if not event.is_success and event.is_of_tests]
        return not (claim.is_of_tests and failed) or reached[-1].seq >= failed[-1]

    @cached_property
    def _events(self) -> list[_Event]:
        said = (
            _Event(message.seq, True, claim.is_of_tests, claim.stems)
            for message in self.messages
            if not message.results
            for claim in _claims_in(message.text)
        )
        ran = (_event_of(entry) for entry in ledger_of(self.messages).entries)
        return sorted([*said, *filter(None, ran)], key=lambda event: event.seq)

    @cached_property
    def _events_known(self) -> list[_Event]:
        return [claim for text in self.known for claim in _claims_in(text)]


def _claims_in(text: str) -> Iterator[_Event]:
    for sentence in spoken_sentences(text):
        if passing := find_sign("tests-pass", sentence):
            yield _Event(0, True, True, _stems_of_subject(passing.match[0], sentence))
        elif find_sign("success", sentence):
            yield _Event(0, True, False, _stems_of_subject(sentence.text, sentence))


def _stems_of_subject(text: str, sentence: Sentence) -> frozenset[str]:
    """The stems of the words that say what succeeded, without those that say that it did in a
    language of the sentence."""
    parts = [part_of("says_success", code) for code in sentence.languages or (ENGLISH,)]
    words = telling_words(text.replace("_", " "))
    return _shorten_all(word for word in words if not any(part.fullmatch(word) for part in parts))


def _stems_of(text: str) -> frozenset[str]:
    return _shorten_all(telling_words(text.replace("_", " ")))


def _shorten_all(words: Iterable[str]) -> frozenset[str]:
    return frozenset(word[:_STEM] for word in words)


def _event_of(entry: CallEntry) -> _Event | None:
    if entry.result is None or entry.ending not in ("done", "failed"):
        return None
    told = f"{entry.action.target} {entry.result.text[-_MOST_READ:]}"
    seq, is_success = int(entry.result_ref[1:]), entry.ending == "done"
    says_passed = is_success and entry.action.kind == "run" and bool(_PASSED.search(told))
    is_of_tests = is_run_of_tests(entry.result)
    return _Event(seq, is_success, is_of_tests, _stems_of(told), says_passed)


def _is_alike(claim: _Event, event: _Event) -> bool:
    """Whether an event may be what a claim is about."""
    shares_subject = not claim.stems.isdisjoint(event.stems)
    if claim.is_of_tests:
        return event.is_of_tests or (event.says_passed and shares_subject)
    return not claim.stems or shares_subject

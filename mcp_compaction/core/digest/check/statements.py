"""Tells whether a decision that a draft names was stated by anybody in its source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from mcp_compaction.core.log.decisions import decisions_among, is_acceptance, subject_words
from mcp_compaction.core.text.language import ENGLISH
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.remarks import is_doubt
from mcp_compaction.core.text.rules import find_rules
from mcp_compaction.core.text.sentences import Sentence, spoken_sentences
from mcp_compaction.core.text.signs import find_sign, part_of, shows_sign, signs_of
from mcp_compaction.lexicon.languages import Kind
from mcp_compaction.model import Item, Message

_ENOUGH = 0.5  # of a decision's words, those that are said where it was stated
_AT_LEAST = 0.3  # and those of them that the stating sentence itself says
_FEW_WORDS, _MOST_OF_FEW = 3, 0.6  # a decision this short is said in one sentence
_STEM = 5  # letters: "config" and "configuration" are one word
_QUESTION = pattern_of(r"[?？]\W*$")


@dataclass(frozen=True)
class Statements:
    """The messages of a source, as far as they may have settled something."""

    messages: Sequence[Message]
    known: Sequence[str] = ()  # what is settled already: memory, rules in force, earlier decisions

    def holds_decision(self, item: Item) -> bool:
        """Whether a message the item names or one beside it settles the same; any message, where
        it names none."""
        wanted = _stems_of(item.text)
        if not wanted or any(_share_of(wanted, stems) >= _MOST_OF_FEW for stems in self._known):
            return True
        named = [self._places[ref] for ref in item.refs if ref in self._places]
        last = len(self.messages) - 1
        beside = {n for place in named for n in range(max(0, place - 1), min(last, place + 1) + 1)}
        return any(self._settles(place, wanted) for place in beside or range(last + 1))

    @cached_property
    def _known(self) -> list[frozenset[str]]:
        return [_stems_of(text) for text in self.known]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {message.ref: place for place, message in enumerate(self.messages)}

    @cached_property
    def _said(self) -> list[frozenset[str]]:
        return [_stems_of(message.text) for message in self.messages]

    def _settles(self, place: int, wanted: frozenset[str]) -> bool:
        said = frozenset[str]().union(*self._said[max(0, place - 1) : place + 2])
        is_short = len(wanted) <= _FEW_WORDS
        enough, least = (_MOST_OF_FEW, _MOST_OF_FEW) if is_short else (_ENOUGH, _AT_LEAST)
        return _share_of(wanted, said) >= enough and any(
            _share_of(wanted, stems) >= least for stems in self._stems_settled_at(place)
        )

    @cached_property
    def _stems_by_place(self) -> dict[int, list[frozenset[str]]]:
        return {}

    def _stems_settled_at(self, place: int) -> list[frozenset[str]]:
        if place not in self._stems_by_place:
            self._stems_by_place[place] = [
                _stems_of(text) for text in self._texts_settled_at(place)
            ]
        return self._stems_by_place[place]

    def _texts_settled_at(self, place: int) -> Iterator[str]:
        """The sentences of a message that settle something, and what its acceptance settles."""
        message = self.messages[place]
        yield from _settling_texts(message)
        for number, other in ((place, place + 1), (place - 1, place)):
            if number < 0 or other >= len(self.messages):
                continue
            offer, answer = self.messages[number], self.messages[other]
            if offer.role == "assistant" and answer.is_request and is_acceptance(answer.text):
                yield offer.text


def _settling_texts(message: Message) -> Iterable[str]:
    if message.role not in ("user", "assistant"):
        return
    by_user, sentences = message.role == "user", spoken_sentences(message.text)
    yield from decisions_among(message.text, sentences, by_user)
    yield from find_rules(message.text) if by_user else ()
    for sentence in sentences:
        yield from _settling_clauses(sentence, message.text, by_user)


def _settling_clauses(sentence: Sentence, text: str, by_user: bool) -> Iterator[str]:
    """The clauses of a sentence of a text that settle something by themselves: a user settles it
    by asking for it, an assistant by saying that it does it."""
    # English words stand in texts of every language, and a doubt among them is a doubt.
    both = sentence._replace(languages=tuple(dict.fromkeys((*sentence.languages, ENGLISH))))
    if _QUESTION.search(sentence.bare) or find_sign("leaves-open", both) or is_doubt(both):
        return
    kind: Kind = "asks-for" if by_user else "says-done"
    language = next((code for code in _languages_of(sentence) if signs_of(code, kind)), None)
    # No sign says how this language settles something.
    if language is None:
        yield sentence.text
        return
    cuts = part_of("settling_clause", language).finditer(sentence.bare)
    ends = [0, *(n for cut in cuts for n in cut.span())]
    for begin, end in zip(ends[::2], [*ends[1::2], len(sentence.bare)], strict=True):
        if shows_sign(kind, sentence.bare[begin:end], (language,)):
            yield text[sentence.start + begin : sentence.start + end]


def _languages_of(sentence: Sentence) -> tuple[str, ...]:
    is_strange = any(sign.isalpha() and not sign.isascii() for sign in sentence.bare)
    return sentence.languages or (() if is_strange else (ENGLISH,))


def _stems_of(text: str) -> frozenset[str]:
    words = subject_words(text.replace("_", " "))
    return frozenset(word[:_STEM] if word.isalpha() else word for word in words)


def _share_of(wanted: frozenset[str], said: frozenset[str]) -> float:
    return len(wanted & said) / len(wanted)

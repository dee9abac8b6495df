"""Tells whether a decision that a draft names was stated by anybody in its source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from mcp_compaction.core.log.decisions.statement import decisions_among, is_acceptance
from mcp_compaction.core.log.decisions.supersede import subject_words
from mcp_compaction.core.text.patterns import any_of, pattern_of
from mcp_compaction.core.text.remarks import is_doubt
from mcp_compaction.core.text.rules import find_rules
from mcp_compaction.core.text.sentences import Sentence, spoken_sentences
from mcp_compaction.model import Item, Message

_ENOUGH = 0.5  # of a decision's words, those that are said where it was stated
_AT_LEAST = 0.3  # and those of them that the stating sentence itself says
_FEW_WORDS, _MOST_OF_FEW = 3, 0.6  # a decision this short is said in one sentence
_STEM = 5  # letters: "config" and "configuration" are one word


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


# A user settles something by asking for it, an assistant by saying that it does it.
_ASKED_FOR = any_of(
    r"^(?:(?:please|ok(?:ay)?|so|then|now|and|yes|no|right|also|just|let's)[,:]? )*(?:use|keep|drop"
    r"|make|take|pick|go|add|remove|delete|switch|move|put|set|do|don't|write|store|call|name"
    r"|rename|replace|leave|skip|start|stop|run|return|treat|split|merge|implement|build|deploy"
    r"|ship|test|log|cache|limit|change|fix|update|create|show|send|cancel|book)\b",
    r"\b(?:I|we)(?:'d| would)? (?:want|need|prefer|like)\b",
    r"\b(?:should|must|instead|please)\b",
)
_DONE = """
added adopted agreed applied approved archived booked built cached cancell?ed capped changed chose
cleaned closed configured converted copied created decided deferred defined deleted deployed
disabled dropped enabled enforced excluded exchanged extended extracted fixed generated implemented
included increased inserted installed introduced kept left limited locked lowered made marked merged
migrated modified moved named opted ordered picked pinned placed ported preferred pushed put raised
reduced refactored refunded rejected released removed renamed reordered replaced reserved restored
restructured returned reverted rewrote scheduled selected sent separated set settled shipped
simplified skipped split started stopped stored switched turned updated upgraded used went wrapped
wrote
"""
# To look into something settles nothing.
_TO_LOOK = (
    r"(?:(?:now|just|also|first|then|quickly|try to|have to|need to|go and|go) )*(?:look|check|tell"
    r"|explain|see|read|find|search|investigate|review|inspect|examine|analy[sz]e|describe|list"
    r"|help|remind|think|consider|ask|wonder|try|let me know|let you know|have a look|take a look"
    r"|figure|explore|compare|verify|confirm|know|understand)\b"
)
_DONE_SO = any_of(
    r"(?:\b(?:I|we)(?:'ll| will|'m going to|'re going to| am going to| are going to)|\blet's) "
    rf"(?!{_TO_LOOK})",
    rf"\b(?:I|we)(?:'ve| have)? (?:now |just |also )?(?:{'|'.join(_DONE.split())})\b",
)
_ASKS_TO_LOOK = any_of(
    r"^\W*(?:(?:please|ok(?:ay)?|so|then|and|can you|could you|would you|I'd like you to"
    rf"|I (?:want|need) (?:you )?to)[,:]? )*{_TO_LOOK}"
)
# Where a sentence begins to speak of something else, or to ask.
_CLAUSE = pattern_of(
    r"[;:—–] |,? (?:but|although|because|since|while)\b|,? and (?=\w+ (?:me|us)\b)"
    r"| (?=(?:why|how|whether|what|who|where)\b)",
    re.I,
)
_OPEN = any_of(r"[?？]\W*$", r"\b(?:should|could|would|shall|might) (?:I|we)\b|\bif you\b")
_ENGLISH = pattern_of(r"\b(?:the|is|are|to|of|and|you|it|this|that|for|we|with|I)\b", re.I)
_FOREIGN = pattern_of(
    r"[^\x00-\x7f‘’“”–—…]|\b(?:der|die|das|den|und|nicht|wir|ich|ist|le|les|des|et|pas|nous|el|los"
    r"|las|que|por|para|il|non|che|per|os|um|uma|de)\b",
    re.I,
)


def _settling_clauses(sentence: Sentence, text: str, by_user: bool) -> Iterator[str]:
    """The clauses of a sentence of a text that settle something by themselves."""
    if _OPEN.search(sentence.bare) or is_doubt(sentence):
        return
    # No table says how other languages settle something.
    if _FOREIGN.search(sentence.bare) and not _ENGLISH.search(sentence.bare):
        yield sentence.text
        return
    settles = _ASKED_FOR if by_user else _DONE_SO
    ends = [0, *(n for cut in _CLAUSE.finditer(sentence.bare) for n in cut.span())]
    for begin, end in zip(ends[::2], [*ends[1::2], len(sentence.bare)], strict=True):
        clause = sentence.bare[begin:end]
        if settles.search(clause) and not _ASKS_TO_LOOK.search(clause):
            yield text[sentence.start + begin : sentence.start + end]


# Words

_EAST_ASIAN = pattern_of(r"[぀-ヿ㐀-鿿가-힯]{2,}")


def _stems_of(text: str) -> frozenset[str]:
    pairs = (run[n : n + 2] for run in _EAST_ASIAN.findall(text) for n in range(len(run) - 1))
    words = subject_words(_EAST_ASIAN.sub(" ", text.replace("_", " ")))
    return frozenset(word[:_STEM] if word.isalpha() else word for word in words).union(pairs)


def _share_of(wanted: frozenset[str], said: frozenset[str]) -> float:
    return len(wanted & said) / len(wanted)

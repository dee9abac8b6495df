"""Tells which lines say the opposite of a user's words: allow or plan what they forbid."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from math import ceil
from typing import Literal, NamedTuple

from mcp_compaction.core.digest.check.deeds import words_of_deeds
from mcp_compaction.core.text.all_languages import pattern_of_kind
from mcp_compaction.core.text.language import main_language
from mcp_compaction.core.text.patterns import any_of, pattern_of
from mcp_compaction.core.text.words import first_line, stop_words
from mcp_compaction.lexicon.languages import fill_in_all, words_in_all
from mcp_compaction.model import Message, SectionName


class Words(NamedTuple):
    """What somebody said, and where; without a ref where only the words are known."""

    text: str
    ref: str = ""

    @property
    def quoted(self) -> str:
        """The words as a line that opposes them is marked."""
        return f'{self.ref}: "{self.text}"' if self.ref else f'"{self.text}"'


class _Rule(NamedTuple):
    """One clause that forbids or demands, by its words."""

    kind: Literal["ban", "demand", "keep", "order"]
    stems: frozenset[str]
    words: Words


class Rules:
    """What users forbade and demanded, by its rarest words: a line is compared only with what it
    may speak of, however much there is."""

    def __init__(self, in_force: Iterable[str | Words], said: Iterable[Message] = ()) -> None:
        """Read each clause of the rules in force, and each order in what users said."""
        texts = (Words(one) if isinstance(one, str) else one for one in in_force)
        stated = (rule for words in texts for rule in _read_rules(words))
        rules = list(dict.fromkeys((*stated, *_read_orders(tuple(said)))))
        seen = Counter(stem for rule in rules for stem in rule.stems)
        self._by_stem: dict[str, list[_Rule]] = {}
        for rule in rules:
            # A clause that shares enough of a rule's words has one of those that may be missing
            # and one more.
            keys = len(rule.stems) - ceil(_ENOUGH * len(rule.stems)) + 1
            for stem in sorted(rule.stems, key=lambda stem: (seen[stem], stem))[:keys]:
                self._by_stem.setdefault(stem, []).append(rule)

    def opposed_by(self, section: SectionName, text: str, is_unshown: bool = False) -> Words | None:
        """The words that a line of a digest opposes: it allows or plans what they forbid, calls
        needless what they demand, or claims that it was done and nothing shows that."""
        if not self._by_stem:
            return None
        for clause in _clauses(text):
            stems = stems_of(clause)
            for rule in self._rules_sharing(stems):
                if len(rule.stems & stems) < _ENOUGH * len(rule.stems):
                    continue
                if rule.kind in ("ban", "demand"):
                    opposes = _opposes(section, clause, stems, rule)
                else:
                    is_binding = is_unshown or section in (*_BINDING, "GOAL")
                    opposes = is_binding and any(_affirms(one, rule) for one in _cut_orders(text))
                if opposes:
                    return rule.words
        return None

    def _rules_sharing(self, stems: frozenset[str]) -> Iterable[_Rule]:
        return (rule for stem in stems for rule in self._by_stem.get(stem, ()))


_WORD = pattern_of(r"[぀-ヿ㐀-鿿]+|[^\W_]+(?:'\w+)?")
_EAST_ASIAN = pattern_of(r"[぀-ヿ㐀-鿿]")
_LONGEST_QUOTE = 90  # characters
_ENOUGH, _NEARLY_ALL = 0.6, 0.75
_BINDING: tuple[SectionName, ...] = ("CONSTRAINTS", "DECISIONS", "OPEN", "NEXT")


@cache
def _clause_end() -> re.Pattern[str]:
    return any_of(r"[.;:!?。；！？\n]+|，|、", fill_in_all("clause_of_a_rule"))


@cache
def _ending() -> re.Pattern[str]:
    return any_of(rf"(?:{fill_in_all('endings')})$")


def _clauses(text: str) -> list[str]:
    return [clause for clause in _clause_end().split(text.replace("’", "'")) if clause.strip()]


def shares_words(text: str, said: str, share: float, least: int = 1) -> bool:
    """Whether so much of what a text says was said, by the beginnings of its words."""
    wanted = stems_of(text)
    found = len(wanted & stems_of(said))
    return found >= share * len(wanted) and found >= min(len(wanted), least)


def _read_rules(words: Words) -> Iterator[_Rule]:
    for clause in _clauses(words.text):
        is_ban = bool(pattern_of_kind("negation").search(clause))
        if stems := stems_of(clause):
            yield _Rule("ban" if is_ban else "demand", stems, words)


# What users say beside their rules

_SENTENCE = pattern_of(r"(?<=[.!?。！？])\s*|\n+")
_COMMA = pattern_of(r"[,;:，；：、(]\s*| - | – | — ")
_LONGEST_ORDER = 12  # words


def _read_orders(messages: Sequence[Message]) -> Iterator[_Rule]:
    """What users' sentences forbid or want kept, and questions that they answered with no."""
    asked = ""
    for message in messages:
        if message.role == "assistant" and message.text:
            asked = _last_question(message.text)
        if message.role != "user" or not message.is_request:
            continue
        if asked and words_of_deeds("refusing").match(message.text.lstrip()):
            answer = Words(first_line(f"{asked} {message.text}", _LONGEST_QUOTE), message.ref)
            yield from _order_of(asked, answer)
        asked = ""
        for sentence in filter(None, _SENTENCE.split(message.text)):
            if not sentence.rstrip().endswith(("?", "？")):
                yield from _orders_in(sentence, message.ref)


def _last_question(text: str) -> str:
    last = [sentence for sentence in _SENTENCE.split(text) if sentence][-1]
    return last if last.rstrip().endswith(("?", "？")) else ""


def _orders_in(sentence: str, ref: str) -> Iterator[_Rule]:
    words = Words(first_line(sentence, _LONGEST_QUOTE), ref)
    for clause in _cut_orders(sentence):
        denied = _denied_part(clause)
        if denied is not None and len(denied.split()) <= _LONGEST_ORDER:
            yield from _order_of(denied, words)
        keeps = words_of_deeds("keeping").search(clause)
        if keeps is not None and not _left_of_opening(clause[: keeps.start()]):
            yield from _order_of(clause[keeps.end() :], words, "keep")


def _cut_orders(sentence: str) -> Iterator[str]:
    return filter(None, map(str.strip, _COMMA.split(sentence.replace("’", "'"))))


def _denied_part(clause: str) -> str | None:
    """What an order forbids; None where a clause gives none."""
    found = pattern_of_kind("negation").search(clause)
    if found is None:
        return None
    return None if _left_of_opening(clause[: found.start()]) else clause[found.end() :]


def _left_of_opening(text: str) -> str:
    return words_of_deeds("opening").sub(" ", text).strip(" -*•")


def _order_of(text: str, words: Words, kind: Literal["keep", "order"] = "order") -> Iterator[_Rule]:
    for name in ("handling", "vague"):
        text = words_of_deeds(name).sub(" ", text)
    stops = stop_words(main_language(words.text))
    if stems := stems_of(" ".join(word for word in text.split() if word.lower() not in stops)):
        yield _Rule(kind, stems, words)


def _affirms(clause: str, rule: _Rule) -> bool:
    """Whether a clause names what an order forbids, and nothing in it turns that round; of what
    is to be kept, that it is taken away."""
    if rule.kind == "keep" and not words_of_deeds("removing").search(clause):
        return False
    needed = (_NEARLY_ALL if len(rule.stems) > 2 else 1) * len(rule.stems)
    if len(rule.stems & stems_of(clause)) < needed:
        return False
    turned = (pattern_of_kind("negation"), words_of_deeds("denying"))
    is_turned = any(pattern.search(clause) for pattern in turned)
    return not is_turned and words_of_deeds("looking").match(clause) is None


def stems_of(text: str) -> frozenset[str]:
    """The beginnings of the words of a text that say something."""
    found: set[str] = set()
    negation, fillers = pattern_of_kind("negation"), words_in_all("rule_fillers")
    negating = tuple(words_in_all("negating_endings"))
    for word in _WORD.findall(text.lower()):
        if _EAST_ASIAN.match(word):
            plain = negation.sub(" ", word)
            found.update(run[n : n + 2] for run in plain.split() for n in range(len(run) - 1))
        elif word not in fillers and not negation.fullmatch(word) and not word.endswith(negating):
            found.add(_ending().sub("", word)[:6] if len(word) > 3 else word)
    return frozenset(found)


def _opposes(section: SectionName, clause: str, stems: frozenset[str], rule: _Rule) -> bool:
    is_lifted = bool(pattern_of_kind("permission", "firm").search(clause))
    is_negated = bool(pattern_of_kind("negation").search(clause))
    if rule.kind == "demand":
        return section in _BINDING and (is_lifted or is_negated)
    if is_lifted or is_negated:
        return is_lifted
    if pattern_of_kind("permission", "weak").search(clause):
        return True
    is_nearly_all = len(rule.stems & stems) >= _NEARLY_ALL * len(rule.stems)
    return is_nearly_all and section in _BINDING

"""Tells which lines say the opposite of a rule: allow what it forbids, or call it needless."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from math import ceil
from typing import NamedTuple

from mcp_compaction.core.text.all_languages import pattern_of_kind
from mcp_compaction.core.text.patterns import any_of, pattern_of
from mcp_compaction.lexicon.languages import fill_in_all, words_in_all
from mcp_compaction.model import SectionName


class _Rule(NamedTuple):
    """One clause that forbids or demands, by its words."""

    is_ban: bool
    stems: frozenset[str]


def lifts_rules(text: str) -> bool:
    """Whether a text says that rules are no longer in force, whichever they are."""
    return bool(pattern_of_kind("lifts-rules").search(text))


class Rules:
    """The rules in force, by their rarest words: a line is compared only with those that it may
    speak of, however many there are."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Read each clause that forbids or demands."""
        found = (_read_rule(clause) for text in dict.fromkeys(texts) for clause in _clauses(text))
        rules = dict.fromkeys(rule for rule in found if rule is not None)
        said = Counter(stem for rule in rules for stem in rule.stems)
        self._by_stem: dict[str, list[_Rule]] = {}
        for rule in rules:
            # A clause that shares enough of a rule's words has one of those that may be missing
            # and one more.
            keys = len(rule.stems) - ceil(_ENOUGH * len(rule.stems)) + 1
            for stem in sorted(rule.stems, key=lambda stem: (said[stem], stem))[:keys]:
                self._by_stem.setdefault(stem, []).append(rule)

    def are_opposed_by(self, section: SectionName, text: str) -> bool:
        """Whether a line of a digest allows what a rule forbids, or calls it needless."""
        return bool(self._by_stem) and any(
            _opposes(section, clause, stems, rule)
            for clause in _clauses(text)
            if (stems := _stems_of(clause))
            for rule in self._rules_sharing(stems)
            if len(rule.stems & stems) >= _ENOUGH * len(rule.stems)
        )

    def _rules_sharing(self, stems: frozenset[str]) -> Iterable[_Rule]:
        return (rule for stem in stems for rule in self._by_stem.get(stem, ()))


_WORD = pattern_of(r"[぀-ヿ㐀-鿿]+|[^\W_]+(?:'\w+)?")
_EAST_ASIAN = pattern_of(r"[぀-ヿ㐀-鿿]")
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


def _read_rule(clause: str) -> _Rule | None:
    is_ban = bool(pattern_of_kind("negation").search(clause))
    stems = _stems_of(clause)
    if not stems or not (is_ban or pattern_of_kind("demand").search(clause)):
        return None
    return _Rule(is_ban, stems)


def _stems_of(text: str) -> frozenset[str]:
    found: set[str] = set()
    negation, fillers = pattern_of_kind("negation"), words_in_all("rule_fillers")
    negating = tuple(words_in_all("negating_endings"))
    for word in _WORD.findall(text.lower()):
        if _EAST_ASIAN.match(word):
            plain = negation.sub(" ", pattern_of_kind("demand").sub(" ", word))
            found.update(run[n : n + 2] for run in plain.split() for n in range(len(run) - 1))
        elif word not in fillers and not negation.fullmatch(word) and not word.endswith(negating):
            found.add(_ending().sub("", word)[:6] if len(word) > 3 else word)
    return frozenset(found)


def _opposes(section: SectionName, clause: str, stems: frozenset[str], rule: _Rule) -> bool:
    if not rule.is_ban:
        return section in _BINDING and bool(pattern_of_kind("needless").search(clause))
    if pattern_of_kind("lifting").search(clause):
        return True
    if pattern_of_kind("negation").search(clause):
        return False
    if pattern_of_kind("permission").search(clause):
        return True
    is_nearly_all = len(rule.stems & stems) >= _NEARLY_ALL * len(rule.stems)
    return is_nearly_all and (section in _BINDING or _is_imperative(clause, rule))


def _is_imperative(clause: str, rule: _Rule) -> bool:
    first = _WORD.findall(clause.lower())[0]
    return not first.endswith(
        tuple(words_in_all("endings_of_telling"))
    ) and not rule.stems.isdisjoint(_stems_of(first))

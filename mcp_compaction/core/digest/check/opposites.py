"""Tells which lines say the opposite of a user's words: allow or plan what they forbid."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from math import ceil
from typing import NamedTuple

from mcp_compaction.core.digest.check.deeds import words_of_deeds
from mcp_compaction.core.text.all_languages import pattern_of_kind
from mcp_compaction.core.text.patterns import any_of, pattern_of
from mcp_compaction.core.text.sentences import split_sentences
from mcp_compaction.core.text.words import first_line
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

    is_ban: bool
    stems: frozenset[str]
    words: Words


class Rules:
    """What users forbade and demanded, by its rarest words: a line is compared only with what it
    may speak of, however much there is."""

    def __init__(self, in_force: Iterable[str | Words], said: Iterable[Message] = ()) -> None:
        """Read each clause of the rules in force, and what users forbid for the time being."""
        texts = (Words(one) if isinstance(one, str) else one for one in in_force)
        stated = (rule for words in texts for rule in _read_rules(words))
        rules = list(dict.fromkeys((*stated, *_read_bans(said))))
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
        for clause in _clauses(text) if self._by_stem else ():
            stems = stems_of(clause)
            for rule in self._rules_sharing(stems):
                is_meant = len(rule.stems & stems) >= _ENOUGH * len(rule.stems)
                binds = section in _BINDING or (is_unshown and rule.stems <= stems)
                if is_meant and _opposes(binds, clause, rule):
                    return rule.words
        return None

    def _rules_sharing(self, stems: frozenset[str]) -> Iterable[_Rule]:
        return (rule for stem in stems for rule in self._by_stem.get(stem, ()))


_WORD = pattern_of(r"[぀-ヿ㐀-鿿]+|[^\W_]+(?:'\w+)?")
_EAST_ASIAN = pattern_of(r"[぀-ヿ㐀-鿿]")
_ENOUGH = 0.6  # of the words of a rule
_QUESTIONS = "?？"
_COMMA = pattern_of(r"[,;:，；：、(]\s*| - | – | — ")
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
            yield _Rule(is_ban, stems, words)


def _read_bans(messages: Iterable[Message]) -> Iterator[_Rule]:
    """What users forbid in a clause that begins with a no ("but don't deploy yet"), and what they
    were asked and answered with one."""
    asked = ""
    for message in messages:
        said = split_sentences(message.text)
        if message.role == "assistant" and said:
            asked = said[-1] if said[-1][-1] in _QUESTIONS else ""
        if not message.is_request:
            continue
        if asked and words_of_deeds("refusing").match(message.text.lstrip()):
            yield from _ban_on(asked, Words(first_line(f"{asked} {message.text}"), message.ref))
        asked = ""
        for sentence in said:
            for clause in _COMMA.split(sentence) if sentence[-1] not in _QUESTIONS else ():
                yield from _ban_on(_denied_in(clause), Words(first_line(sentence), message.ref))


def _denied_in(clause: str) -> str:
    """What a clause forbids that begins with a no; blank where it does not."""
    denied = pattern_of_kind("negation").search(clause)
    if denied is None or words_of_deeds("opening").sub(" ", clause[: denied.start()]).strip(" -*•"):
        return ""
    return clause[denied.end() :]


def _ban_on(clause: str, words: Words) -> Iterator[_Rule]:
    if stems := stems_of(clause.replace("’", "'")):
        yield _Rule(True, stems, words)


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


def _opposes(binds: bool, clause: str, rule: _Rule) -> bool:
    is_lifted = bool(pattern_of_kind("permission", "firm").search(clause))
    is_negated = bool(pattern_of_kind("negation").search(clause))
    if not rule.is_ban:
        return binds and (is_lifted or is_negated)
    if is_lifted or is_negated:
        return is_lifted
    if pattern_of_kind("permission", "weak").search(clause):
        return True
    return binds

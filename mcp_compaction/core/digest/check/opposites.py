"""Tells which lines say the opposite of a rule: allow what it forbids, or call it needless."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from math import ceil
from typing import NamedTuple

from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.model import SectionName


class _Rule(NamedTuple):
    """One clause that forbids or demands, by its words."""

    is_ban: bool
    stems: frozenset[str]


def lifts_rules(text: str) -> bool:
    """Whether a text says that rules are no longer in force, whichever they are."""
    return bool(_RULES_LIFTED.search(text))


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


_CLAUSE = pattern_of(r"[.;:!?。；！？\n]+|, (?:and|but|so)\b|\b(?:but|while|although)\b|，|、")
_WORD = pattern_of(r"[぀-ヿ㐀-鿿]+|[^\W_]+(?:'\w+)?")
_EAST_ASIAN = pattern_of(r"[぀-ヿ㐀-鿿]")
_ENDING = pattern_of(r"(?:ing|ed|es|s|e|en|er|é|ez|as|are|ar)$")
_NOT = pattern_of(
    r"\b(?:not|never|no|nor|none|nothing|nobody|without|avoid\w*|cannot|forbid\w*|prohibit\w*"
    r"|refus\w*|"
    r"off[- ]limits|disallow\w*|refrain\w*|hands off|instead of|rather than|except|nicht|nie"
    r"|niemals|"
    r"kein\w*|verboten|jamais|pas|aucun\w*|interdit\w*|nunca|jam[aá]s|ning[uú]n\w*|prohibid\w*"
    r"|non|mai|"
    r"nessun\w*|vietat\w*|não|nenhum\w*|proibid\w*|не|нельзя|никогда|запрещ\w*)\b|n't\b|不|别|勿"
    r"|禁|没|未经"
    r"|ない|ません|마세요|하지|않|금지",
    re.I,
)
_DEMAND = pattern_of(
    r"\b(?:always|must|only|keep|stay|ensure|make sure|has to|have to|needs? to|required|mandatory|"
    r"immer|nur|muss|müssen|toujours|doit|siempre|debe|solo|sempre|deve|всегда|должн\w*)\b|必须"
    r"|务必|只|必ず|반드시",
    re.I,
)
_LIFTED = pattern_of(
    r"\bno longer\b|\b(?:is|are|was|were|been|has) (?:now )?(?:lifted|waived|withdrawn|revoked"
    r"|suspended|"
    r"released|dropped)\b|\b(?:not|n't) (?:forbidden|prohibited|off[- ]limits|disallowed"
    r"|a problem)\b|"
    r"\b(?:does not|doesn't|do not|don't) apply\b|\bexcept(?:ion)?\b|nicht mehr|ne .* plus|ya no"
    r"|non più|"
    r"não .* mais|больше не|不再|もう",
    re.I,
)
_ALLOWED = pattern_of(
    r"\b(?:may|can|could|should|must|allowed|permitted|permission|fine|okay?|free to|go ahead"
    r"|safe to|"
    r"approved|authorized|possible|now|always|will|shall|let's|darf|dürfen|kann|erlaubt|peut"
    r"|permis|"
    r"puede|permitido|può|permesso|pode|можно|разрешено)\b|可以|允许|許可|してもよい|可能|괜찮"
    r"|허용",
    re.I,
)
_NEEDLESS = pattern_of(
    r"\b(?:no need|need not|needn't|not (?:required|necessary|needed)|unnecessary|optional|skip\w*|"
    r"do not|don't|never|must not|mustn't|should not|shouldn't|stop|no longer|ignore|without)\b"
    r"|不用|不必|不要",
    re.I,
)
_RULES_LIFTED = pattern_of(
    r"\b(?:rules?|constraints?|restrictions?|prohibitions?|bans?|pins?|guidelines?"
    r"|p\d+)\b[^.;]{0,40}\b"
    r"(?:lifted|waived|withdrawn|revoked|suspended|void|no longer (?:appl\w*|holds?|valid"
    r"|in force|binding)"
    r"|(?:can|may|should|to) be ignored|not in force|not binding|released)\b",
    re.I,
)
_EMPTY = frozenset(
    re.findall(
        r"\w+",
        """
the a an to of in on at for and or be is are it this that you we i please may can could should
must will shall any my our your by with as if do does not never no always only ever now from into
under there have has need keep stay all der die das den dem ein eine zu und le la les de du des un
une el los las y il lo gli e o os as um uma в на и с к
""",
    )
)
_ENOUGH, _NEARLY_ALL = 0.6, 0.75
_BINDING: tuple[SectionName, ...] = ("CONSTRAINTS", "DECISIONS", "OPEN", "NEXT")


def _clauses(text: str) -> list[str]:
    return [clause for clause in _CLAUSE.split(text.replace("’", "'")) if clause.strip()]


def _read_rule(clause: str) -> _Rule | None:
    is_ban = bool(_NOT.search(clause))
    stems = _stems_of(clause)
    if not stems or not (is_ban or _DEMAND.search(clause)):
        return None
    return _Rule(is_ban, stems)


def _stems_of(text: str) -> frozenset[str]:
    found: set[str] = set()
    for word in _WORD.findall(text.lower()):
        if _EAST_ASIAN.match(word):
            plain = _NOT.sub(" ", _DEMAND.sub(" ", word))
            found.update(run[n : n + 2] for run in plain.split() for n in range(len(run) - 1))
        elif word not in _EMPTY and not _NOT.fullmatch(word) and "n't" not in word:
            found.add(_ENDING.sub("", word)[:6] if len(word) > 3 else word)
    return frozenset(found)


def _opposes(section: SectionName, clause: str, stems: frozenset[str], rule: _Rule) -> bool:
    if not rule.is_ban:
        return section in _BINDING and bool(_NEEDLESS.search(clause))
    if _LIFTED.search(clause):
        return True
    if _NOT.search(clause):
        return False
    if _ALLOWED.search(clause):
        return True
    is_nearly_all = len(rule.stems & stems) >= _NEARLY_ALL * len(rule.stems)
    return is_nearly_all and (section in _BINDING or _is_imperative(clause, rule))


def _is_imperative(clause: str, rule: _Rule) -> bool:
    first = _WORD.findall(clause.lower())[0]
    return not first.endswith(("ed", "ing")) and not rule.stems.isdisjoint(_stems_of(first))

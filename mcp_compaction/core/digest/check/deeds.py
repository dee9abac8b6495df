"""Tells which lines of a draft claim a deed that no call of the window shows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

from mcp_compaction.core.limits import LONGEST_ANSWER
from mcp_compaction.core.log.content import compact_json
from mcp_compaction.core.log.findings import exact_words
from mcp_compaction.core.log.ledger import CallEntry, ledger_of
from mcp_compaction.core.text.all_languages import pattern_of_kind
from mcp_compaction.core.text.language import ENGLISH, main_language
from mcp_compaction.core.text.patterns import any_of, pattern_of
from mcp_compaction.core.text.words import telling_words
from mcp_compaction.lexicon.deeds import ByLanguage, KnownDeed, known_deeds
from mcp_compaction.model import Item, Message, SectionName

TELLS_DEEDS: tuple[SectionName, ...] = ("STATE", "DONE", "PROGRESS")
"""The sections of which every line tells what was done."""
TELLS_OF_THE_PAST: tuple[SectionName, ...] = (*TELLS_DEEDS, "ERRORS", "FACTS", "DECISIONS")
"""The sections whose lines tell what has happened or been found."""
_SIGNS = pattern_of(r"[\W_]+")
_CLAUSE_END = pattern_of(r"[,;，；、。]\s*|(?<=\w)[.:!] +|\s[–—-]\s")
_NO_SPACES = ("zh", "ja", "ko")


class _Call(NamedTuple):
    """A call as claims are held against it: what was called with what, and all that it holds."""

    refs: frozenset[str]
    line: str
    text: str
    result: str
    is_done: bool


class Claim(NamedTuple):
    """A deed that a clause of a line claims."""

    deed: KnownDeed
    clause: str


@dataclass(frozen=True)
class Deeds:
    """The calls of a window, and what was said beside them."""

    messages: Sequence[Message]
    known: Sequence[str] = ()  # what is told of earlier messages

    def show(self, section: SectionName, item: Item) -> bool:
        """Whether every deed that a line claims is shown by a call; a line that is told word for
        word among what is known is believed."""
        if section not in TELLS_OF_THE_PAST or item.provenance == "verbatim":
            return True
        claims = claims_in(item.text)
        is_shown = all(self._shows(claim, item) for claim in claims)
        is_told = section not in TELLS_DEEDS or bool(claims) or self._tells(item.text)
        return (is_shown and is_told) or self._is_known(item.text)

    def _is_known(self, text: str) -> bool:
        return any(text in known or known in text for known in self.known if known)

    def _shows(self, claim: Claim, item: Item) -> bool:
        names = _names_in(claim.clause)
        if any(name not in self._called for name in names):
            return False
        return self._is_fine(claim, item) if claim.deed.about else self._is_done(claim, names)

    def _is_fine(self, claim: Claim, item: Item) -> bool:
        """Whether the last call that looked at a thing found it in order, or the last of those
        that a line names."""
        shown_by, spoiled = _pattern(claim.deed.shown_by), _pattern(claim.deed.spoiled_by or "(?!)")
        alike = [call for call in self._calls if shown_by.search(call.line)]
        calls = [call for call in alike if not call.refs.isdisjoint(item.refs)] or alike
        return bool(calls) and calls[-1].is_done and not spoiled.search(calls[-1].result)

    def _is_done(self, claim: Claim, names: Sequence[str]) -> bool:
        """Whether a call did it; one that may do other things too has to name what it is about."""
        sure, may = _pattern(claim.deed.shown_by), _pattern(claim.deed.may_show or "(?!)")
        return any(
            sure.search(c.line)
            or (names and may.search(c.line) and all(n in c.text for n in names))
            for c in self._calls
            if c.is_done
        )

    def _tells(self, text: str) -> bool:
        """Whether the record speaks of what a line tells, though not as a deed of a known kind:
        it has all its names, or else one of its words."""
        names = _names_in(text)
        if names or not self._calls:
            return all(name in self._record for name in names)
        told = telling_words(text)
        return not told or any(word in self._record for word in told)

    @cached_property
    def _calls(self) -> tuple[_Call, ...]:
        return tuple(map(_read_call, ledger_of(self.messages).entries))

    @cached_property
    def _called(self) -> str:
        """The texts of all calls and their results."""
        return "".join(call.text for call in self._calls)

    @cached_property
    def _record(self) -> str:
        """What calls hold and what assistants said."""
        said = (message.text for message in self.messages if message.role == "assistant")
        return self._called + "".join(map(_with_plain, (*said, *self.known)))


def claims_in(text: str) -> list[Claim]:
    """The deeds that a line claims were done, clause by clause."""
    return [
        Claim(deed, clause)
        for clause in _CLAUSE_END.split(text)
        for deed in _deeds_claimed_in(clause)
        if clause.strip()
    ]


def _deeds_claimed_in(clause: str) -> Iterator[KnownDeed]:
    fine = _by_languages(tuple(known_deeds().fine.items())).search(clause)
    for deed in known_deeds().deed:
        said = fine
        if not deed.about:
            said = _by_languages(tuple(deed.claims.items())).search(clause)
        elif not _by_languages(tuple(deed.about.items())).search(clause):
            continue
        if said is not None and not _is_denied(clause, said):
            yield deed


def _is_denied(clause: str, said: re.Match[str]) -> bool:
    """Whether a clause says that something was not done, or is still to come."""
    before = clause[: said.start()]
    language = main_language(clause)
    turned = (pattern_of_kind("negation"), *(_words_in(n, language) for n in ("denying", "ahead")))
    if any(pattern.search(before) for pattern in turned):
        return True
    behind = clause[said.end() :].lstrip()
    return bool(_words_in("denying", language).match(behind))


def _names_in(text: str) -> tuple[str, ...]:
    """The exact names in a text, as they stand in `_with_plain`."""
    words = (word.strip("./:@+~-").lower() for word in exact_words(text))
    return tuple(word for word in words if re.search(r"[^\W\d]{2}|[^\W\d].*\d", word))


def _read_call(entry: CallEntry) -> _Call:
    action, result = entry.action, entry.result.text if entry.result is not None else ""
    if len(result) > 2 * LONGEST_ANSWER:
        result = result[:LONGEST_ANSWER] + result[-LONGEST_ANSWER:]
    given = compact_json(entry.call.arguments)
    called = action.target if action.kind in ("run", "read", "write", "edit") else given
    return _Call(
        refs=frozenset((entry.ref, entry.result_ref)),
        line=_with_plain(f"{entry.call.name} {called}"),
        text=_with_plain(f"{entry.call.name} {given} {result}"),
        result=result,
        is_done=entry.ending == "done",
    )


def _with_plain(text: str) -> str:
    """A text in small letters, and once more with its words alone."""
    folded = text.lower()
    return f" {folded.replace('_', ' ')} {folded} {_SIGNS.sub(' ', folded)} "


# Patterns


@cache
def _pattern(source: str) -> re.Pattern[str]:
    return re.compile(source, re.I | re.M)


@cache
def _by_languages(ways: tuple[tuple[str, str], ...]) -> re.Pattern[str]:
    """A pattern for the words of several languages; those of some have no edges."""
    spaced = [way for code, way in ways if code not in _NO_SPACES]
    others = [way for code, way in ways if code in _NO_SPACES]
    edged = [rf"(?<!\w)(?:{'|'.join(spaced)})(?!\w)"] if spaced else []
    return any_of(*edged, *others)


@cache
def _words_in(name: str, language: str) -> re.Pattern[str]:
    """A pattern for the words of a name in a language, and in English: its words are everywhere."""
    ways: ByLanguage = getattr(known_deeds(), name)
    codes = dict.fromkeys(code for code in (language, ENGLISH) if code in ways)
    return _by_languages(tuple((code, ways[code]) for code in codes))

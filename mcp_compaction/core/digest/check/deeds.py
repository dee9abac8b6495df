"""Tells which lines of a draft claim a deed that no call of the window shows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

from mcp_compaction.core.digest.check.evidence import Evidence
from mcp_compaction.core.limits import LONGEST_ANSWER
from mcp_compaction.core.log.commands import is_search
from mcp_compaction.core.log.content import compact_json
from mcp_compaction.core.log.ledger import CallEntry, ledger_of
from mcp_compaction.core.text.all_languages import pattern_of_kind
from mcp_compaction.core.text.exact_words import exact_words
from mcp_compaction.core.text.patterns import any_of, pattern_of
from mcp_compaction.core.text.words import telling_words
from mcp_compaction.lexicon.deeds import ByLanguage, KnownDeed, known_deeds
from mcp_compaction.model import Item, Message, SectionName

TELLS_DEEDS: tuple[SectionName, ...] = ("STATE", "DONE", "PROGRESS")
"""The sections of which every line tells what was done."""
TELLS_OF_THE_PAST: tuple[SectionName, ...] = (*TELLS_DEEDS, "ERRORS", "FACTS", "DECISIONS")
"""The sections whose lines tell what has happened or been found."""
_CLAUSE_END = pattern_of(r"[,;，；、。]\s*|(?<=\w)[.:!] +|\s[–—-]\s")
_NO_SPACES = ("zh", "ja", "ko")


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
        is_known = any(item.text in known or known in item.text for known in self.known if known)
        return is_known or (is_shown and is_told)

    def _shows(self, claim: Claim, item: Item) -> bool:
        """Whether a call did it, and of things in order whether the last call that looked did find
        them so, or the last of those that the line names; calls hold all that the clause names, and
        so does one call that may do other things too."""
        names = exact_words(claim.clause)
        if not self._called.hold(names):
            return False
        deed = claim.deed
        sure, may = _pattern(deed.shown_by), _pattern(deed.may_show)
        calls = [
            e
            for e in self._entries
            if sure.search(line := _line_of(e))
            or (names and may.search(line) and Evidence([(called_text(e), None)]).hold(names))
        ]
        if not deed.about:
            return any(entry.ending == "done" for entry in calls)
        last = ([e for e in calls if {e.ref, e.result_ref} & {*item.refs}] or calls)[-1:]
        return any(has_gone_well(entry, deed) for entry in last)

    def _tells(self, text: str) -> bool:
        """Whether the record speaks of what a line tells, though not as a deed of a known kind:
        it has all its names, and one of its words where it has no names."""
        names, told = exact_words(text), telling_words(text)
        is_named = bool(names) or not told or not self._entries
        return self._record.hold(names) and (is_named or any(w in self._record.text for w in told))

    @cached_property
    def _entries(self) -> tuple[CallEntry, ...]:
        return ledger_of(self.messages).entries

    @cached_property
    def _called(self) -> Evidence:
        return Evidence([(called_text(entry), None) for entry in self._entries])

    @cached_property
    def _record(self) -> Evidence:
        """What calls hold and what assistants said."""
        said = [message.text for message in self.messages if message.role == "assistant"]
        return Evidence([*self._called.said, *((text, None) for text in (*said, *self.known))])


def claims_in(text: str) -> list[Claim]:
    """The deeds that a line claims were done, clause by clause."""
    return [
        Claim(deed, clause) for clause in clauses_of(text) for deed in _deeds_claimed_in(clause)
    ]


def clauses_of(text: str) -> list[str]:
    """The clauses of a line."""
    return _CLAUSE_END.split(text)


def denials_in(text: str) -> list[Claim]:
    """The deeds of which a line says that they were not done or went wrong, clause by clause."""
    return [
        Claim(deed, clause)
        for clause in clauses_of(text)
        for deed in known_deeds().deed
        if deed.result or deed.denies
        if _denies(clause, deed)
    ]


def _denies(clause: str, deed: KnownDeed) -> bool:
    known, negation = known_deeds(), pattern_of_kind("negation")
    if deed.about:
        thing = by_languages(deed.about).search(clause)
        said = by_languages(known.broken).search(clause, thing.end()) if thing else None
        return said is not None and not _awaits(clause[: said.start()])
    if by_languages(deed.denies).search(clause):
        return True
    said = by_languages(deed.claims).search(clause)
    return said is not None and negation.search(clause[: said.start()]) is not None


def _deeds_claimed_in(clause: str) -> Iterator[KnownDeed]:
    """The deeds that a clause claims, unless it says before that they were not done or are still
    to come."""
    known = known_deeds()
    for deed in known.deed:
        said = by_languages(known.fine if deed.about else deed.claims).search(clause)
        if said is None or (deed.about and not by_languages(deed.about).search(clause)):
            continue
        if not _awaits(clause[: said.start()]):
            yield deed


def _awaits(before: str) -> bool:
    """Whether what follows is denied, depends on something or is still to come."""
    return any(
        p.search(before) for p in (pattern_of_kind("negation"), by_languages(known_deeds().unless))
    )


def tells_of_before(clause: str) -> bool:
    """Whether a clause tells of what was, and may have changed."""
    return by_languages(known_deeds().once).search(clause) is not None


def is_run_of(entry: CallEntry, deed: KnownDeed) -> bool:
    """Whether a call ran what shows a deed, rather than read of it."""
    is_run = entry.action.kind == "run" and not is_search(entry.action.target)
    return is_run and _pattern(deed.shown_by).search(_line_of(entry)) is not None


def has_gone_well(entry: CallEntry, deed: KnownDeed) -> bool:
    """Whether a call was done, and found nothing that is out of order."""
    return entry.ending == "done" and not _pattern(deed.spoiled_by).search(_result_of(entry))


def says_that_all_is_well(entry: CallEntry, deed: KnownDeed) -> bool:
    """Whether a call was done, found nothing that is out of order, and says so."""
    is_said = by_languages(known_deeds().fine).search(_result_of(entry)) is not None
    return is_said and has_gone_well(entry, deed)


def _line_of(entry: CallEntry) -> str:
    """What was called with what, as deeds are known by it."""
    is_told = entry.action.kind in ("run", "read", "write", "edit")
    called = entry.action.target if is_told else compact_json(entry.call.arguments)
    line = f"{entry.call.name} {called}".lower()
    return f"{line} {line.replace('_', ' ')}"


def called_text(entry: CallEntry) -> str:
    """What was called with what, and what it answered."""
    return f"{entry.call.name} {compact_json(entry.call.arguments)} {_result_of(entry)}"


def _result_of(entry: CallEntry) -> str:
    text = entry.result.text if entry.result is not None else ""
    return (
        text if len(text) <= 2 * LONGEST_ANSWER else text[:LONGEST_ANSWER] + text[-LONGEST_ANSWER:]
    )


@cache
def _pattern(source: str) -> re.Pattern[str]:
    return re.compile(source or "(?!)", re.I | re.M)


def by_languages(ways: ByLanguage) -> re.Pattern[str]:
    """A pattern for the words of several languages; those of some have no edges."""
    return _compile_ways(tuple(ways.items()))


@cache
def _compile_ways(ways: tuple[tuple[str, str], ...]) -> re.Pattern[str]:
    return any_of(*(w if code in _NO_SPACES else rf"(?<!\w)(?:{w})(?!\w)" for code, w in ways))

"""Tells which lines of a draft claim a deed that no call of the window shows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

from mcp_compaction.core.digest.check.evidence import words_in
from mcp_compaction.core.limits import LONGEST_ANSWER
from mcp_compaction.core.log.content import compact_json
from mcp_compaction.core.log.findings import exact_words
from mcp_compaction.core.log.ledger import CallEntry, ledger_of
from mcp_compaction.core.text.all_languages import pattern_of_kind
from mcp_compaction.core.text.language import ENGLISH, main_language
from mcp_compaction.core.text.patterns import any_of, pattern_of
from mcp_compaction.core.text.sentences import split_sentences
from mcp_compaction.core.text.words import telling_stem
from mcp_compaction.lexicon.deeds import ByLanguage, KnownDeed, known_deeds
from mcp_compaction.model import Item, Message, SectionName

TELLS_DEEDS: tuple[SectionName, ...] = ("STATE", "DONE", "PROGRESS")
"""The sections of which every line tells what was done."""
TELLS_OF_THE_PAST: tuple[SectionName, ...] = (*TELLS_DEEDS, "ERRORS", "FACTS", "DECISIONS")
"""The sections whose lines tell what has happened or been found."""
_NO_CLAIMS: tuple[SectionName, ...] = ("CONSTRAINTS", "REJECTED", "ASKED", "NAMES", "UNCERTAIN")
_EAST_ASIAN = "\u1100"  # from here on, letters of languages without spaces between words
_SIGNS = pattern_of(r"[\W_]+")
_CLAUSE_END = pattern_of(r"[,;，；、。]\s*|(?<=\w)[.:!] +|\s[–—-]\s")
_NO_SPACES = ("zh", "ja", "ko")
_QUESTION = pattern_of(r"[?？]\W*$")


class _Call(NamedTuple):
    """A call as claims are held against it: what was called with what, and all that it holds."""

    seq: int
    line: str
    text: str
    result: str
    is_done: bool


class Claim(NamedTuple):
    """A deed that a clause of a line claims, by the words that say so."""

    deed: KnownDeed
    clause: str
    words: str  # that claim it
    program: str = ""


@dataclass(frozen=True)
class Deeds:
    """The calls of a window, and what was said beside them."""

    messages: Sequence[Message]
    known: Sequence[str] = ()  # what is told of earlier messages

    def show(self, section: SectionName, item: Item) -> bool:
        """Whether every deed that a line claims is shown by a call, or by a user's words where
        those count; a line that is told word for word among what is known is believed."""
        if section in _NO_CLAIMS or item.provenance == "verbatim":
            return True
        claims = claims_in(item.text)
        if section not in TELLS_OF_THE_PAST:
            claims = [claim for claim in claims if _has_aux(claim)]
        is_shown = all(self._shows(claim, item) for claim in claims)
        is_told = section not in TELLS_DEEDS or bool(claims) or self._tells(item.text)
        return (is_shown and is_told) or self._is_known(item.text)

    def _is_known(self, text: str) -> bool:
        return any(text in known or known in text for known in self.known if known)

    def _shows(self, claim: Claim, item: Item) -> bool:
        names = _names_in(claim.clause)
        if claim.deed.by_user and self._user_accepts(claim, names):
            return True
        if any(name not in self._called for name in names):
            return False
        return self._is_fine(claim, item) if claim.deed.about else self._is_done(claim, names)

    def _is_fine(self, claim: Claim, item: Item) -> bool:
        """Whether the last call that looked at a thing found it in order."""
        shown_by, program = _pattern(claim.deed.shown_by), _plain(claim.program)
        alike = [c for c in self._calls if shown_by.search(c.line) and program in _plain(c.line)]
        return _last_is_fine(alike, claim, item)

    def _is_done(self, claim: Claim, names: Sequence[str]) -> bool:
        """Whether a call did it; one that may do other things too has to name what it is about."""
        sure, may = _pattern(claim.deed.shown_by), _pattern(claim.deed.may_show or "(?!)")
        about = names or _telling_in(claim.clause, words_in(claim.words))
        held = all if names else any
        done = any(
            sure.search(c.line) or (may.search(c.line) and held(one in c.text for one in about))
            for c in self._calls
            if c.is_done
        )
        return done and all(place in self._called for place in _places_in(claim))

    def _user_accepts(self, claim: Claim, names: Sequence[str]) -> bool:
        """Whether a user's message accepts what is named, which calls had named before it."""
        if not words_of_deeds("speaker").search(claim.clause) and not _has_aux(claim):
            return False  # somebody else's word
        return any(
            all(any(n in c.text for c in self._calls if c.seq <= message.seq) for n in names)
            for message in self.messages
            if message.is_request and _accepting().match(message.text)
        )

    def _tells(self, text: str) -> bool:
        """Whether the record speaks of what a line tells, though not as a deed of a known kind."""
        record = self._called + self._stated
        names = _names_in(text)
        if names or not self._calls:
            return all(name in record for name in names)
        # Calls speak English: of what another language says of them they have a word or two.
        told = _telling_in(text, ())
        return not told or any(word in record for word in told)

    @cached_property
    def _calls(self) -> tuple[_Call, ...]:
        return tuple(map(_read_call, ledger_of(self.messages).entries))

    @cached_property
    def _called(self) -> str:
        """The texts of all calls and their results."""
        return "".join(call.text for call in self._calls)

    @cached_property
    def _stated(self) -> str:
        """What an assistant told that is neither a question nor a plan."""
        texts = (message.text for message in self.messages if message.role == "assistant")
        said = (one for text in texts for one in split_sentences(text))
        told = (one for one in said if not (_is_ahead(one) or _QUESTION.search(one)))
        return "".join(map(_with_plain, (*told, *self.known)))


def claims_in(text: str) -> list[Claim]:
    """The deeds that a line claims were done, clause by clause."""
    return [
        claim
        for clause in _CLAUSE_END.split(text)
        for claim in _claims_of_clause(clause)
        if clause.strip()
    ]


def _claims_of_clause(clause: str) -> Iterator[Claim]:
    fine = words_of_deeds("fine").search(clause)
    for deed in known_deeds().deed:
        if deed.about:
            program = _programs(deed.programs).search(clause) if deed.programs else None
            about = program or _by_languages(tuple(deed.about.items())).search(clause)
            if about is None or fine is None or _is_denied(clause, fine):
                continue
            yield Claim(deed, clause, f"{about[0]} {fine[0]}", program[0] if program else "")
            continue
        said = _by_languages(tuple(deed.claims.items())).search(clause)
        if said is not None and not _is_denied(clause, said):
            yield Claim(deed, clause, said[0])


def _is_denied(clause: str, said: re.Match[str]) -> bool:
    """Whether a clause says that something was not done, or is still to come."""
    before = clause[: said.start()]
    language = main_language(clause)
    turned = (pattern_of_kind("negation"), *(_words_in(n, language) for n in ("denying", "ahead")))
    if any(pattern.search(before) for pattern in turned):
        return True
    behind = clause[said.end() :].lstrip()
    return bool(_words_in("denying", language).match(behind))


def _is_ahead(sentence: str) -> bool:
    return bool(_words_in("ahead", main_language(sentence)).search(sentence))


def _has_aux(claim: Claim) -> bool:
    return bool(words_of_deeds("aux").search(claim.clause))


def _last_is_fine(calls: Sequence[_Call], claim: Claim, item: Item) -> bool:
    """Whether the last of some calls was done with nothing amiss; one that a line names, or any
    where it speaks of an earlier one, counts as well."""
    named = {int(ref[1:]) for ref in item.refs if ref[0] == "m"}
    near = {seq for place in named for seq in (place - 1, place, place + 1)}
    spoiled = _pattern(claim.deed.spoiled_by or "(?!)")
    good = [call for call in calls if call.is_done and not spoiled.search(call.result)]
    is_earlier = bool(words_of_deeds("earlier").search(claim.clause))
    is_named = is_earlier or any(call.seq in near for call in good)
    return bool(good) and (good[-1] is calls[-1] or is_named)


def _telling_in(text: str, without: Iterable[str]) -> tuple[str, ...]:
    language = main_language(text)
    plain = words_of_deeds("vague").sub(" ", text)
    left = [word for word in words_in(plain) if word not in set(without)]
    told = ((word, telling_stem(word, language)) for word in left if len(word) > 2)
    # "stag" for staging, whose stem is "stage": what all forms of a word begin with.
    begun = (stem if word.startswith(stem) else stem[:-1] for word, stem in told if stem)
    return tuple(dict.fromkeys(b for b in begun if b.isalpha() and b < _EAST_ASIAN))


def _places_in(claim: Claim) -> tuple[str, ...]:
    """Where a claim says that something was done, by the words behind it."""
    behind = claim.clause[claim.clause.find(claim.words) + len(claim.words) :]
    found = (match[1] for match in _place().finditer(behind))
    return tuple(word for place in found for word in _telling_in(place, ())[:1])


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
        seq=int(entry.result_ref[1:]),
        line=_with_plain(f"{entry.call.name} {called}"),
        text=_with_plain(f"{entry.call.name} {given} {result}"),
        result=result,
        is_done=entry.ending == "done",
    )


def _with_plain(text: str) -> str:
    """A text in small letters, and once more with its words alone."""
    folded = text.lower()
    return f" {folded.replace('_', ' ')} {folded} {_SIGNS.sub(' ', folded)} "


def _plain(text: str) -> str:
    return _SIGNS.sub(" ", text.lower()).strip()


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
def words_of_deeds(name: str) -> re.Pattern[str]:
    """A pattern for the words of a name in `deeds.toml`, in all languages."""
    ways: ByLanguage = getattr(known_deeds(), name)
    return _by_languages(tuple(ways.items()))


@cache
def _words_in(name: str, language: str) -> re.Pattern[str]:
    """A pattern for the words of a name in a language, and in English: its words are everywhere."""
    ways: ByLanguage = getattr(known_deeds(), name)
    codes = dict.fromkeys(code for code in (language, ENGLISH) if code in ways)
    return _by_languages(tuple((code, ways[code]) for code in codes))


@cache
def _programs(programs: str) -> re.Pattern[str]:
    return any_of(rf"(?<![\w-])(?:{programs})(?![\w-])")


@cache
def _accepting() -> re.Pattern[str]:
    return any_of(rf"\W*(?:{words_of_deeds('accepting').pattern})")


@cache
def _place() -> re.Pattern[str]:
    before = "|".join(known_deeds().place.values())
    return any_of(rf"\b(?:{before}) (?:the |le |la |der |die |das |den |dem |el )?([\w./-]+)")

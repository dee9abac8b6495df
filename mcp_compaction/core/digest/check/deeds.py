"""Tells which lines of a draft claim a deed that no call of the window shows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import takewhile
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
TELLS_OF_THE_PAST: tuple[SectionName, ...] = (*TELLS_DEEDS, "LEARNED", "FACTS", "DECISIONS")
"""The sections whose lines tell what has happened or been found."""
_NO_CLAIMS: tuple[SectionName, ...] = ("CONSTRAINTS", "REJECTED", "ASKED", "NAMES", "UNCERTAIN")
_BEGINNING = 5  # letters: "deploy" and "deployment" are one word
_SHORTEST = 3
_FAR = 40  # characters between a thing and the word that it is in order
_SOME, _HARDLY, _MOST = 0.2, 1 / 3, 0.6  # of the telling words of a line, those that the record has
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
        if any(name not in self._called for name in names):
            return claim.deed.by_user and self._user_accepts(claim)
        if claim.deed.about:
            return self._is_fine(claim, item)
        return self._is_done(claim.deed, claim) or (
            claim.deed.by_user and self._user_accepts(claim)
        )

    def _is_fine(self, claim: Claim, item: Item) -> bool:
        """Whether the last call that looked at a thing found it in order."""
        shown_by = _pattern(claim.deed.shown_by)
        alike = [call for call in self._calls if shown_by.search(call.line)]
        if claim.program:
            alike = [call for call in alike if _plain(claim.program) in _plain(call.line)]
        elif not _holds_enough(_object_of(claim), self._called, _HARDLY):
            return False
        return _last_is_fine(alike, claim, item)

    def _is_done(self, deed: KnownDeed, claim: Claim) -> bool:
        wanted = _object_of(claim)
        sure = _pattern(deed.shown_by)
        done = any(call.is_done and sure.search(call.line) for call in self._calls)
        if not done and deed.may_show:
            may, names = _pattern(deed.may_show), _names_in(claim.clause)
            done = any(
                call.is_done
                and may.search(call.line)
                and all(name in call.text for name in names)
                and (names or (wanted and _holds_enough(wanted, call.text, _MOST)))
                for call in self._calls
            )
        return done and _holds_enough(_places_in(claim), self._called, 1)

    def _user_accepts(self, claim: Claim) -> bool:
        """Whether a user's message accepts what is named, which calls had named before it."""
        names, seen = _names_in(claim.clause), ""
        is_others = not words_of_deeds("speaker").search(claim.clause) and not _has_aux(claim)
        if is_others:
            return False
        calls = list(self._calls)
        for message in self.messages:
            while calls and calls[0].seq <= message.seq:
                seen += calls.pop(0).text
            is_users = message.role == "user" and message.is_request
            accepts = is_users and _accepting().match(message.text)
            if accepts and all(name in seen for name in names):
                return True
        return False

    def _tells(self, text: str) -> bool:
        """Whether the record speaks of what a line tells, though not as a deed of a known kind."""
        names = _names_in(text)
        if any(name not in self._called and name not in self._stated for name in names):
            return False
        if names or not self._calls:
            return True
        # Calls speak English: of what another language says of them they have a word or two.
        return _holds_enough(_telling_in(text, ()), self._called + self._stated, _SOME)

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
            if max(about.start(), fine.start()) - min(about.end(), fine.end()) > _FAR:
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


def _object_of(claim: Claim) -> tuple[str, ...]:
    """The words of a claim that say what was done to what."""
    return _telling_in(claim.clause, words_in(claim.words))


def _telling_in(text: str, without: Iterable[str]) -> tuple[str, ...]:
    language = main_language(text)
    plain = words_of_deeds("vague").sub(" ", text)
    left = [word for word in words_in(plain) if word not in set(without)]
    told = ((word, telling_stem(word, language)) for word in left if len(word) >= _SHORTEST)
    # "stag" for staging, whose stem is "stage": what all forms of a word begin with.
    begun = (_shared_beginning(word, stem)[:_BEGINNING] for word, stem in told if stem)
    return tuple(dict.fromkeys(f" {b}" for b in begun if b.isalpha() and b < _EAST_ASIAN))


def _shared_beginning(word: str, stem: str) -> str:
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(word, stem, strict=False))
    return "".join(letter for letter, _ in pairs)


def _places_in(claim: Claim) -> tuple[str, ...]:
    """Where a claim says that something was done, by the words behind it."""
    behind = claim.clause[claim.clause.find(claim.words) + len(claim.words) :]
    found = (match[1] for match in _place().finditer(behind))
    return tuple(word for place in found for word in _telling_in(place, ())[:1])


def _names_in(text: str) -> tuple[str, ...]:
    """The exact names in a text, as they stand in `_with_plain`."""
    words = (word.strip("./:@+~-").lower() for word in exact_words(text))
    return tuple(word for word in words if re.search(r"[^\W\d]{2}|[^\W\d].*\d", word))


def _holds_enough(wanted: Sequence[str], text: str, share: float) -> bool:
    return not wanted or sum(_is_held(word, text) for word in wanted) >= share * len(wanted)


def _is_held(word: str, text: str) -> bool:
    """Whether a word is said, be it in another: `test` in pytest."""
    return (word[1:] if len(word) > _SHORTEST + 1 else word) in text


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

"""Checks a lexicon by its own sentences: which sign takes which, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mcp_compaction.core.text.all_languages import KINDS_IN_ALL
from mcp_compaction.core.text.dates import TELLING_GROUPS
from mcp_compaction.core.text.language import ENGLISH, count_votes, speaks_for, words_of
from mcp_compaction.core.text.sentences import spoken_sentences
from mcp_compaction.core.text.signs import Signs
from mcp_compaction.core.text.words import stem_by
from mcp_compaction.errors import InputError
from mcp_compaction.lexicon.languages import Head, Kind, Lexicon, Sign


class CheckedSentence(NamedTuple):
    """A sentence of a sign, and the signs of that kind that take it."""

    text: str
    is_yes: bool
    taken_by: tuple[str, ...]


class CheckedSign(NamedTuple):
    """A sign, what its sentences show, and what is wrong with it."""

    sign: Sign
    sentences: tuple[CheckedSentence, ...]
    problems: tuple[str, ...]


def check_lexicon(lexicon: Lexicon) -> Iterator[CheckedSign]:
    """Each sign of a lexicon, checked by its sentences."""
    broken = [tuple(_complain_of_form(lexicon, sign)) for sign in lexicon.sign]
    pairs = [*zip(lexicon.sign, broken, strict=True)]
    sound = lexicon.model_copy(update={"sign": tuple(sign for sign, wrong in pairs if not wrong)})
    kinds: dict[Kind, None] = dict.fromkeys(sign.kind for sign in sound.sign)
    by_kind = {kind: Signs(sound, kind) for kind in kinds}
    for sign, wrong in pairs:
        if wrong:
            yield CheckedSign(sign, (), wrong)
            continue
        sentences = tuple(_check_sentences(by_kind[sign.kind], sign))
        yield CheckedSign(sign, sentences, tuple(_problems_of(lexicon.meta, sign, sentences)))


def check_head(lexicon: Lexicon, others: Iterable[Lexicon]) -> Iterator[str]:
    """What is wrong with a lexicon as a whole, beside those of the other languages."""
    head = lexicon.meta
    try:
        re.compile(f"[{head.letters or 'a'}]")
    except re.error as error:
        yield f"letters = {head.letters!r} is no inside of a class: {error}"
        return
    yield from _complain_of_parts(lexicon)
    if head.stemmer and stem_by(head.stemmer, "word") is None:
        yield f"stemmer = {head.stemmer!r} is none of PyStemmer's; leave it out or mend it"
    for other in others:
        if other.meta.language == head.language:
            continue
        for text in (yes for sign in other.sign if sign.kind != "guard" for yes in sign.yes):
            taken = [*_words_ahead(head, other.meta, text)]
            if taken:
                yield (
                    f"{other.meta.name} {text!r} would be taken for it by "
                    f"{', '.join(taken)}; leave such words out"
                )


def _complain_of_parts(lexicon: Lexicon) -> Iterator[str]:
    for name in lexicon.parts:
        try:
            re.compile(lexicon.fill(f"{{{name}}}"))
        except (re.error, InputError, RecursionError) as error:
            yield f"the part {name} cannot be read: {error}"


def _words_ahead(head: Head, other: Head, text: str) -> Iterator[str]:
    """The words by which a sentence of another language would be taken for this one."""
    for sentence in spoken_sentences(text):
        if speaks_for(head, sentence.bare) > max(1, speaks_for(other, sentence.bare)):
            own = {*head.function_words, *head.typical_words}
            yield from sorted(words_of(sentence.bare) & own)


def signs_in(lexicon: Lexicon, text: str) -> Iterator[Sign]:
    """The signs of all kinds that a text shows."""
    kinds: dict[Kind, None] = dict.fromkeys(sign.kind for sign in lexicon.sign)
    for sentence in spoken_sentences(text):
        for kind in kinds:
            yield from (shown.sign for shown in Signs(lexicon, kind).find(sentence.bare))


def _complain_of_form(lexicon: Lexicon, sign: Sign) -> Iterator[str]:
    """What keeps a sign from being looked for at all."""
    if sum((one.kind, one.name) == (sign.kind, sign.name) for one in lexicon.sign) > 1:
        yield f"another sign of kind {sign.kind} has its name"
    try:
        for pattern in sign.pattern:
            re.compile(lexicon.fill(pattern))
    except (re.error, InputError, RecursionError) as error:
        yield f"its pattern cannot be read: {error}"
        return
    for word in sign.needs:
        if word.isascii() and words_of(word) != frozenset((word,)):
            yield f"needs {word!r}: write words of small letters alone, as a sentence is cut"
    if sign.kind in KINDS_IN_ALL and (lexicon.guards_of(sign) or sign.beside or sign.by):
        yield f"signs of kind {sign.kind} are looked for in all languages at once, without guards"
    guards = [one.name for one in lexicon.sign if one.kind == "guard"]
    for name in (*lexicon.guards_of(sign), *sign.beside):
        if name not in guards:
            known = ", ".join(guards) or "none"
            yield f"it names the guard {name!r}, and there is none of that name; there are: {known}"
    groups = (re.compile(lexicon.fill(pattern)).groupindex for pattern in sign.pattern)
    if sign.kind == "date" and any(map(TELLING_GROUPS.isdisjoint, groups)):
        yield f"a date needs one of the groups {', '.join(sorted(TELLING_GROUPS))}"


def _check_sentences(signs: Signs, sign: Sign) -> Iterator[CheckedSentence]:
    for text in (*sign.yes, *sign.no):
        shown = (one for said in spoken_sentences(text) for one in signs.find(said.bare))
        taken_by = tuple(dict.fromkeys(one.sign.name for one in shown))
        yield CheckedSentence(text, text in sign.yes, taken_by)


def _problems_of(head: Head, sign: Sign, sentences: tuple[CheckedSentence, ...]) -> Iterator[str]:
    if not sign.yes:
        yield "give it a `yes`: a sentence that shows it"
    if not sign.no:
        yield "give it a `no`: a sentence that only sounds alike"
    for one in sentences:
        if one.is_yes and sign.name not in one.taken_by:
            yield f"it does not take its yes sentence: {one.text}"
        elif one.is_yes and sign.kind != "guard" and (other := _taken_for(head, one.text)):
            yield f"taken for {other}; add a function or typical word: {one.text}"
        # What one guard lets pass another may hold back.
        takers = one.taken_by if sign.kind != "guard" else {sign.name}.intersection(one.taken_by)
        if not one.is_yes and takers:
            yield f"{', '.join(takers)} takes its no sentence: {one.text}"


def _taken_for(head: Head, text: str) -> str:
    """The language that a sentence is taken for, where it is not that of the lexicon."""
    for sentence in spoken_sentences(text):
        votes = count_votes(sentence.bare)
        own = speaks_for(head, sentence.bare)
        others = {code: count for code, count in votes.items() if code != head.language}
        ahead = max(others, key=lambda code: others[code], default="")
        if ahead and others[ahead] > own:
            return ahead
        if not own and not ahead and head.language != ENGLISH:
            return "no known language"
    return ""

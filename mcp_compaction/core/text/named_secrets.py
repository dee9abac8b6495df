r"""Finds the values that a name tells to be secrets, in whatever form a text gives them to it.

A name is made of words, however they are cased and joined. Where one of them says secret and the
others do not make it something else, what is given to the name is a secret if it looks like one.
Every look around a name is bounded, and a value is read on only when it is one, so that one pass
is linear. A value takes in no quote or backslash.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.secret_values import (
    QUOTE,
    ends_value,
    fill_in,
    is_lettered,
    is_opaque,
    is_path_of_names,
    is_random,
    is_reference,
    is_typed,
)
from mcp_compaction.lexicon.secrets import Secret, known_secrets, naming_of_secrets


class NamedSecret(NamedTuple):
    """Where a value stands that its name tells to be a secret, and of what kind it is."""

    start: int
    end: int
    kind: str


def find_named_secrets(text: str) -> Iterator[NamedSecret]:
    """The values that names tell to be secrets, in their order."""
    lower = text.lower()
    if len(lower) != len(text):  # the one letter that is longer in lower case
        lower = text.replace("İ", "I").lower()
    signs = _signs()
    done = 0
    for found in signs.ends.finditer(lower):
        start, end = found.span()
        if start < done or _goes_on(text, end):
            continue
        given = signs.given.match(text, end)
        if given is None:
            continue
        long_enough = _LONG_ENOUGH_QUOTED if given["quote"] else _LONG_ENOUGH
        if not long_enough.match(text, given.end()):
            continue
        name = _read_name(text, start, end, given)
        secret = _secret_of(text, name, _entries_of(found[0]), given) if name else None
        if secret is not None:
            yield secret
            done = secret.end


def _entries_of(end: str) -> list[_Entry]:
    known = _signs().by_end
    return known.get(end) or known[end.replace("_", " ").replace("-", " ")]


def _goes_on(text: str, end: int) -> bool:
    """Whether a word goes on there, as pass does in passed."""
    next_sign = text[end : end + 1]
    is_letter = next_sign.isascii() and next_sign.isalpha()
    return is_letter and next_sign.isupper() == text[end - 1].isupper()


_LONG_ENOUGH = pattern_of(r"[^\s\"'\\<>\[\]{},;&`=]{8}")
_LONG_ENOUGH_QUOTED = pattern_of(r"[^\s\"'\\<>\[\]{}`]{8}")


_SPACE = r"(?:[^\S\r\n]|\\t)"
_LINE = r"(?:\r?\n|\\r?\\n|\\n)"


# The patterns, from what the lexicon knows


class _Entry(NamedTuple):
    words: tuple[str, ...]  # of a name; one, where it is written with spaces
    glued: str
    secret: Secret


class _Signs(NamedTuple):
    ends: re.Pattern[str]  # the last words of names
    by_end: dict[str, list[_Entry]]
    given: re.Pattern[str]  # what follows such a word up to the value
    sets: re.Pattern[str]
    describes: frozenset[str]


_OP = r"(?:=>|:=|\?=|\+=|\|\|=|<-|=(?!=)|:(?!:)|[：＝]|%3[Dd])"


@cache
def _signs() -> _Signs:
    naming = naming_of_secrets()
    by_end: dict[str, list[_Entry]] = defaultdict(list)
    for secret in known_secrets():
        for name in secret.names:
            words = (name,) if " " in name else tuple(name.split("_"))
            by_end[words[-1]].append(_Entry(words, "".join(words), secret))
    return _Signs(
        _any_end(by_end),
        dict(by_end),
        re.compile(_given(naming.is_, naming.of)),
        re.compile(rf"(?:^|[\s;&|]|\\n)(?:{'|'.join(naming.sets)})\s{{1,8}}\Z"),
        naming.describes,
    )


def _any_end(ends: Iterable[str]) -> re.Pattern[str]:
    """One pattern for the ends, by their first letters: most of a text is passed over at once."""
    rests: dict[str, list[str]] = defaultdict(list)
    for end in sorted(ends, key=len, reverse=True):
        rests[end[0]].append("[ _-]".join(map(re.escape, end[1:].split(" "))))
    return re.compile("|".join(f"{first}(?:{'|'.join(rests[first])})" for first in rests))


def _given(is_words: tuple[str, ...], of_words: tuple[str, ...]) -> str:
    def any_of(words: list[str]) -> str:
        return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))

    glued = any_of([word for word in is_words if ord(word[0]) > 0x2E80])
    spaced = any_of([word for word in is_words if ord(word[0]) <= 0x2E80])
    whose = rf"[ ]{{1,2}}(?:{any_of(list(of_words))})(?:[ ][^\W\d_][\w'.-]{{0,24}}+){{1,6}}?"
    says = rf"(?:[ ]?[:=—–]|[ ](?:{spaced}))[ ]{{1,3}}"
    return "".join(
        (
            r"(?P<rest>(?:[_-]{0,2}[A-Za-z0-9]{1,32}+){0,6}+)",
            rf"(?P<close>{QUOTE}\]?|[`*\]]{{1,3}})?(?:",
            "|".join(
                (
                    r"(?(close)(?!)|):?[ ]{1,3}[&A-Za-z][A-Za-z0-9_.<>&?']{0,24}+[ ]{0,3}=[ ]{0,3}"
                    rf"(?=[A-Za-z]{{0,2}}{QUOTE})(?P<typed>)",
                    rf"(?P<op>{_SPACE}{{0,60}}+{_OP}|>){_SPACE}{{0,60}}+"
                    rf"(?:[|>][+-]?[ ]{{0,3}}{_LINE}{_SPACE}{{1,40}}+"
                    rf"|{_LINE}{_SPACE}{{1,40}}+(?={QUOTE}))?(?P<assigned>)",
                    rf"(?:[\s,{{;]|\\[nt]|{QUOTE}){{1,40}}+(?:value|default|content)"
                    rf"(?:{QUOTE})?{_SPACE}{{0,8}}[:=]{_SPACE}{{0,8}}(?P<paired>)",
                    rf"[ ]{{0,2}},[ ]{{0,20}}(?={QUOTE})(?P<listed>)",
                    rf"(?:{whose}{says}|[ ]{{0,3}}[—–][ ]{{1,3}}|[ ]{{1,3}}(?:{spaced})[ :]{{1,3}}"
                    rf"|[ ]{{0,3}}(?:{glued})[:：]?[ ]{{0,3}})(?P<said>)",
                    rf"{_SPACE}{{1,60}}+(?P<spaced>)",
                )
            ),
            rf")(?:[A-Za-z@]{{1,2}}(?={QUOTE}))?[「『“]?(?:(?P<quote>{QUOTE})|`)?",
        )
    )


# The words of a name


class _Name(NamedTuple):
    words: tuple[str, ...]  # up to the one that says secret
    own: int  # how many of them are joined in one name; those before are words of the sentence
    after: tuple[str, ...]
    is_loud: bool
    start: int


_HUMP = pattern_of(r"(?<=[a-z0-9ß-ÿ])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = pattern_of(r"[^\W_]+")
_MASK = "[masked:"


def _words_of(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORD.findall(_HUMP.sub(" ", name)))


def _read_name(text: str, start: int, end: int, given: re.Match[str]) -> _Name | None:
    first = _start_of_run(text, start)
    if text.endswith(_MASK, 0, first):
        return None
    own = _words_of(text[first:end])
    whole = _words_of(text[first : given.end("rest")])
    if whole[len(own) - 1].rstrip("0123456789") != own[-1]:  # as in tokenizer
        return None
    before = first
    for _ in range(2):
        if before and text[before - 1] == " ":
            before = _start_of_run(text, before - 1)
    told = _words_of(text[before:first])
    word = text[start:end]
    is_loud = word.isupper() and len(word) > 1
    return _Name((*told, *own), len(own), whole[len(own) :], is_loud, first)


def _start_of_run(text: str, end: int) -> int:
    """Where the name begins that ends there; the end of an escape sequence is no part of it."""
    start, lowest = end, max(0, end - 64)
    while start > lowest and (text[start - 1].isalnum() or text[start - 1] in "_-."):
        start -= 1
    if start and text[start - 1] == "\\" and start < end:
        start = min(end, start + (5 if text[start] == "u" else 1))
    return start


def _is_named(name: _Name, entry: _Entry) -> bool:
    """Whether a name ends in the words of an entry, and no other word makes it something else."""
    words, glued, secret = entry
    last = name.words[-1].rstrip("0123456789")
    ends_in_it = (
        name.words[-len(words) :] == words
        or last == glued
        or (last.endswith(glued) and (len(glued) >= 5 or not glued.isascii()))
        or " " in glued
    )
    if not ends_in_it or (secret.joined and name.own == 1 and not name.is_loud):
        return False
    return secret.not_with.isdisjoint((*name.words[:-1], *name.after))


# Whether the value is a secret


def _secret_of(
    text: str, name: _Name, entries: list[_Entry], given: re.Match[str]
) -> NamedSecret | None:
    is_told_later = name.after and name.after[-1] in _signs().by_end
    if is_told_later or not _may_be_given(text, name, given):
        return None
    start = given.end()
    for entry in entries:
        secret = entry.secret
        if not _is_named(name, entry):
            continue
        if secret.value:
            found = _own_value(secret.value).match(text, start)
            if found:
                return NamedSecret(start, found.end(), secret.kind)
            continue
        if is_reference(text, start):
            return None
        end = ends_value(text, start, is_quoted=given["quote"] is not None)
        if secret.never and re.fullmatch(secret.never, text[start:end]):
            return None
        if _looks_secret(text, text[start:end], entry, name, given):
            end = ends_value(text, end, is_quoted=given["quote"] is not None, is_rest=True)
            return NamedSecret(start, end, _kind(secret, name, given, text))
        return None
    return None


@cache
def _own_value(pattern: str) -> re.Pattern[str]:
    return re.compile(fill_in(pattern))


def _kind(secret: Secret, name: _Name, given: re.Match[str], text: str) -> str:
    is_flag = given["spaced"] is not None and text.startswith("--", name.start)
    return "command-password" if is_flag else secret.kind


def _may_be_given(text: str, name: _Name, given: re.Match[str]) -> bool:
    close = given["close"] or ""
    if (close and close[-1] in "\"'") or close.endswith(("']", '"]')):
        # A bare number after a quoted name is JSON's, and a mask there would break it.
        if given["quote"] is None and given["op"] != ">":
            return False
        if given["said"] is not None or given["spaced"] is not None:
            return False
    if _IN_ARN.search(text, max(0, name.start - 128), name.start):
        return False
    if given["listed"] is not None:  # as in define('DB_PASSWORD', '...')
        return text[max(0, name.start - 8) : name.start].rstrip("\\\"' :").endswith("(")
    return True


_IN_ARN = pattern_of(r"\b(?:arn|urn):[A-Za-z0-9:/*-]{1,128}+\Z")


def _looks_secret(text: str, value: str, entry: _Entry, name: _Name, given: re.Match[str]) -> bool:
    is_quoted = given["quote"] is not None
    if not _signs().describes.isdisjoint(name.after):
        return False
    if not is_quoted and is_path_of_names(value):
        return False
    looks = entry.secret.looks
    is_long = len(entry.glued) > 4 or not entry.glued.isascii()  # pass is a word of its own
    is_noun = looks == "lettered" and is_long and not given["rest"]
    if given["spaced"] is not None and not _is_command(text, name):
        if looks == "lettered" and is_quoted:  # as in SQL
            return is_opaque(value)
        return looks != "random" and (is_random(value, 12) or (is_noun and is_typed(value)))
    if given["said"] is not None:
        return looks != "random" and (is_random(value, 12) or (is_noun and is_typed(value)))
    end = given.end() + len(value)
    after = text[end : end + 1]
    is_sentence = is_quoted and after == " "
    is_some_token = entry.words == ("token",) and name.own > 1 and not name.is_loud
    if name.after or is_sentence or is_some_token:
        return is_random(value, 12)
    return _looks_assigned(value, after, looks, name, given)


def _looks_assigned(value: str, after: str, looks: str, name: _Name, given: re.Match[str]) -> bool:
    if looks == "random" or is_random(value, 16):
        return is_random(value, 16)
    if is_opaque(value):
        return looks == "lettered" or not value.isdigit()
    is_quoted = given["quote"] is not None
    is_literal = name.is_loud and (is_quoted or (given["op"] or "").endswith("="))
    return looks == "lettered" and is_lettered(
        value, after, is_quoted=is_quoted, is_literal=is_literal
    )


def _is_command(text: str, name: _Name) -> bool:
    if text.startswith("-", name.start):
        return True
    return bool(_signs().sets.search(text[max(0, name.start - 24) : name.start]))

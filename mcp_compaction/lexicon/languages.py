"""Reads the lexicon of a language: its words, and the signs by which its sentences are understood.

A lexicon is one TOML file; `CONTRIBUTING.md` tells what stands in it.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args

from pydantic import BeforeValidator, Field, ValidationError

from mcp_compaction.errors import InputError
from mcp_compaction.lexicon import read_source
from mcp_compaction.model import Value

Kind = Literal[
    "rule",
    "decision",
    "reversal",  # of a decision
    "request",
    "marker",
    "order-to-model",
    "negation",
    "date",
    "guard",
]
Strength = Literal["firm", "weak", "hint"]  # the strongest first; a hint is only offered
STRENGTHS: tuple[Strength, ...] = get_args(Strength)


def _split_words(value: object) -> object:
    return value.split() if isinstance(value, str) else value


def _list_one(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _split_pairs(value: object) -> object:
    """A table may be written as words, each with what it stands for: "ran=run wrote=write"."""
    if isinstance(value, str):
        pairs = [pair.partition("=") for pair in value.split()]
        alone = next((word for word, _, meaning in pairs if not meaning), None)
        if alone is not None:
            raise ValueError(f"{alone!r} stands for nothing; write it as {alone}=MEANING")
        return {word: meaning for word, _, meaning in pairs}
    if isinstance(value, dict):
        return {key: str(meaning) for key, meaning in cast("dict[str, object]", value).items()}
    return value


Words = Annotated[tuple[str, ...], BeforeValidator(_split_words)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_list_one)]
Table = Annotated[dict[str, str], BeforeValidator(_split_pairs)]


class Head(Value):
    """What a language is called, and what tells it from the others."""

    language: str
    name: str
    stemmer: str = ""  # its name in the PyStemmer package
    letters: str = ""  # that few other languages write, as the inside of a pattern's class
    function_words: Words  # that every text of the language is full of, and that tell nothing
    typical_words: Words = ()  # that give the language away as well, and tell something
    abbreviations: Words = ()  # that end in a stop and end no sentence; "ad_es." as "ad es."
    before_numbers: Words = ()  # that do so before a number
    before_ordinals: Words = ()  # words after which a number and a stop are an ordinal
    uncut: Texts = ()  # sentences that show these, each of which is one
    stop_words: Words = ()  # that tell nothing, where these are not the function words


class Sign(Value):
    """One way in which a language says something of a kind, with sentences that show it."""

    kind: Kind
    name: str
    strength: Strength = "firm"
    needs: Words = ()  # words of which a sentence must have one; without any it is always tried
    pattern: Texts = Field(min_length=1)  # any of them, in whatever case
    as_words: bool = False  # the patterns are of whole words
    unless: Texts | None = None  # guards that must not be found beside it
    beside: Texts = ()  # guards that must be found beside it
    by: Literal["", "user"] = ""  # in whose mouth it means something; without any, in everybody's
    yes: Texts = ()  # sentences that show it
    no: Texts = ()  # sentences that sound alike and show no sign of that kind


class Lexicon(Value):
    """The words and signs of one language.

    In a pattern {name} stands for any word of that list, any word that a table of that name
    explains, or any of the ways of that part.
    """

    meta: Head
    lists: dict[str, Words] = Field(default_factory=dict)  # words that have something in common
    parts: dict[str, Texts] = Field(default_factory=dict)  # parts of patterns
    tables: dict[str, Table] = Field(default_factory=dict)  # what words stand for
    unless: dict[str, Texts] = Field(default_factory=dict)  # guards of a kind, or kind.strength
    sign: tuple[Sign, ...] = ()

    def words(self, name: str) -> frozenset[str]:
        """The words of a list; none, where the language has no such list."""
        return frozenset(self.lists.get(name, ()))

    def has(self, name: str) -> bool:
        """Whether the language has a part, list or table of that name."""
        return name in self.parts or name in self.lists or name in self.tables

    def fill(self, pattern: str) -> str:
        """A pattern with the lists and parts that it names put in."""
        return _NAMED.sub(self._written_out, pattern)

    def patterns_of(self, sign: Sign) -> tuple[str, ...]:
        """The patterns of a sign, written out."""
        filled = tuple(map(self.fill, sign.pattern))
        return (whole_words(*filled),) if sign.as_words else filled

    def guards_of(self, sign: Sign) -> tuple[str, ...]:
        """The guards that must not be found beside a sign."""
        if sign.unless is not None:
            return sign.unless
        return self.unless.get(f"{sign.kind}.{sign.strength}", self.unless.get(sign.kind, ()))

    def _written_out(self, match: re.Match[str]) -> str:
        name = match[1]
        if name in self.parts:
            return f"(?:{'|'.join(map(self.fill, self.parts[name]))})"
        words = self.lists.get(name) or self.tables.get(name)
        if not words:
            raise InputError(f"no list, table or part {name!r}; add it, or mend the name.")
        return _any_word(tuple(words))


@cache  # one list stands in many patterns
def _any_word(words: tuple[str, ...]) -> str:
    longest_first = sorted(words, key=lambda word: (-len(word), word))
    escaped = (re.escape(word).replace(r"\ ", " ") for word in longest_first)
    return f"(?:{'|'.join(escaped)})"


def whole_words(*patterns: str) -> str:
    """A pattern for any of these where they are whole words."""
    return rf"\b(?:{'|'.join(patterns)})\b"


_NAMED = re.compile(r"\{([a-z_]+)\}")
_LONGEST_CODE = 3  # letters, of a language; other files of data have longer names
_FIRST_TABLE_OF_MANY = re.compile(r"^\[\[", re.M)


def parse_lexicon(source: str) -> Lexicon:
    """The lexicon that a file's text holds; InputError where it is none."""
    try:
        return Lexicon.model_validate(tomllib.loads(source))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"this is no TOML: {error}. Mend that place.") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = _place_of(first["loc"], tomllib.loads(source))
        raise InputError(f"{where}: {first['msg']}. CONTRIBUTING.md has the keys.") from error


def _place_of(path: tuple[int | str, ...], data: dict[str, Any]) -> str:
    """Where in a file something is wrong: a sign by its name, not by its number."""
    if len(path) > 1 and path[0] == "sign" and isinstance(path[1], int):
        sign = data["sign"][path[1]]
        if not isinstance(sign, dict):
            return f"sign {path[1] + 1}"
        sign = cast("dict[str, Any]", sign)
        return f"sign {sign.get('name', path[1] + 1)!r}, {'.'.join(map(str, path[2:]))}"
    return ".".join(map(str, path))


@cache
def read_lexicon(language: str) -> Lexicon:
    """The lexicon of a language that has one."""
    return parse_lexicon(read_source(f"{language}.toml"))


@cache
def read_lexicons() -> tuple[Lexicon, ...]:
    """The lexicons of all languages, English first."""
    return tuple(read_lexicon(head.language) for head in read_heads())


@cache
def words_in_all(name: str) -> frozenset[str]:
    """The words of the lists of that name, in all languages."""
    return frozenset(word for lexicon in _read_without_signs() for word in lexicon.words(name))


def fill_in_all(name: str) -> str:
    """A pattern for the lists and parts of that name, in all languages."""
    known = (one for one in _read_without_signs() if one.has(name))
    return "|".join(lexicon.fill(f"{{{name}}}") for lexicon in known)


@cache
def read_heads() -> tuple[Head, ...]:
    """The heads of all languages, English first."""
    return tuple(one.meta for one in _read_without_signs())


@cache
def _read_without_signs() -> tuple[Lexicon, ...]:
    """The lexicons of all languages, English first, without their signs: these stand at the end of
    a file, and take nine tenths of the time that it takes to read."""
    found = (path.stem for path in Path(__file__).parent.glob("*.toml"))
    codes = (name for name in found if len(name) <= _LONGEST_CODE)
    english_first = sorted(codes, key=lambda code: (code != "en", code))
    return tuple(_parse_without_signs(read_source(f"{code}.toml")) for code in english_first)


def _parse_without_signs(source: str) -> Lexicon:
    signs = _FIRST_TABLE_OF_MANY.search(source)
    return parse_lexicon(source[: signs.start()] if signs else source)

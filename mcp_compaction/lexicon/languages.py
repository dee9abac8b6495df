"""Reads the lexicon of a language: its words, and the signs by which its sentences are understood.

A lexicon is one TOML file; CONTRIBUTING tells what stands in it and how a language is added.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator, Field, ValidationError

from mcp_compaction.errors import InputError
from mcp_compaction.model import Value

Kind = Literal[
    "rule",
    "decision",
    "reversal",
    "task",
    "done",
    "doubt",
    "next",
    "asks-decision",
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


Words = Annotated[tuple[str, ...], BeforeValidator(_split_words)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_list_one)]


class Head(Value):
    """What a language is called, and what tells it from the others."""

    language: str
    name: str
    stemmer: str = ""  # its name in the snowballstemmer package
    letters: str = ""  # that few other languages write, as the inside of a pattern's class
    function_words: Words
    stop_words: Words = ()  # that tell nothing about what a text is about


class Sign(Value):
    """One way in which a language says something of a kind, with sentences that show it."""

    kind: Kind
    name: str
    strength: Strength = "firm"
    needs: Words = ()  # words of which a sentence must have one; without any it is always tried
    pattern: Texts = Field(min_length=1)  # any of them, in whatever case
    unless: Texts | None = None  # guards that must not be found beside it
    beside: Texts = ()  # guards that must be found beside it
    by: Literal["", "user"] = ""  # in whose mouth it means something; without any, in everybody's
    yes: Texts = ()  # sentences that show it
    no: Texts = ()  # sentences that sound alike and show no sign of that kind


class Lexicon(Value):
    """The words and signs of one language.

    In a pattern {name} stands for any word of that list, or any of the ways of that part.
    """

    meta: Head
    lists: dict[str, Words] = Field(default_factory=dict)  # words that have something in common
    parts: dict[str, Texts] = Field(default_factory=dict)  # parts of patterns
    tables: dict[str, dict[str, str]] = Field(default_factory=dict)  # what words stand for
    unless: dict[str, Texts] = Field(default_factory=dict)  # guards of a kind, or kind.strength
    sign: tuple[Sign, ...] = ()

    def words(self, name: str) -> frozenset[str]:
        """The words of a list; none, where the language has no such list."""
        return frozenset(self.lists.get(name, ()))

    def fill(self, pattern: str) -> str:
        """A pattern with the lists and parts that it names put in."""
        return _NAMED.sub(self._written_out, pattern)

    def guards_of(self, sign: Sign) -> tuple[str, ...]:
        """The guards that must not be found beside a sign."""
        if sign.unless is not None:
            return sign.unless
        return self.unless.get(f"{sign.kind}.{sign.strength}", self.unless.get(sign.kind, ()))

    def _written_out(self, match: re.Match[str]) -> str:
        name = match[1]
        if name in self.parts:
            return f"(?:{'|'.join(map(self.fill, self.parts[name]))})"
        if name in self.lists:
            longest_first = sorted(self.lists[name], key=lambda word: (-len(word), word))
            return f"(?:{'|'.join(map(re.escape, longest_first))})"
        raise InputError(f"no list or part {name!r}; add it under [lists] or [parts].")


_NAMED = re.compile(r"\{([a-z_]+)\}")
_FIRST_TABLE_OF_MANY = re.compile(r"^\[\[", re.M)


def parse_lexicon(source: str) -> Lexicon:
    """The lexicon that a file's text holds; InputError where it is none."""
    try:
        return Lexicon.model_validate(tomllib.loads(source))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"this is no TOML: {error}. Mend that place.") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InputError(f"{where}: {first['msg']}. See CONTRIBUTING for the keys.") from error


@cache
def read_lexicon(language: str) -> Lexicon:
    """The lexicon of a language that has one."""
    return parse_lexicon(_source_of(language))


@cache
def read_heads() -> tuple[Head, ...]:
    """The heads of all languages, English first; their signs are not read for it."""
    names = (file.name for file in files(__package__ or "").iterdir())
    codes = {name.removesuffix(".toml") for name in names if name.endswith(".toml")} - {"secrets"}
    english_first = sorted(codes, key=lambda code: (code != "en", code))
    return tuple(_read_head(_source_of(code)) for code in english_first)


def _read_head(source: str) -> Head:
    signs = _FIRST_TABLE_OF_MANY.search(source)
    head = tomllib.loads(source[: signs.start()] if signs else source)
    return Head.model_validate(head["meta"])


def _source_of(language: str) -> str:
    return files(__package__ or "").joinpath(f"{language}.toml").read_text(encoding="utf-8")

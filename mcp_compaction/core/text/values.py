"""Reads the values that a sentence names, each with the kind by which two can be compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mcp_compaction.core.text.all_languages import part_in_all
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.lexicon.languages import words_in_all

BRANCH = "branch"  # what the kind of such a name begins with
_LIMITS = (  # how much, until when, of which version: of one thing only one can hold
    ("percent", pattern_of(r"(?<![\w.])\d+(?:[.,]\d+)? ?%")),
    ("time", pattern_of(r"(?<![\w:])\d{1,2}:\d\d(?![\w:])")),
)
_MONEY_SIGN = pattern_of(r"[$€£¥] ?\d[\d.,]*\d|[$€£¥] ?\d")
_VERSION = pattern_of(r"\b(?<!\w[+#])([A-Za-z][\w+#]+) v?(\d+(?:\.\d+)+)(?![\w.]*/)")
_URL = pattern_of(r"https?://[^\s\"'`<>()\[\]{}\\|,;]+")
_PATH = pattern_of(r"(?<![\w:/.])(?<!\w-)([A-Za-z][\w.-]*+)(/[\w./-]*\w)")
_BRANCH = pattern_of(r"/[\w-]+")  # a name in a folder, without an ending
_CODE = pattern_of(r"(?<![\w/.-])(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)+")
_PERSON = pattern_of(r"(?<![\w.])[A-Z][a-zà-ÿ]+(?: [A-Z][a-zà-ÿ]+)+(?![\w-])")
_RUN = pattern_of(r"[a-z]+|[A-Z]+|[0-9]+")


class NamedValue(NamedTuple):
    """A value as it stands in a text; two of one kind can stand for one another."""

    kind: str
    text: str
    is_limit: bool = False  # an amount or a day, rather than the name of something


def values_of(text: str) -> tuple[NamedValue, ...]:
    """The values of a text: amounts, days, versions, addresses, codes, names of people."""
    return tuple(dict.fromkeys((*_limits_in(text), *_names_in(text))))


def without_values(text: str) -> str:
    """A text with its values left out."""
    for value in sorted(values_of(text), key=lambda one: -len(one.text)):
        text = text.replace(value.text, " ")
    return text


def _limits_in(text: str) -> Iterator[NamedValue]:
    for kind, pattern in _LIMITS:
        for found in pattern.finditer(text):
            yield NamedValue(kind, found[0], is_limit=True)
    for pattern in (_MONEY_SIGN, part_in_all("money_in_words")):
        for found in pattern.finditer(text):
            yield NamedValue("money", found[0], is_limit=True)
    for found in part_in_all("whole_date").finditer(text):
        yield NamedValue("date", found[0], is_limit=True)
    for found in _VERSION.finditer(text):
        yield NamedValue(f"version of {found[1].lower()}", found[2], is_limit=True)


def _names_in(text: str) -> Iterator[NamedValue]:
    for found in _URL.finditer(text):
        yield NamedValue("url", found[0])
    for found in _PATH.finditer(text):
        of = BRANCH if _BRANCH.fullmatch(found[2]) else "path in"
        yield NamedValue(f"{of} {found[1].lower()}", found[0])
    for found in _CODE.finditer(text):
        yield NamedValue(f"code {_shape_of(found[0])}", found[0])
    for found in _PERSON.finditer(text):
        first = found[0].split(" ", 1)[0].lower()
        if first not in words_in_all("before_names"):  # "Das Haus", "The Queue"
            yield NamedValue("person", found[0])


def _shape_of(code: str) -> str:
    """A code with each run of small letters, capitals and digits as one: A-0 for AUTH-417."""
    return _RUN.sub(lambda run: "0" if run[0].isdigit() else "A" if run[0].isupper() else "a", code)

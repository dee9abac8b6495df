"""Finds the words of the user in the results of calls: answers to questions, and what was said
when a call was refused. The shapes are data, in `lexicon/tools.toml`."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from mcp_compaction.core.limits import LONGEST_TEXT
from mcp_compaction.lexicon.tools import known_answers


class WordsInResult(NamedTuple):
    """What a user said in a result, where it stands, and the question that it answers."""

    words: str
    start: int
    end: int
    question: str = ""


def users_words_in(result: str) -> tuple[WordsInResult, ...]:
    """The words of the user in a result, by the shapes in which hosts hand them over."""
    opening = result[:LONGEST_TEXT]
    for begins, pattern in _shapes():
        if begins.match(opening):
            return tuple(map(_read, pattern.finditer(opening)))
    return ()


def _read(found: re.Match[str]) -> WordsInResult:
    question = found.groupdict().get("question") or ""
    return WordsInResult(found["words"].strip(), *found.span("words"), question)


@cache
def _shapes() -> tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]:
    return tuple((re.compile(one.begins), re.compile(one.each, re.S)) for one in known_answers())

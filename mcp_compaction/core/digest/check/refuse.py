"""Refuses a draft that is no digest of its span: empty, an error, too long, an echo."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Literal, NamedTuple

from mcp_compaction.core.digest.check.source import Source
from mcp_compaction.core.digest.render import render_item
from mcp_compaction.core.limits import LONGEST_TEXT
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.words import one_line
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.lexicon.languages import fill_in_all
from mcp_compaction.model import (
    Draft,
    SummaryRequest,
)

_TIMES_TOO_LONG = 4
_FEWEST_LETTERS = 12
_SPAN_WORTH_WORDS = 200


def texts_of(draft: Draft) -> list[str]:
    """The texts of all lines of a draft that are not blank."""
    return [item.text for _, items in draft.sections for item in items if item.text.strip()]


class TooLong(NamedTuple):
    """How long a draft is that is too long for its span."""

    tokens: int
    span_tokens: int


RefusedFor = (
    TooLong
    | Literal["empty", "says_little", "error_message", "echo", "other_language", "nothing_believed"]
)


def refusal_reason(
    draft: Draft, request: SummaryRequest, source: Source, count: CountTokens
) -> RefusedFor | None:
    """Why a draft is no digest of its span; None where it may be one."""
    texts = texts_of(draft)
    letters = sum(sign.isalnum() for text in texts for sign in text)
    span = sum(message.tokens for message in request.messages)
    if not letters:
        return "empty"
    if draft.author != "agent" and letters < _FEWEST_LETTERS and span > _SPAN_WORTH_WORDS:
        return "says_little"
    if _is_error(texts, source):
        return "error_message"
    tokens = count("\n".join(render_item(item) for _, items in draft.sections for item in items))
    # The agent's digest tells of the whole session, of which this span may be a small part.
    if (tokens > span and draft.author != "agent") or (
        tokens > _TIMES_TOO_LONG * request.max_tokens
    ):
        return TooLong(tokens, span)
    if _is_echo(texts, source.everything):
        return "echo"
    told = " ".join(texts)
    # Tools speak English to everybody.
    if all(_is_in_another_script(told, said) for said in (source.everything, source.user)):
        return "other_language"
    return None


# What a service says begins so; who tells of work on a rate limiter or on billing has more to say.
_ERROR_FORM = pattern_of(
    r"(?:HTTP(?:/[\d.]+)? ?)?(?:error|status)?(?: code)?:? ?[45]\d\d\b"
    r"|\{?\s*\"?(?:type|error)\"?\s*:\s*[{\"]|<!doctype|<html"
    r"|(?:api )?error:? .{0,40}\b(?:quota|rate limit|overloaded|api[ -]key|unauthori[sz]ed"
    r"|timed out)"
    r"|(?:overloaded|too many requests|service unavailable|bad gateway|internal server error"
    r"|insufficient credit)\b",
    re.I,
)


def _is_error(texts: Sequence[str], source: Source) -> bool:
    """Whether a draft is what a service says when it has no answer; a span may tell of errors."""
    first = one_line(texts[0])
    if first in source.everything:
        return False
    is_short = len(texts) <= 2
    return bool(_excuse().match(first)) or (is_short and bool(_ERROR_FORM.match(first)))


@cache
def _excuse() -> re.Pattern[str]:
    return re.compile(rf"\W*(?:{fill_in_all('excuses')})", re.I)


_SPEAKER = pattern_of(r"^(?:\[?m?\d+\]?:? )?(?:user|assistant|tool|system|human|ai)\s*:\s*", re.I)
_MOSTLY = 0.8
_NEIGHBORS = 24  # characters a list sign, a role or a call's name takes between two lines
_FEWEST_IN_A_ROW = 6


def _is_echo(texts: Sequence[str], span: str) -> bool:
    """Whether nearly every line stands in the span, and they cover it or follow on one another."""
    found: list[tuple[int, int]] = []
    reached = 0
    for text in texts:
        line = _SPEAKER.sub("", one_line(text))
        start = span.find(line, reached) if line else -1
        if start >= 0:
            reached = start + len(line)
            found.append((start, reached))
    if not found or len(found) < _MOSTLY * len(texts):
        return False
    covered = sum(end - start for start, end in found)
    if 2 * covered >= len(span):
        return True
    in_a_row = sum(start - end <= _NEIGHBORS for (_, end), (start, _) in pairwise(found))
    return len(found) >= _FEWEST_IN_A_ROW and in_a_row >= _MOSTLY * (len(found) - 1)


_HARDLY = 0.05


def _is_in_another_script(text: str, span: str) -> bool:
    letters, there = _scripts_of(text), _scripts_of(span)
    if letters.total() < _FEWEST_LETTERS:
        return False
    (name, number), *_ = letters.most_common(1)
    return number > letters.total() / 2 and there[name] <= _HARDLY * there.total()


def _scripts_of(text: str) -> Counter[str]:
    """How many letters of each script a text has, by the first word of their names."""
    signs = Counter(text[:LONGEST_TEXT])
    scripts: Counter[str] = Counter()
    for sign, number in signs.items():
        if sign.isalpha():
            scripts[unicodedata.name(sign, "").partition(" ")[0]] += number
    return scripts

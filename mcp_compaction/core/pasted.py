"""Which parts of a message its writer only passes on: code, quotations, tagged blocks, pastes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from mcp_compaction.core.patterns import FENCED, INLINE_CODE, QUOTED

_QUOTED_LINE = re.compile(r"^[ \t]*>.*$", re.M)
_SPEAKER_LINE = re.compile(
    r"^[ \t]*(?:\[?m?\d+\]?:?[ \t]+)?(?:user|human|assistant|system|ai|agent)[ \t]*:.*$",
    re.M | re.I,
)
_QUOTED_LINES = re.compile(r"^[ \t]*[\"“«„「].{0,4000}?[\"”»“」][ \t]*$", re.M | re.S)
# What follows such a line to the end of the message is somebody else's text.
_ANNOUNCED = re.compile(
    r"^(?!.*\b(?:rules?|guidelines?|requirements?|constraints?|conventions?|must|never|always|only)\b)"
    r"[ \t]*(?:(?:here(?:'s|’s| is| are)|this is|below(?: is)?|see|look at|from|and|so)\b[ \t]*)?"
    r"(?:the |my |this |their |an? |its )?(?:\w+[ \t]+){0,3}?"
    r"(?:logs?|outputs?|errors?|traceback|trace|readme|docs?|documentation|page|article|e?-?mail"
    r"|message|ticket|issue|comment|transcript|diff|response|website|paste|pasted)\b"
    r"[^\n.!?:]{0,60}:[ \t]*$"
    r"|^[ \t]*(?:(?:it|he|she|they|someone|somebody)\b[^\n.!?:]{0,40}"
    r"\b(?:says?|said|writes|wrote|reads|sent)|on [^\n]{5,120} wrote)[ \t]*:[ \t]*$"
    r"|^[ \t]*-{2,}[ \t]*(?:forwarded|original|begin)\b.*$",
    re.M | re.I,
)
_OPENING_TAG = re.compile(r"<([A-Za-z][\w-]{0,40})(?:\s[^<>]{0,200})?>")
_MOST_TAGS = 200


class Span(NamedTuple):
    """A stretch of a text."""

    start: int
    end: int


def passed_on_spans(text: str) -> tuple[Span, ...]:
    """The stretches of a text that its writer quotes or pastes rather than says."""
    patterns = (FENCED, INLINE_CODE, QUOTED, _QUOTED_LINE, _QUOTED_LINES, _SPEAKER_LINE)
    matches = chain.from_iterable(pattern.finditer(text) for pattern in patterns)
    announced = _ANNOUNCED.search(text)
    after = (Span(announced.end(), len(text)),) if announced else ()
    return (*(Span(*match.span()) for match in matches), *_tagged_spans(text), *after)


def is_passed_on(start: int, end: int, spans: tuple[Span, ...]) -> bool:
    """Whether a stretch lies in one of these, or begins or ends in the middle of one."""
    return any(
        span.start < start < span.end
        or span.start < end < span.end
        or (span.start <= start and end <= span.end)
        for span in spans
    )


def _tagged_spans(text: str) -> Iterator[Span]:
    for number, tag in enumerate(_OPENING_TAG.finditer(text)):
        if number == _MOST_TAGS:
            yield Span(tag.start(), len(text))
            return
        close = text.find(f"</{tag[1]}", tag.end())
        if close >= 0:
            yield Span(tag.start(), text.find(">", close) + 1 or len(text))

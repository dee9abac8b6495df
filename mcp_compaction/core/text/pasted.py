"""Finds what the writer of a text only passes on: code, quotations, tagged blocks, pastes; and
what is struck out.

The texts given here have been through `unify_lines`: one kind of line end, one kind of blank.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from mcp_compaction.core.limits import MOST_LOOKED_AT
from mcp_compaction.core.text.injection import UNSEEN
from mcp_compaction.core.text.patterns import INLINE_CODE, QUOTED, pattern_of

_LINE_ENDS = pattern_of("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_BLANKS = pattern_of(r"[^\S\n]")
_FENCE = pattern_of(r" *(`{3,}|~{3,}|(?:\"{3}|'{3})(?= *$))")
_STRUCK = pattern_of(r"(?<!~)~~(?!~)[^~]{1,2000}~~(?!~)")
_QUOTED_LINE = pattern_of(r"^ *>.*$", re.M)
_SPEAKER = pattern_of(r"^ *(?:\[?m?\d+\]?:? +)?(?:user|human|assistant|system|ai|agent) *:", re.I)
_CLOSERS = {'"': '"', "“": "”", "«": "»", "„": "“”", "「": "」"}
# What follows such a line to the end of the message is somebody else's text.
_SOURCES = (
    r"(?:logs?|outputs?|errors?|traceback|trace|readme|docs?|documentation|page|article|e?-?mail"
    r"|message|ticket|issue|comment|transcript|diff|response|website|paste|pasted)\b"
)
_OWN_RULES = r"(?!.*\b(?:rules?|guidelines?|requirements?|constraints?|conventions?)\b)"
_ANNOUNCED = pattern_of(
    r"^ *(?:here(?:'s|’s| is| are)|this is|below|see|look at|from|according to)\b[^\n]{0,80}?\b"
    rf"{_SOURCES}[^\n]{{0,60}}: *$"
    rf"|^ *+{_OWN_RULES}(?:\w+ ){{0,4}}?{_SOURCES}[^\n.!?:]{{0,60}}: *$"
    r"|^ *(?:(?:it|he|she|they|someone|somebody)\b[^\n.!?:]{0,40}"
    r"\b(?:says?|said|writes|wrote|reads|sent)|on [^\n]{5,120} wrote) *: *$"
    r"|^ *-{2,} *(?:forwarded|original|begin)\b[^\n]*$",
    re.M | re.I,
)
_OPENING_TAG = pattern_of(r"<([A-Za-z][\w:.-]{0,40})(?: [^<>\n]{0,200})?>")


class TextSpan(NamedTuple):
    """A stretch of a text."""

    start: int
    end: int


def unify_lines(text: str) -> str:
    """A text with one kind of line end, one kind of blank, and no sign that nobody sees."""
    return _BLANKS.sub(" ", _LINE_ENDS.sub("\n", UNSEEN.sub("", text)))


def passed_on_spans(text: str) -> tuple[TextSpan, ...]:
    """The stretches of a text that its writer quotes, pastes or strikes out rather than says, in
    order."""
    patterns = (INLINE_CODE, QUOTED, _QUOTED_LINE, _STRUCK)
    found = [TextSpan(*m.span()) for m in chain.from_iterable(p.finditer(text) for p in patterns)]
    lines = _lines_of(text)
    found += [
        *_fenced_blocks(lines),
        *_quotations_over_lines(lines),
        *_pasted_turns(lines),
        *_tagged_elements(text),
    ]
    if announced := _ANNOUNCED.search(text):
        found.append(TextSpan(announced.end(), len(text)))
    return _merge_spans(found)


def is_passed_on(start: int, end: int, spans: tuple[TextSpan, ...]) -> bool:
    """Whether a stretch lies in one of these, or begins or ends in the middle of one."""
    begun = bisect_right(spans, start, key=_start_of) - 1
    if begun >= 0:
        span = spans[begun]
        if start < span.end and (start > span.start or end <= span.end):
            return True
    before_end = bisect_left(spans, end, key=_start_of) - 1
    return before_end >= 0 and end < spans[before_end].end


def _start_of(span: TextSpan) -> int:
    return span.start


def _merge_spans(spans: Iterable[TextSpan]) -> tuple[TextSpan, ...]:
    merged: list[TextSpan] = []
    for span in sorted(spans):
        if merged and span.start < merged[-1].end:
            merged[-1] = TextSpan(merged[-1].start, max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return tuple(merged)


class _Line(NamedTuple):
    start: int
    text: str

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def _lines_of(text: str) -> list[_Line]:
    lines: list[_Line] = []
    start = 0
    for line in text.split("\n"):
        lines.append(_Line(start, line))
        start += len(line) + 1
    return lines


def _fenced_blocks(lines: list[_Line]) -> Iterator[TextSpan]:
    """Blocks between fences; a fence is closed by one that is at least as long."""
    opened: tuple[int, str] | None = None
    for line in lines:
        fence = _FENCE.match(line.text)
        if fence is None:
            continue
        if opened is None:
            opened = (line.start, fence[1])
        elif fence[1].startswith(opened[1]) and not line.text[fence.end() :].strip():
            yield TextSpan(opened[0], line.end)
            opened = None
    if opened is not None:
        yield TextSpan(opened[0], lines[-1].end)


def _quotations_over_lines(lines: list[_Line]) -> Iterator[TextSpan]:
    """Quotations that begin a line and end another."""
    number = 0
    while number < len(lines):
        text = lines[number].text.strip()
        closers = _CLOSERS.get(text[:1], "")
        following = lines[number + 1 : number + MOST_LOOKED_AT] if closers else []
        if closers and not any(sign in text[1:] for sign in closers):
            for further, line in enumerate(following, start=number + 1):
                if line.text.rstrip().endswith(tuple(closers)):
                    yield TextSpan(lines[number].start, line.end)
                    number = further
                    break
        number += 1


def _pasted_turns(lines: list[_Line]) -> Iterator[TextSpan]:
    """The turns of a pasted chat: from a line that names its speaker to the next blank one."""
    begun: int | None = None
    for line in lines:
        if begun is None and _SPEAKER.match(line.text):
            begun = line.start
        elif begun is not None and not line.text.strip():
            yield TextSpan(begun, line.start)
            begun = None
    if begun is not None:
        yield TextSpan(begun, lines[-1].end)


def _tagged_elements(text: str) -> Iterator[TextSpan]:
    """Elements: from the first opening of a name to its last closing."""
    seen: set[str] = set()
    for tag in _OPENING_TAG.finditer(text):
        if tag[1] in seen:
            continue
        seen.add(tag[1])
        close = text.rfind(f"</{tag[1]}")
        if close > tag.start():
            yield TextSpan(tag.start(), text.find(">", close) + 1 or len(text))

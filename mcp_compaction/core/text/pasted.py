"""Finds what the writer of a text only passes on: code, quotations, tagged blocks, pastes; and
what is struck out.

The texts given here have been through `unify_lines`: one kind of line end, one kind of blank.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from mcp_compaction.core.text.injection import UNSEEN
from mcp_compaction.core.text.patterns import INLINE_CODE, QUOTED, pattern_of

_LINE_ENDS = pattern_of("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_BLANKS = pattern_of(r"[^\S\n]")
_SEEN = pattern_of(r"\S")
# A fence is closed by one that is at least as long, or by the end.
_FENCED_BLOCK = pattern_of(
    r"^ *(`{3,}|~{3,}|(?:\"{3}|'{3})(?= *$)).*?(?:^ *\1[`~\"']* *$|\Z)", re.M | re.S
)
_QUOTATION = pattern_of(  # that begins a line and ends one
    r"^ *(?:\"[^\"]{1,9999}\"|“[^”]{1,9999}”|«[^»]{1,9999}»|„[^“”]{1,9999}[“”]"
    r"|「[^」]{1,9999}」) *$",
    re.M,
)
_STRUCK = pattern_of(r"(?<!~)~~(?!~)[^~]{1,2000}~~(?!~)")
_QUOTED_LINE = pattern_of(r"^ *>.*$", re.M)
# A turn of a pasted chat: from a line that names its speaker to the next blank one.
_TURN = pattern_of(
    r"^ *(?:\[?m?\d+\]?:? +)?(?:user|human|assistant|system|ai|agent) *:.*(?:\n(?=.*\S).*)*",
    re.I | re.M,
)
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


_Span = tuple[int, int]


@lru_cache(maxsize=8)  # each rule of a long message asks for the same
def unify_lines(text: str) -> str:
    """A text with one kind of line end, one kind of blank, and no sign that nobody sees."""
    return _BLANKS.sub(" ", _LINE_ENDS.sub("\n", UNSEEN.sub("", text)))


def mask_passed_on(text: str) -> tuple[str, str]:
    """A text without the lines that its writer quotes, pastes or strikes out rather than says; and
    the same with lines drawn through what is quoted within a line. Both are as long as it was."""
    passed_on = (_FENCED_BLOCK, _QUOTATION, _QUOTED_LINE, _TURN)
    blocks = [found.span() for p in passed_on for found in p.finditer(text)]
    if announced := _ANNOUNCED.search(text):
        blocks.append((announced.end(), len(text)))
    within = [*_tagged_elements(text)]
    within += (found.span() for p in (INLINE_CODE, QUOTED, _STRUCK) for found in p.finditer(text))
    over_lines = [span for span in within if "\n" in text[slice(*span)]]
    own = _put(" ", text, (*blocks, *over_lines))
    return own, _put("_", own, within)


def _put(sign: str, text: str, spans: Iterable[_Span]) -> str:
    """A text with a sign in the place of all that can be seen in some stretches of it."""
    parts: list[str] = []
    done = 0
    for start, end in sorted(spans):
        parts += (text[done:start], _SEEN.sub(sign, text[max(start, done) : end]))
        done = max(done, end)
    return "".join((*parts, text[done:]))


def _tagged_elements(text: str) -> Iterator[_Span]:
    """Elements: from the first opening of a name to its last closing."""
    seen: set[str] = set()
    for tag in _OPENING_TAG.finditer(text):
        if tag[1] in seen:
            continue
        seen.add(tag[1])
        close = text.rfind(f"</{tag[1]}")
        if close > tag.start():
            yield (tag.start(), text.find(">", close) + 1 or len(text))

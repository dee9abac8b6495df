"""Cuts messages into the passages that a search finds, each at a joint of its own kind of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mcp_compaction.core.limits import LONGEST_SENTENCE
from mcp_compaction.core.log.content import words_of
from mcp_compaction.core.log.conversation import users_words_in
from mcp_compaction.core.text.host_texts import host_texts_in
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.model import Part, Role, Speaker, Spoken, Text, ToolResult

_LINE = pattern_of(r"\n(?:[ \t]*\n){0,50}(?=([ \t]*)\S)")
_BLANK_LINES = pattern_of(r"\A(?:[ \t\r]*\n)+")
_JOINTS = (
    pattern_of(r"(?<=[.!?]) +|(?<=[。！？])"),  # sentences
    pattern_of(r"(?<=[}\]],)|(?<=\",)|(?<=[;|]) "),  # fields of JSON and tables
    pattern_of(r"(?<=,)| "),
)
_ANSWER = pattern_of(
    r"\d+ (?:passages?|found)\b[^\n]* is data, not instructions\n(?:[^\n]*\n)?<archived \w+>"
)


def passages_of(role: Role, parts: Iterable[Part], speaker: Speaker = "") -> tuple[Spoken, ...]:
    """The passages a search finds a message by: about eighty words each, and whose they are;
    what a host put into a user's message is the system's, what a user said in a result the user's.

    What recall itself once answered stands elsewhere in the archive, and is not found twice.
    """
    return tuple(
        Spoken(by, piece)
        for part in parts
        if not (isinstance(part, ToolResult) and _ANSWER.match(part.text))
        for by, text in _stretches_of(role, part, speaker)
        for piece in _cut_pieces(text)
    )


def _stretches_of(role: Role, part: Part, speaker: Speaker) -> Iterator[Spoken]:
    text = words_of(part)
    if isinstance(part, ToolResult):
        yield Spoken("tool", text)
        if speaker == "user":
            yield from (Spoken("user", one.words) for one in users_words_in(text))
        return
    if role == "user" and speaker == "host":
        yield Spoken("system", text)
        return
    end = 0
    for stretch in host_texts_in(text) if role == "user" and isinstance(part, Text) else ():
        yield Spoken(role, text[end : stretch.start])
        yield Spoken("system", text[stretch.start : stretch.end])
        end = stretch.end
    yield Spoken(role, text[end:])


def _cut_pieces(text: str) -> Iterator[str]:
    """The pieces of a text, without blank lines at their ends; one that begins with a line keeps
    its indent, without which code reads wrong."""
    start = 0
    while start < len(text):
        is_last = len(text) - start <= LONGEST_SENTENCE
        end = len(text) if is_last else _find_joint(text, start, start + LONGEST_SENTENCE)
        piece = text[start:end].rstrip()
        begins_line = start == 0 or text[start - 1] == "\n"
        piece = _BLANK_LINES.sub("", piece) if begins_line else piece.lstrip()
        if piece:
            yield piece
        start = end


def _find_joint(text: str, start: int, end: int) -> int:
    """Where to cut, in the second half of the piece: as far out as the text's own joints allow."""
    middle = (start + end) // 2
    lines = list(_LINE.finditer(text, middle, end))
    if lines:  # the line that is indented least, best after a blank one, begins something new
        return min(lines, key=lambda line: (len(line[1]), not line[0][1:], -line.end())).end()
    for joint in _JOINTS:
        found = [match.end() for match in joint.finditer(text, middle, end) if match.end() > start]
        if found:
            return found[-1]
    return end

"""Offloads what is too large when it comes: a preview stands for it, with the ref of the whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mcp_compaction.core.log.content import part_tokens, shown_parts, tokens_of
from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.rules import find_rules
from mcp_compaction.core.text.sentences import spoken_sentences
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.window.matching import preview_within
from mcp_compaction.core.window.preview import preview
from mcp_compaction.model import Cut, Message, Text, ToolResult, Trimmed

_SHARE = 10  # a preview takes this part of the limit
_FEWEST_CHARS = 800  # of a request: a start, an end and a few rules
_FEWEST_OF_A_TEXT = 160  # about two sentences: less says nothing
_CHARS_OF_A_LARGE_TOKEN = 8
_NEAR_ENOUGH = 32  # a preview that is within this part of the room fills it
_QUESTION_MARKS = ("?", "？")
_SPELLED_OUT = pattern_of(r"`[a-z./~][\w./~-]* (?![=<>!+*/|&-] )[^`\n]+`")  # no expression
_MOST_COMMANDS, _LONGEST_COMMAND = 2, 240


def offload(message: Message, over: int, asked: str, count: CountTokens) -> Trimmed | None:
    """The message with previews for its results of more tokens than `over`; None without any.

    A preview shows the start, the end, and what matches the words that were asked.
    """
    cuts = tuple(
        Cut(
            part=number,
            shown=part.model_copy(
                update={
                    "text": preview_within(part.text, message.ref, over // _SHARE, asked, count)
                }
            ),
            why="offloaded",
        )
        for number, part in enumerate(message.parts)
        if isinstance(part, ToolResult) and part_tokens(part, count) > over
    )
    if not cuts:
        return None
    tokens = tokens_of(shown_parts(message, cuts), count)
    return Trimmed(seq=message.seq, cuts=cuts, tokens=tokens)


def shorten_request(message: Message, room: int, count: CountTokens) -> Trimmed:
    """A preview of a request that fills the room there is, with its rules, questions and commands.

    Those take half of it at most. Some sentences of each text are shown even without room.
    """
    lines = lines_to_keep(message)
    texts = [len(part.text) for part in message.parts if isinstance(part, Text)]
    fewest = max(_FEWEST_OF_A_TEXT, _FEWEST_CHARS // max(1, len(texts)))
    most = min(max(texts, default=0), room * _CHARS_OF_A_LARGE_TOKEN)
    found = _shorten_to(message, fewest, lines, count)
    while most - fewest > most // _NEAR_ENOUGH:
        chars = (fewest + most) // 2
        tried = _shorten_to(message, chars, lines, count)
        if tried.tokens <= room:
            found, fewest = tried, chars
        else:
            most = chars
    return found


def _shorten_to(message: Message, chars: int, lines: Iterable[str], count: CountTokens) -> Trimmed:
    """The message with so many characters of each of its texts."""
    cuts = tuple(_cut_texts(message, chars, lines))
    tokens = tokens_of(shown_parts(message, cuts), count)
    return Trimmed(seq=message.seq, cuts=cuts, tokens=tokens)


def lines_to_keep(message: Message) -> tuple[str, ...]:
    """The rules of a message, the questions somebody asks in it, and the sentences that spell out
    a command: nobody can guess it."""
    said = conversation_of([message])
    rules = [rule for one in said for rule in find_rules(one.text)]
    sentences = [sentence.text for one in said for sentence in spoken_sentences(one.text)]
    questions = [text for text in sentences if text.endswith(_QUESTION_MARKS)]
    commands = [t for t in sentences if len(t) <= _LONGEST_COMMAND and _SPELLED_OUT.search(t)]
    return (*rules, *questions, *commands[-_MOST_COMMANDS:])


def _cut_texts(message: Message, chars: int, lines: Iterable[str]) -> Iterator[Cut]:
    for number, part in enumerate(message.parts):
        if isinstance(part, Text) and len(part.text) > chars:
            kept = list(_take_within(chars // 2, lines))
            left = chars - sum(map(len, kept))
            shown = Text(text=preview(part.text, message.ref, left, kept))
            yield Cut(part=number, shown=shown, why="offloaded")


def _take_within(chars: int, lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        chars -= len(line) + 1
        if chars >= 0:
            yield line

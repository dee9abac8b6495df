"""Offloads what is too large when it comes: a preview stands for it, with the ref of the whole."""

from __future__ import annotations

from mcp_compaction.core.limits import LONGEST_LINE, SHORTEST_PREVIEW
from mcp_compaction.core.log.content import part_tokens, shown_parts, tokens_of
from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.rules import find_rules
from mcp_compaction.core.text.sentences import spoken_sentences
from mcp_compaction.core.tokens import CHARS_OF_A_LARGE_TOKEN, CountTokens
from mcp_compaction.core.window.preview import fewer_chars, preview_request, preview_within
from mcp_compaction.model import Cut, Message, Text, ToolResult, Trimmed

_WHY = "offloaded"
_SPELLED_OUT = pattern_of(r"`[a-z./~][\w./~-]* (?![=<>!+*/|&-] )[^`\n]+`")  # no expression
_EXACT = pattern_of(r"\d|`|\w[/_]\w|\"[^\"]+\"|[?？]$")
_DIGITS = pattern_of(r"\d+")


def offload(message: Message, over: int, count: CountTokens) -> Trimmed | None:
    """The message with previews for its results of more tokens than `over`, a tenth of that each;
    None without any."""
    cuts = tuple(
        Cut(part=number, shown=part.model_copy(update={"text": shown}), why=_WHY)
        for number, part in enumerate(message.parts)
        if isinstance(part, ToolResult) and part_tokens(part, count) > over
        for shown in [preview_within(part.text, message.ref, over // 10, count)]
    )
    return _trimmed(message, cuts, count) if cuts else None


def shorten_request(message: Message, room: int, count: CountTokens, *, keeps_all: bool) -> Trimmed:
    """A preview of a request that fills the room there is, with as many of its exact sentences as
    a third of it holds, and of its rules and commands as another third does, or all of them. Some
    words of each text are shown even without room."""
    rules, lines = lines_to_keep(message)
    texts = [len(part.text) for part in message.parts if isinstance(part, Text)]
    chars = min(max(texts, default=0), room * CHARS_OF_A_LARGE_TOKEN)
    while True:
        chars = max(SHORTEST_PREVIEW, chars)
        cuts = tuple(
            Cut(part=n, shown=Text(text=shown), why=_WHY)
            for n, part in enumerate(message.parts)
            if isinstance(part, Text) and len(part.text) > chars
            for shown in [preview_request(part.text, message.ref, chars, rules, lines, keeps_all)]
        )
        shorter = _trimmed(message, cuts, count)
        if shorter.tokens <= room or chars == SHORTEST_PREVIEW:
            return shorter
        chars = fewer_chars(chars, room, shorter.tokens)


def _trimmed(message: Message, cuts: tuple[Cut, ...], count: CountTokens) -> Trimmed:
    tokens = tokens_of(shown_parts(message, cuts), count)
    return Trimmed(seq=message.seq, cuts=cuts, tokens=tokens)


def lines_to_keep(message: Message) -> tuple[list[str], list[str]]:
    """The sentences of a message that spell out a command, as the way to finish is told, and its
    rules; and those that ask or name something exact, which nobody can guess."""
    said = conversation_of([message])
    rules = [rule for one in said for rule in find_rules(one.text)]
    sentences = [sentence.text for one in said for sentence in spoken_sentences(one.text)]
    commands = [t for t in sentences if len(t) <= LONGEST_LINE and _SPELLED_OUT.search(t)]
    exact = [t for t in sentences if len(t) <= LONGEST_LINE and _EXACT.search(t)]
    kept = [*dict.fromkeys((*commands[-2:], *rules))]
    first = {_DIGITS.sub("0", text): text for text in reversed(exact)}  # of lines of one template
    return kept, [text for text in reversed(first.values()) if text not in kept]

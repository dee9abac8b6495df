"""What is shown of something large: its beginning, its end, its size and its ref.

One way for results, arguments and requests; they differ in the lines between that stay in sight.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mcp_compaction.core.limits import LONGEST_LINE, SHORTEST_PREVIEW
from mcp_compaction.core.log.content import part_tokens, shown_parts, tokens_of
from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.sentences import spoken_sentences
from mcp_compaction.core.text.signs import find_rules
from mcp_compaction.core.tokens import CHARS_OF_A_LARGE_TOKEN, CountTokens
from mcp_compaction.core.wording import plural
from mcp_compaction.model import Cut, Message, Text, ToolResult, Trimmed

_MOST_CHARS = 900
_MARK = "[...]"
_FOR_BOTH_ENDS = 360  # characters of a request; always both: names used later .007 fewer


def is_large(text: str, policy: Policy, count: CountTokens) -> bool:
    """Whether a text is over the policy's limit for old tool results."""
    if policy.shrink_over_chars is not None:
        return len(text) > policy.shrink_over_chars
    if len(text) <= policy.shrink_over_tokens:
        return False  # a token has at least one character
    if len(text) > policy.shrink_over_tokens * CHARS_OF_A_LARGE_TOKEN:
        return True
    return count(text) > policy.shrink_over_tokens


def preview_chars(policy: Policy) -> int:
    """How much of a large tool result is shown."""
    limit = policy.shrink_over_chars or 4 * policy.shrink_over_tokens
    return min(_MOST_CHARS, limit // 2)


def preview(text: str, ref: str, chars: int) -> str:
    """The beginning and the end of a text, cut at line or word ends, and a note of its size."""
    start, end = _ends_of(text, chars)
    return _join(start, note_of_size(text, ref), (), end)


def preview_request(
    text: str, ref: str, chars: int, rules: Sequence[str], lines: Iterable[str], keeps_all: bool
) -> str:
    """The beginning and the end of a request beside so many characters, and between them all of
    its rules, or as many as half of the characters hold and how many more there are, and as many
    of the other lines as a third holds."""
    ends = _ends_of_request(text, chars)
    kept = rules if keeps_all else _take_within(chars // 2, text, ends, rules)
    more = _take_within(chars // 3, text, ends, lines)
    start, end = ends = _ends_of_request(text, chars - sum(map(len, more)))
    # With marks between them a small view has .02 fewer of the names that are used later.
    between = _hidden_lines(text, ends, (*kept, *more))
    left_out = len(_hidden_lines(text, ends, rules)) - len(_hidden_lines(text, ends, kept))
    return _join(start, note_of_size(text, ref, left_out), between, end)


def _join(start: str, note: str, between: Sequence[str], end: str) -> str:
    ends = ([_MARK] if between else []) + [end] if end else []
    return "\n".join([start, note, *between, *ends])


def _hidden_lines(text: str, ends: tuple[str, str], lines: Iterable[str]) -> list[str]:
    """Those of the lines that stand in a text and not in its ends, in its order."""
    wanted = list(dict.fromkeys(lines))
    if not wanted:
        return []
    places: dict[str, int] = {}
    place = 0
    for line in text.splitlines(keepends=True):
        places.setdefault(line.strip(), place)
        place += len(line)
    shown = "\n".join(ends)
    shown_lines = {line.strip() for line in shown.splitlines()}
    # To look for thousands of lines in a long text takes seconds: most of them are whole lines.
    parts = [line for line in wanted if line not in places and line not in shown]
    places |= {line: found for line in parts if (found := text.find(line)) >= 0}
    found = [line for line in wanted if line in places and line not in shown_lines]
    return sorted(found, key=places.__getitem__)


def preview_within(text: str, ref: str, tokens: int, count: CountTokens) -> str:
    """The longest preview in so many tokens; where they are too few, the shortest there is."""
    chars = len(text) * tokens // max(1, count(text))
    while True:
        chars = max(SHORTEST_PREVIEW, chars)
        shown = preview(text, ref, chars)
        used = count(shown)
        if used <= tokens or chars == SHORTEST_PREVIEW:
            return shown
        chars = fewer_chars(chars, tokens, used)


def fewer_chars(chars: int, room: int, used: int) -> int:
    """How many characters to try next, where so many took more tokens than there is room for."""
    return min(chars - 1, chars * room * 98 // (used * 100))


def note_of_size(text: str, ref: str, rules: int = 0) -> str:
    """The note that stands where a text is cut: how large it is, how many of its rules are not
    shown, and how to read the whole."""
    size = f"{text.count(chr(10)) + 1} lines, {len(text):,} characters in all"
    size += f", {plural(rules, 'more rule')}" if rules else ""
    return f"[... {size}; the whole: recall_archived refs {ref} ...]"


def _take_within(chars: int, text: str, ends: tuple[str, str], lines: Iterable[str]) -> list[str]:
    """As many of the lines that the ends of a text do not show as so many characters hold, the
    first of them first."""
    wanted = list(dict.fromkeys(lines))
    hidden = frozenset(_hidden_lines(text, ends, wanted))
    taken: list[str] = []
    for line in wanted:
        if line in hidden and len(line) < chars:
            chars -= len(line) + 1
            taken.append(line)
    return taken


def _ends_of(text: str, chars: int) -> tuple[str, str]:
    return _cut_back(text[: chars * 2 // 3]), _cut_front(text[len(text) - chars // 3 :])


def _ends_of_request(text: str, chars: int) -> tuple[str, str]:
    """The beginning alone where an end would be a scrap, or hold a block of code, which shows how
    rather than what: a request says first what it wants."""
    start, end = _ends_of(text, chars)
    if chars < _FOR_BOTH_ENDS or "```" in end:
        start, end = _cut_back(text[:chars]), ""
    return start.partition("\n```")[0].rstrip(), end


def _cut_back(text: str) -> str:
    """A text without the line or the word at its end that may be cut."""
    for joint in ("\n", " "):
        position = text.rfind(joint, len(text) // 2)
        if position > 0:
            return text[:position].rstrip()
    return text


def _cut_front(text: str) -> str:
    for joint in ("\n", " "):
        position = text.find(joint, 0, len(text) // 2)
        if position >= 0:
            return text[position:].lstrip()
    return text


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

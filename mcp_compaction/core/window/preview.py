"""What is shown of something large: its beginning, its end, its size and its ref."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from mcp_compaction.core.policy import Policy
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.rows import fold_rows, render_rows
from mcp_compaction.core.tokens import CountTokens

_MOST_CHARS = 900
_NAMES_SHARE = 20  # percent of a preview, for names in what was cut out
_NAME = pattern_of(
    r"\b[A-Za-z]+(?:_\w+)+\b|\b[A-Za-z][a-z0-9]+[A-Z]\w+\b|(?<![\w./-])[\w./-]+\.[a-z]\w{0,4}\b"
)
_CHARS_OF_A_LARGE_TOKEN = 8  # a text this long for its limit is over it, whatever the language


def is_large(text: str, policy: Policy, count: CountTokens) -> bool:
    """Whether a text is over the policy's limit for old tool results."""
    if policy.shrink_over_chars is not None:
        return len(text) > policy.shrink_over_chars
    if len(text) <= policy.shrink_over_tokens:
        return False  # a token has at least one character
    if len(text) > policy.shrink_over_tokens * _CHARS_OF_A_LARGE_TOKEN:
        return True
    return count(text) > policy.shrink_over_tokens


def preview_chars(policy: Policy) -> int:
    """How much of a large tool result is shown."""
    limit = policy.shrink_over_chars or 4 * policy.shrink_over_tokens
    return min(_MOST_CHARS, limit // 2)


def preview(text: str, ref: str, chars: int, lines: Iterable[str] = ()) -> str:
    """The beginning and the end of a text, cut at line or word ends, around a note of its size;
    below them those of the given lines that stand in what was cut out, in its order."""
    start, end = _ends_of(text, chars)
    shown = f"{start}\n{note_of_size(text, ref)}\n{end}"
    hidden = [line for line in dict.fromkeys(lines) if line in text and line not in shown]
    return "\n".join([shown, *sorted(hidden, key=text.find)])


def preview_result(text: str, ref: str, chars: int, lines: Iterable[str] = ()) -> str:
    """The preview of a tool's answer: rows of one template are folded first, and of the given lines
    as many as half of it holds stay in sight."""
    folded = render_rows(fold_rows(text))
    room = chars // 2
    kept: list[str] = []
    for line in lines:
        room -= len(line)
        if room < 0:
            break
        kept.append(line)
    chars -= sum(map(len, kept))
    if len(folded) <= chars:
        return f"{folded}\n{note_of_size(text, ref)}"
    start, end = _ends_of(folded, chars)
    shown = f"{start}\n{note_of_size(text, ref)}\n{end}"
    return "\n".join([shown, *(line for line in dict.fromkeys(kept) if line not in shown)])


def preview_argument(text: str, ref: str, chars: int) -> str:
    """The preview of what a call was given: its beginning, its end, and the names that stand most
    often in what was cut out."""
    names_room = chars * _NAMES_SHARE // 100
    start, end = _ends_of(text, chars - names_room)
    shown = set(_NAME.findall(f"{start} {end}"))
    times = Counter(name for name in _NAME.findall(text) if name not in shown)
    names: list[str] = []
    for name, _ in times.most_common():
        names_room -= len(name) + 2
        if names_room < 0:
            break
        names.append(name)
    return f"{start}\n{note_of_size(text, ref, names)}\n{end}"


def note_of_size(text: str, ref: str, names: Iterable[str] = ()) -> str:
    """The note that stands where a text is cut: how large it is, and how to read the whole."""
    size = f"{text.count(chr(10)) + 1} lines, {len(text):,} characters"
    named = ", ".join(names)
    with_names = f" with {named}" if named else ""
    return f"[... {size}{with_names}; the whole: recall_archived refs {ref} ...]"


def _ends_of(text: str, chars: int) -> tuple[str, str]:
    return cut_back(text[: chars * 2 // 3]), _cut_front(text[len(text) - chars // 3 :])


def cut_back(text: str) -> str:
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

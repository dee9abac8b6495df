"""What is shown of something large: its beginning, its end, its size and its ref."""

from __future__ import annotations

from collections.abc import Iterable

from mcp_compaction.core.policy import Policy
from mcp_compaction.core.text.rows import fold_rows, render_rows
from mcp_compaction.core.tokens import CountTokens

_MOST_CHARS = 900
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
    below them those of the given lines that stand in what was cut out."""
    shown = _ends_of(text, chars, note_of_size(text, ref))
    hidden = [line for line in dict.fromkeys(lines) if line in text and line not in shown]
    return "\n".join([shown, *hidden])


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
    shown = _ends_of(folded, chars, note_of_size(text, ref))
    return "\n".join([shown, *(line for line in dict.fromkeys(kept) if line not in shown)])


def note_of_size(text: str, ref: str) -> str:
    """The note that stands where a text is cut: how large it is, and how to read the whole."""
    size = f"{text.count(chr(10)) + 1} lines, {len(text):,} characters"
    return f"[... {size}; the whole: recall_archived refs {ref} ...]"


def _ends_of(text: str, chars: int, note: str) -> str:
    start = _cut_back(text[: chars * 2 // 3])
    end = _cut_front(text[len(text) - chars // 3 :])
    return f"{start}\n{note}\n{end}"


def _cut_back(text: str) -> str:
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

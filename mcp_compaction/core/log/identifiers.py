"""Finds what summaries lose: paths, commands, URLs, ids, error lines, numbers with their keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from mcp_compaction.core.limits import LONGEST_SENTENCE
from mcp_compaction.core.log.content import is_of_others, words_of
from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.log.tool_calls import action_of
from mcp_compaction.core.reading import read_once
from mcp_compaction.core.text.patterns import cut_words, pattern_of
from mcp_compaction.model import IndexKind, Message, Part, Text, ToolCall, ToolResult

# A text is cut into words, and each different word is looked at once: a window repeats itself so
# much that this is many times faster than one pattern run over all of it.
JOINTS = b"\"'`<>()[]{},;|\\*"
WITHOUT_JOINTS = bytes.maketrans(JOINTS, b" " * len(JOINTS))
_EXTENSION = (
    r"\.(?:py|pyi|ts|tsx|js|jsx|mjs|go|rs|rb|java|kt|c|h|cc|cpp|hpp|cs|swift|php|sh|sql|md|rst|txt|"
    r"toml|ya?ml|json|jsonl|cfg|ini|env|lock|html|css|ipynb|csv|log|proto|tf|xml|png|svg|pdf)"
)
_PATH = pattern_of(
    rf"(?:~|\.{{1,2}})?/[\w.@+-]+(?:/[\w.@+-]+)+|(?:~|\.{{1,2}})/[\w.@+-]+"
    rf"|(?:[\w.@+-]+/)*[\w@+-][\w.@+-]*{_EXTENSION}|[\w@+-][\w.@+-]*(?:/[\w.@+-]+){{2,}}"
)
_ID = pattern_of(
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
    r"|(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,64}"
    r"|[A-Z][A-Z0-9]{1,9}-\d{1,7}|#\d{2,7}|(?=[A-Z0-9]{2,}[0-9][A-Z0-9]{3})[A-Z0-9]+"
    r"|(?=[A-Z]*\d)(?=\d*[A-Z])[A-Z0-9]{5,16}|(?=\w{2,}_)\w+\d{4}"
    # req_8f3a91c2d7, chatcmpl-9f31c07be4; toolu_01AbCdEf23
    r"|[a-z]{2,12}[-_](?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d[0-9a-f]*\d)[0-9a-f]{7,64}"
    r"|[a-z]{2,12}_(?=\w*\d\w*\d)(?=\w*\d[A-Za-z])(?=\w*[a-z])(?=\w*[A-Z])[0-9A-Za-z]{10,64}"
)
# state.go:84, state.go:84:12, and lines around a hit of grep: state.go-84-func
_LINE_NUMBER = pattern_of(r"(?:(?::\d+){1,2}|(\.[A-Za-z]\w{0,9})-\d+-\w*)$")
_KEYED = pattern_of(
    r"[:=][^\S\n]?[\"']?[^\S\n]?(-?\d[\d,._]*+(?:[-:/T]\d[\d,._]*+)*+(?:\s?(?:%|(?:ms|s|m|h|[kKMGT]i?B|k|px|tokens|rows)\b)|(?!\w)))"
)
_KEY_BACKWARDS = pattern_of(r"[\"']?\s?([\w.-]{1,40}[A-Za-z_])(?![\w.-])")
_MOST_BACKWARDS = 44
# Each way begins with a plain sign, so that a search passes over all the others at once.
_ERROR_WORD = pattern_of(
    r"E(?:rror|xception)\b: ?\S|F(?:ailure\b: ?\S|AILED|ATAL)|pani(?:c:|cked at )"
    r"|error(?:[\[:]| [A-Z]+\d+:)|fatal:"
)
_LAST_NUMBER = pattern_of(r"^(.*?)(\d+)(\D*)$")
_FEW_ALIKE = 3
_ERROR_SIGNS = ("rror:", "Exception:", "Failure:", "FAILED", "FATAL", "panic", "error", "fatal:")


class Finding(NamedTuple):
    """One identifier as it stands in a text."""

    kind: IndexKind
    text: str


def without_rows(names: Iterable[str]) -> list[str]:
    """Names without those of a listing, which differ in their last number alone: its rows would
    crowd out all others."""
    named = list(names)
    shapes = [_LAST_NUMBER.sub(r"\1#\3", name) for name in named]
    alike = Counter(shapes)
    return [name for name, shape in zip(named, shapes, strict=True) if alike[shape] <= _FEW_ALIKE]


@read_once
def find_identifiers(text: str) -> tuple[Finding, ...]:
    """The identifiers of a text in the order they stand, each once."""
    found = _find_words(text)
    for keyed in _keyed_numbers(text):
        found[Finding("number", keyed)] = None
    for line in error_lines(text):
        found[Finding("error", line)] = None
    return tuple(found)


def _find_words(text: str) -> dict[Finding, None]:
    """The words of a text that are identifiers, each once."""
    words = dict.fromkeys(cut_words(text, WITHOUT_JOINTS))
    # Most words are plain ones: an identifier has a sign or a digit in it.
    likely = [word for word in words if not word.isalpha() and len(word) <= LONGEST_SENTENCE]
    return dict.fromkeys(filter(None, map(_classify, likely)))


@lru_cache(maxsize=65_536)
def _classify(word: str) -> Finding | None:
    if word.startswith(("http://", "https://")):
        return Finding("url", word.rstrip(".,:;!?"))
    bare = word.lstrip(",:!?=").rstrip(".,:!?=")
    if "/" in bare or "." in bare:
        path = _LINE_NUMBER.sub(r"\1", bare.rpartition("=")[2])
        if len(path) < 300 and _PATH.fullmatch(path):
            return Finding("file", path)
    if 3 <= len(bare) <= 64 and _ID.fullmatch(bare):
        return Finding("id", bare)
    return None


def _keyed_numbers(text: str) -> Iterable[str]:
    for match in _KEYED.finditer(text):
        if match[0][0] == ":" and text.startswith(": ", match.end()):
            continue  # `sh: 1: x: not found` names a place in a script
        before = text[max(0, match.start() - _MOST_BACKWARDS) : match.start()]
        key = _KEY_BACKWARDS.match(before[::-1])
        if key is not None:
            yield f"{key.group(1)[::-1]}={match.group(1).rstrip(',._')}"


def error_lines(text: str) -> Iterable[str]:
    """The lines of a text that name an error."""
    if not any(sign in text for sign in _ERROR_SIGNS):
        return
    done = 0  # each line once: a long line that names many errors would be copied for each
    for match in _ERROR_WORD.finditer(text):
        if match.start() < done:
            continue
        start = text.rfind("\n", 0, match.start()) + 1
        end = text.find("\n", match.end())
        done = end if end >= 0 else len(text)
        yield text[start:done].strip()[:300]


def identifiers_by_message(messages: Sequence[Message]) -> dict[int, tuple[Finding, ...]]:
    """The identifiers that were said in each message, by its number."""
    found: dict[int, tuple[Finding, ...]] = {message.seq: () for message in messages}
    said = conversation_of(messages)
    speakers = {m.text.partition(":")[0] for m in said} if is_of_others(said) else ()
    for message in said:
        named = identifiers_of_parts(message.parts)
        found[message.seq] = tuple(f for f in named if f.text.partition("=")[0] not in speakers)
    return found


def identifiers_of_parts(parts: Sequence[Part]) -> tuple[Finding, ...]:
    """The identifiers in some parts; commands are taken from the calls that run them, and errors
    not from what a call types."""
    found = dict.fromkeys(
        finding
        for part in parts
        if isinstance(part, Text | ToolCall | ToolResult)
        for finding in find_identifiers(words_of(part))
        if finding.kind != "error" or not isinstance(part, ToolCall)
    )
    for part in parts:
        action = action_of(part) if isinstance(part, ToolCall) else None
        if action is not None and action.kind == "run" and action.target:
            found[Finding(kind="command", text=action.line)] = None
    return tuple(found)

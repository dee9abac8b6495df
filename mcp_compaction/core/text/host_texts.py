"""Finds what a host put into a text: reminders, command output, environment, continuations.

The kinds are data, in `lexicon/hosts/`. One pass over any text is linear.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from mcp_compaction.core.reading import read_once
from mcp_compaction.core.text.patterns import FENCED, pattern_of
from mcp_compaction.lexicon.host_texts import HostText, known_host_texts

_BLANKS = pattern_of(r"[ \t\r]*+")
_ALL_CHANGES = "[what a host writes anew with each request]"


class HostTextRun(NamedTuple):
    """Where a run of host text begins and ends, and whether its host writes it anew with each
    request."""

    start: int
    end: int
    changes: bool


@read_once
def host_texts_in(text: str) -> tuple[HostTextRun, ...]:
    """The stretches of a text that a host put there, in order; what a code fence shows is none."""
    if not any(map(text.__contains__, _kinds())):
        return ()
    found: list[HostTextRun] = []
    endings: dict[str, int] = {}  # where each stands next: none is looked for twice
    place = end = 0
    is_speech_before = False
    while opening := _openings().search(text, place):
        start = opening.end("before")
        is_speech_before = is_speech_before or bool(text[end:start].strip())
        if opening["fence"]:
            fence = FENCED.match(text, start)
            place = fence.end() if fence else opening.end()
            continue
        runs, place = _read_host_text_at(text, start, endings, is_speech_before)
        if runs:
            end = place
            found += runs
    return tuple(found)


def _read_host_text_at(
    text: str, start: int, endings: dict[str, int], is_speech_before: bool
) -> tuple[list[HostTextRun], int]:
    """The pieces of host text that begin at a place, and the place where they end; words that a
    user typed between them are no piece. A line has to end behind the pieces, and host text of a
    kind without an ending does not count behind words of a user."""
    runs: list[HostTextRun] = []
    place, changes = start, True
    while opening := _beginning().match(text, place):
        kind, place = _kinds()[opening[0]], opening.end()
        changes = changes and kind.changes
        if not kind.ends:
            whole = HostTextRun(start, len(text), changes)
            return ([], place) if is_speech_before else ([*runs, whole], len(text))
        if 0 <= endings.get(kind.ends, 0) < place:
            endings[kind.ends] = text.find(kind.ends, place)
        closing = endings[kind.ends]
        if closing < 0:
            return [], place
        if kind.spoken and text[place:closing].strip():
            runs.append(HostTextRun(start, place, changes))
            start = closing
        end = closing + len(kind.ends)
        blanks = _BLANKS.match(text, end)
        place = blanks.end() if blanks else end
        if text[place : place + 1] in ("", "\n"):
            return [*runs, HostTextRun(start, end, changes)], end
    return [], place


def without_host_texts(text: str) -> str:
    """A text without what a host put into it; all else stays as it is."""
    found = host_texts_in(text)
    if not found:
        return text
    borders = (0, *(place for run in found for place in (run.start, run.end)), len(text))
    return "".join(text[a:b] for a, b in zip(borders[::2], borders[1::2], strict=True))


def summary_in(text: str) -> str:
    """The summary in a text that a host's own compaction left; empty where it is none."""
    found = (one.summary for one in known_host_texts() if text.startswith(one.begins))
    before, *behind = next(filter(None, found), ("",))
    summary = text.partition(before)[2] if before else ""
    ends = [at for words in behind if (at := summary.rfind(words)) >= 0]
    return summary[: min(ends, default=None)].strip()


def has_words_between_endings(text: str) -> bool:
    """Whether words stand in a text behind an ending of a host's tag and before another one.

    What a tag holds may be anybody's, a selected file's say, and may itself hold the ending: only
    the last one is surely the host's.
    """
    place = 0
    seen: set[str] = set()  # all of a kind stand behind the first one
    while opening := _openings().search(text, place):
        start, place = opening.end("before"), opening.end()
        if opening["fence"]:
            fence = FENCED.match(text, start)
            place = fence.end() if fence else place
            continue
        kind = _kinds()[text[start:place]]
        if kind.begins in seen or kind.spoken or not kind.ends.startswith("</"):
            continue
        seen.add(kind.begins)
        last = text.rfind(kind.ends, place)
        is_one = last < 0 or text.find(kind.ends, place) == last
        if not is_one and without_host_texts(text[start : last + len(kind.ends)]).strip():
            return True
    return False


def text_to_compare(text: str) -> str:
    """A text by which two wordings of a message are compared: without host text.

    All host text that a host writes anew with each request counts as the same; other host text
    counts as it is, where nothing else is said.
    """
    found = host_texts_in(text)
    said = without_host_texts(text).strip() if found else text
    if said or not found:
        return said
    return _ALL_CHANGES if all(run.changes for run in found) else text


def is_only_host_text(text: str) -> bool:
    """Whether a text to compare is only host text that changes with each request."""
    return text == _ALL_CHANGES


def without_host_text_behind(result: str) -> str:
    """A tool's result without what a host put behind it."""
    kept = len(result)
    end = _end_of_words(result, kept)
    behind = [kind for kind in known_host_texts() if kind.in_results]
    while kind := next((k for k in behind if result.endswith(k.ends, 0, end)), None):
        start = result.rfind(kind.begins, 0, end)
        line = result.rfind("\n", 0, max(start, 0)) + 1
        if start < 0 or result[line:start].strip():
            break
        kept = end = _end_of_words(result, start)
    return result[:kept]


def _end_of_words(text: str, end: int) -> int:
    while end and text[end - 1].isspace():
        end -= 1
    return end


@cache
def _kinds() -> dict[str, HostText]:
    return {kind.begins: kind for kind in known_host_texts()}


@cache
def _beginning() -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, _kinds())))


@cache
def _openings() -> re.Pattern[str]:
    """Beginnings of host text and of code fences, at the start of a line."""
    return re.compile(rf"(?P<before>^[ \t]*+)(?:(?P<fence>```|~~~)|{_beginning().pattern})", re.M)

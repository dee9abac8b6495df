"""Finds what tool results said and the agent then used: values and names that came back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from string import ascii_letters, digits
from typing import NamedTuple

from mcp_compaction.core.log.content import words_of
from mcp_compaction.core.log.identifiers import error_lines
from mcp_compaction.core.log.ledger import CHANGED, Ledger
from mcp_compaction.core.log.recent import read_recent_once
from mcp_compaction.core.text.patterns import QUOTED, cut_words, cutting_table, pattern_of
from mcp_compaction.core.text.reading import read_once
from mcp_compaction.core.text.words import is_plain, one_line
from mcp_compaction.model import Message

# A word that names something exact: it has a digit, a capital inside, an underscore or a slash.
_EXACT = pattern_of(
    r"(?<![\w./-])(?=[\w./:@+-]{0,79}(?:\d|_|[a-z][A-Z]|\w/\w|\w\.\w))[A-Za-z0-9_/~.][\w./:@+-]{3,79}"
)
_RUN_TABLE = cutting_table(f"{ascii_letters}{digits}_./:@+~-")[:128] + bytes(range(128, 256))
_LINE_NUMBER = pattern_of(r"^\s*(?:\d{1,6}(?:[:|→\t-]|\s{2,})\s?)+")
_LISTED = pattern_of(r"^\s*[dl-][rwx-]{9}|^\s*(?:\d+%|[\d.]+ ?[kMG]?B\b)|^[+@-]|^\s*\d+ +[+-] ")
_ECHOED = ("edit", "write")  # the results of such calls only repeat what was typed
_TELLS = pattern_of(r"[=:]\s?\S|\b(?:is|are|was|has|not|no)\b|\d")
_CODE = pattern_of(
    r"^(?:\S+?:(?:\d+:)?)?\s*(?:@\w|(?:async )?def |class \w+[(:{]|return\b|import \w"
    r"|from \S+ import |assert |(?:const|let|var) |\"\"\"|#include)"
    r"|^[^\"'{\[].*[,;({\[]$|\w = [\w.]+\(|\w = .* (?:if|#) |^[\w.]+\(.*\)…?$"
)
_PASSING = pattern_of(  # rows of a run of tests, frames of a trace, signs of progress
    r"\b(?:PASSED|FAILED|SKIPPED|XFAIL|XPASS)\b|\[ *\d{1,3}%\]|^File \".*\", line \d"
    r"|^(?:rootdir|platform|plugins|cachedir|collected)\b|(?:\.\.\.|…)$"
)
_WORDS = pattern_of(r"[^\W\d_]{2}")
_SHORTEST, _LONGEST = 8, 220
_MOST_LINES = 400  # of one result, from its two ends
_END = ".,:;)"


class UsedLine(NamedTuple):
    """A line of a tool's result of which something was used later, and how often."""

    text: str
    ref: str
    uses: int
    last_use: int


def used_lines(messages: Sequence[Message], ledger: Ledger) -> Iterator[UsedLine]:
    """The lines of results that first said what the agent later typed or spoke of.

    What stands in a file that was changed since is no longer true and is left out.
    """
    in_calls = _words_in_calls(message for message in messages if message.calls)
    in_results = _words_in_results(message for message in messages if message.results)
    typed = [(m, in_calls.get(m.seq, frozenset()) | exact_words(m.text)) for m in messages]
    uses = _uses_by_word(typed)
    outdated = _outdated_results(ledger)
    known: set[str] = set()
    for message, words in typed:
        told_by_results = in_results.get(message.seq, ())
        for result, told in zip(message.results, told_by_results, strict=True):
            new = {w for w in told - known if uses.get(w, [0])[-1] > message.seq}
            if new and (message.ref, result.call) not in outdated:
                yield from _lines_used(result.text, message, uses, new)
            known |= told
        known |= words


@read_once
def exact_words(text: str) -> frozenset[str]:
    """The words of a text that name something exact."""
    runs = set(cut_words(text, _RUN_TABLE))  # of signs that may stand in such a word
    likely = " ".join([run for run in runs if not is_plain(run)])
    return frozenset([word.rstrip(_END) for word in _EXACT.findall(likely)])


@read_recent_once
def _words_in_calls(messages: Sequence[Message]) -> dict[int, frozenset[str]]:
    """The exact words that each message types in its calls, by its number."""
    return {
        message.seq: frozenset[str]().union(*(exact_words(words_of(c)) for c in message.calls))
        for message in messages
    }


@read_recent_once
def _words_in_results(messages: Sequence[Message]) -> dict[int, tuple[frozenset[str], ...]]:
    """The exact words of each result that a message brings, by its number."""
    return {m.seq: tuple(exact_words(result.text) for result in m.results) for m in messages}


def _uses_by_word(typed: Iterable[tuple[Message, frozenset[str]]]) -> dict[str, list[int]]:
    """The numbers of the messages in which the agent typed or said each exact word."""
    uses: dict[str, list[int]] = {}
    for message, words in typed:
        for word in words if message.role == "assistant" else ():
            uses.setdefault(word, []).append(message.seq)
    return uses


def _outdated_results(ledger: Ledger) -> set[tuple[str, str]]:
    """The results that show a file which was changed by their call or later, by message and
    call."""
    changed = {
        state.path.rpartition("/")[2]: int(state.ref[1:])
        for state in ledger.files.values()
        if state.word in CHANGED or state.word == "unknown"
    }
    found: set[tuple[str, str]] = set()
    for entry in ledger.entries:
        line = entry.action.target.split("\n", 1)[0].split(" | ", 1)[0]
        names = (word.strip("\"',").rpartition("/")[2] for word in line.split())
        since = max((changed.get(name, -1) for name in names), default=-1)
        is_echo = entry.action.kind in _ECHOED and entry.ending == "done"
        is_over = entry.ending not in ("done", "failed")
        if is_echo or is_over or since > int(entry.ref[1:]):
            found.add((entry.result_ref, entry.call.id))
    return found


def _is_finding(line: str) -> bool:
    """Whether a line of a result tells something that lasts: no code, no row of a run of tests, no
    error, which later runs tell of."""
    if _CODE.search(line) or _PASSING.search(line) or any(error_lines(line)):
        return False
    return bool(_TELLS.search(line)) and " " in line and bool(_WORDS.search(QUOTED.sub("", line)))


def _lines_used(
    text: str, message: Message, uses: dict[str, list[int]], new: set[str]
) -> Iterator[UsedLine]:
    """The lines of a result that first say one of the new words, which were used later."""
    lines = text.split("\n")
    half = _MOST_LINES // 2
    for line in lines if len(lines) <= _MOST_LINES else [*lines[:half], *lines[-half:]]:
        if len(line) > 4 * _LONGEST or not any(word in line for word in new):
            continue
        told = new & exact_words(line)
        if not told or _LISTED.match(line):
            continue
        said = one_line(_LINE_NUMBER.sub("", line))
        if _SHORTEST <= len(said) <= _LONGEST and _is_finding(said):
            later = {n for word in told for n in uses[word] if n > message.seq}
            yield UsedLine(said, message.ref, len(later), max(later))
            new -= told

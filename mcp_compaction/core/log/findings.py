"""Finds what tool results said and the agent then used: values and names that came back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from string import ascii_letters, digits
from typing import NamedTuple

from mcp_compaction.core.limits import LONGEST_ANSWER, LONGEST_LINE, MOST_LOOKED_AT
from mcp_compaction.core.log.content import words_of
from mcp_compaction.core.log.identifiers import error_lines
from mcp_compaction.core.log.ledger import Ledger, ledger_of
from mcp_compaction.core.log.recent import read_recent_once
from mcp_compaction.core.text.patterns import cut_words, cutting_table, pattern_of
from mcp_compaction.core.text.reading import read_once
from mcp_compaction.core.text.words import is_plain, one_line
from mcp_compaction.model import Message

# A word that names something exact: it has a digit, a capital inside, an underscore or a slash.
_EXACT = pattern_of(
    r"(?<![\w./-])(?=[\w./:@+-]{0,79}(?:\d|_|[a-z][A-Z]|\w/\w|\w\.\w))[A-Za-z0-9_/~.][\w./:@+-]{3,79}"
)
_RUN_TABLE = cutting_table(f"{ascii_letters}{digits}_./:@+~-")[:128] + bytes(range(128, 256))
_NO_FACT = pattern_of(  # code, a row of a listing or of a run of tests, a frame, a sign of progress
    r"[,;({\[]$|\)…?$|^\W*(?:def|class|return|import|from|const|let|var)\b|\w = [\w.]+\("
    r"|^[+@-]|^[dl-][rwx-]{9}|\b(?:PASSED|FAILED|SKIPPED)\b|\", line \d|^rootdir\b|\.\.\.$"
)
_END = ".,:;)"


class UsedLine(NamedTuple):
    """A line of a tool's result of which something was used later, and when it was last."""

    text: str
    ref: str
    last_use: int


@read_recent_once
def used_lines(messages: Sequence[Message]) -> tuple[UsedLine, ...]:
    """The lines of results that first said what the agent later typed or spoke of; what
    stands in a file that was changed since is left out."""
    answers = _current_answers(ledger_of(messages))
    found: list[UsedLine] = []
    typed = [(m, exact_words("\n".join((m.text, *map(words_of, m.calls))))) for m in messages]
    last = {word: m.seq for m, words in typed if m.role == "assistant" for word in words}
    known: set[str] = set()
    for message, words in typed:
        for result in message.results:
            told = exact_words(result.text)
            new = {word for word in told - known if last.get(word, 0) > message.seq}
            if new and (message.ref, result.call) in answers:
                found += _lines_used(result.text, message, last, new)
            known |= told
        known |= words
    return tuple(found)


def _current_answers(ledger: Ledger) -> set[tuple[str, str]]:
    """The results of calls that were done and name no file which was changed by them or since, by
    message and call."""
    changed = {
        path.rpartition("/")[2]: s.ref for path, s in ledger.files.items() if s.word != "read"
    }
    found: set[tuple[str, str]] = set()
    for entry in ledger.entries:
        words = entry.action.target.split("\n", 1)[0].split()
        names = (word.strip("\"',").rpartition("/")[2] for word in words)
        since = max((int(changed[name][1:]) for name in names if name in changed), default=0)
        is_told = entry.ending in ("done", "failed") and entry.action.kind not in ("edit", "write")
        if is_told and since < int(entry.ref[1:]):
            found.add((entry.result_ref, entry.call.id))
    return found


@read_once
def exact_words(text: str) -> frozenset[str]:
    """The words of a text that name something exact."""
    runs = set(cut_words(text, _RUN_TABLE))  # of signs that may stand in such a word
    likely = " ".join([run for run in runs if not is_plain(run)])
    return frozenset([word.rstrip(_END) for word in _EXACT.findall(likely)])


def _lines_used(
    text: str, message: Message, last: dict[str, int], new: set[str]
) -> Iterator[UsedLine]:
    """The lines of a result that first say one of the new words, which were used later, and tell
    something that lasts: no code, no error, which later runs tell of."""
    lines = text.split("\n")
    most = MOST_LOOKED_AT
    for line in lines if len(lines) <= 2 * most else [*lines[:most], *lines[-most:]]:
        said = one_line(line) if len(line) <= LONGEST_ANSWER else ""
        if not 0 < len(said) <= LONGEST_LINE or not any(word in said for word in new):
            continue
        told = new & exact_words(said)
        if told and not (_NO_FACT.search(said) or any(error_lines(said))):
            yield UsedLine(said, message.ref, max(last[word] for word in told))
            new -= told

"""Finds the words of a text that name something exact."""

from __future__ import annotations

from string import ascii_letters, digits

from mcp_compaction.core.text.patterns import cut_words, cutting_table, pattern_of
from mcp_compaction.core.text.reading import read_once
from mcp_compaction.core.text.words import is_plain

# A word that names something exact: it has a digit, a capital inside, an underscore or a slash.
_EXACT = pattern_of(
    r"(?<![\w./-])(?=[\w./:@+-]{0,79}(?:\d|_|[a-z][A-Z]|\w/\w|\w\.\w))[A-Za-z0-9_/~.][\w./:@+-]{3,79}"
)
_RUN_TABLE = cutting_table(f"{ascii_letters}{digits}_./:@+~-")[:128] + bytes(range(128, 256))
_END = ".,:;)"


@read_once
def exact_words(text: str) -> frozenset[str]:
    """The words of a text that name something exact."""
    runs = set(cut_words(text, _RUN_TABLE))  # of signs that may stand in such a word
    likely = " ".join([run for run in runs if not is_plain(run)])
    return frozenset([word.rstrip(_END) for word in _EXACT.findall(likely)])

"""Folds rows of one template, as logs, listings and progress bars have them, to one example."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mcp_compaction.core.text.patterns import pattern_of

_NOT_LETTERS = pattern_of(r"[\W\d_]+")
_LEAD_WORDS = 4  # among which the first letters tell a row's kind: dates and bars come before
_FEWEST_ROWS, _LEAST_SHARE = 6, 10  # rows of one template in a text, and percent of its lines
_LAST_LINES = 2  # stay: they tell how it ended

_Template = tuple[str, int]


class Row(NamedTuple):
    """A line of a text, and how many more of its template were left out."""

    text: str
    more: int = 0


def fold_rows(text: str) -> list[Row]:
    """The lines of a text; of many that have one template the first, with the number of others."""
    lines = text.splitlines()
    inner, last = lines[:-_LAST_LINES], lines[-_LAST_LINES:]
    if len(inner) < _FEWEST_ROWS:
        return list(map(Row, lines))
    templates = [_template_of(line) for line in inner]
    times = Counter(filter(None, templates))
    folded = {
        template: number
        for template, number in times.items()
        if number >= _FEWEST_ROWS and 100 * number >= _LEAST_SHARE * len(lines)
    }
    return [*_first_of_each(inner, templates, folded), *map(Row, last)]


def render_rows(rows: Sequence[Row]) -> str:
    """Rows as lines again, with a note after each that stands for others."""
    lines = (
        f"{row.text}\n[... {row.more} more lines like this ...]" if row.more else row.text
        for row in rows
    )
    return "\n".join(lines)


def _first_of_each(
    lines: Sequence[str], templates: Sequence[_Template | None], folded: dict[_Template, int]
) -> Iterator[Row]:
    met: set[_Template] = set()
    for line, template in zip(lines, templates, strict=True):
        if template is None or template not in folded:
            yield Row(line)
        elif template not in met:
            met.add(template)
            yield Row(line, folded[template] - 1)


def _template_of(line: str) -> _Template | None:
    """What rows of one template share: their first letters and their number of words; None for a
    line of signs alone."""
    words = line.split()
    lead = next((said for said in map(_letters_of, words[:_LEAD_WORDS]) if said), "")
    if not lead and not any(map(str.isdigit, line)):
        return None
    return lead, len(words)


def _letters_of(word: str) -> str:
    return word if word.isalpha() else _NOT_LETTERS.sub("", word)

"""Writes the pages of evaluations and audits, their tables and their charts: one look for all.

A page stands alone: no scripts, nothing loaded from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from mcp_compaction.core.wording import escape

Table = Sequence[Sequence[str]]
"""Rows of cells, the names of the columns first."""

_STYLE = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")
_LABEL = 166
_WIDTH = 760
_LINE = 15  # of bars, and as much between rows


class Bar(NamedTuple):
    """One bar of a line: its length, the class of its color, and what it says when pointed at."""

    share: float
    style: str
    told: str
    is_mark: bool = False  # only its end is drawn


class BarLine(NamedTuple):
    """Bars that are drawn over each other, and the words behind them."""

    bars: Sequence[Bar]
    words: str


class Curve(NamedTuple):
    """One line of a chart over rounds."""

    name: str
    shares: Sequence[float]
    is_ours: bool


def write_page(title: str, parts: Iterable[str]) -> str:
    """The whole page."""
    body = "\n".join(parts)
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>
{_STYLE}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""


def write_lines(lines: Iterable[str], tag: str = "p") -> str:
    """Texts as paragraphs, or as what the tag names."""
    return "".join(f"<{tag}>{escape(line)}</{tag}>" for line in lines)


def write_table(rows: Table) -> str:
    """A table; nothing where it has no row but its head."""
    head, *body = rows
    cells = "".join(f"<tr>{write_lines(row, 'td')}</tr>" for row in body)
    table = f"<table><tr>{write_lines(head, 'th')}</tr>{cells}</table>"
    return f'<div class="scroll">{table}</div>' if body else ""


def fold_in(heading: str, *parts: str) -> str:
    """Parts that are shown when their heading is clicked."""
    return f"<details><summary>{escape(heading)}</summary>{''.join(parts)}</details>"


def write_key(colors: Mapping[str, str]) -> str:
    """What each color stands for, by its class."""
    look = '<span><i style="background:var(--{})"></i>{}</span>'
    keys = (look.format(color, escape(words)) for color, words in colors.items())
    return f'<div class="key">{" ".join(keys)}</div>'


def draw_bars(rows: Mapping[str, Sequence[BarLine]], caption: str) -> str:
    """A figure with a row for each label, and one or more lines of bars in it."""
    width = _WIDTH - _LABEL - 90
    height = 34 + sum(_LINE * (len(lines) + 1) for lines in rows.values())
    parts: list[str] = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        x = _LABEL + width * share
        parts.append(f'<path class="grid" d="M{x:.1f} 2V{height - 24}"/>')
        parts.append(_draw_text(x, height - 8, f"{share:.0%}", "middle", "small"))
    y = 8
    for label, lines in rows.items():
        parts.append(_draw_text(_LABEL - 10, y + _LINE * len(lines) / 2 + 4, label, "end"))
        for line in lines:
            for bar in line.bars:
                end = width * bar.share
                x, wide = (_LABEL + end - 2, 4) if bar.is_mark else (_LABEL, end)
                parts.append(
                    f'<rect class="{bar.style}" x="{x:.1f}" y="{y}" width="{wide:.1f}" '
                    f'height="{_LINE - 2}" rx="2"><title>{escape(bar.told)}</title></rect>'
                )
            most = max(bar.share for bar in line.bars)
            x = _LABEL + width * most + 6
            parts.append(_draw_text(x, y + _LINE - 4, line.words, "start", "small"))
            y += _LINE
        y += _LINE
    return _frame(_WIDTH, height, caption, parts)


def draw_curves(lines: Sequence[Curve], caption: str) -> str:
    """A figure of shares over the rounds; the product's line is the strong one."""
    width, height, left, top = 360, 220, 40, 14
    across, down = width - left - 12, height - top - 30
    most = max(2, max((len(line.shares) for line in lines), default=2))
    parts: list[str] = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = top + down * (1 - share)
        parts.append(f'<path class="grid" d="M{left} {y:.1f}h{across}"/>')
        parts.append(_draw_text(left - 6, y + 4, f"{share:.0%}", "end", "small"))
    for number in range(1, most + 1):
        x = left + across * (number - 1) / (most - 1)
        parts.append(_draw_text(x, height - 12, str(number), "middle", "small"))
    for line in sorted(lines, key=lambda line: line.is_ours):
        points = " ".join(
            f"{left + across * n / (most - 1):.1f},{top + down * (1 - share):.1f}"
            for n, share in enumerate(line.shares)
        )
        style = "curve" if line.is_ours else "curve faint"
        parts.append(
            f'<polyline class="{style}" points="{points}"><title>{escape(line.name)}</title>'
            "</polyline>"
        )
    return _frame(width, height, caption, parts)


def _draw_text(x: float, y: float, words: str, anchor: str, style: str = "label") -> str:
    return (
        f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
        f"{escape(words)}</text>"
    )


def _frame(width: int, height: float, caption: str, parts: Sequence[str]) -> str:
    told = escape(caption)
    drawn = f'<svg viewBox="0 0 {width} {height:.0f}" role="img" aria-label="{told}">'
    return f"<figure><figcaption>{told}</figcaption>{drawn}{''.join(parts)}</svg></figure>"

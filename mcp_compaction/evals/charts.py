"""Draws charts as SVG text that needs nothing else: bars by kind, bars by strategy, curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mcp_compaction.core.wording import escape

_ROW = 26
_LABEL = 166
_WIDTH = 760


class Bar(NamedTuple):
    """One row: what the product keeps, what a recall adds, and the best of the others."""

    label: str
    closed: float
    recalled: float
    rival: float
    rival_name: str


class Curve(NamedTuple):
    """One line of a chart over rounds."""

    name: str
    shares: Sequence[float]
    is_ours: bool


def draw_kinds(bars: Sequence[Bar], title: str) -> str:
    """Bars by kind: solid in view, pale with one recall, a mark for the best other way."""
    height = _ROW * len(bars) + 34
    width = _WIDTH - _LABEL - 60
    parts = [_draw_grid(width, height)]
    for number, bar in enumerate(bars):
        y = 8 + number * _ROW
        parts.append(_draw_text(_LABEL - 10, y + 13, bar.label, "end"))
        parts.append(
            _draw_rect(y, width * bar.recalled, "pale", f"with one recall {bar.recalled:.0%}")
        )
        parts.append(_draw_rect(y, width * bar.closed, "ours", f"in the view {bar.closed:.0%}"))
        mark = _LABEL + width * bar.rival
        told = f"best other way: {bar.rival_name} {bar.rival:.0%}"
        parts.append(
            f'<path class="rival" d="M{mark:.1f} {y - 1}v20"><title>{escape(told)}</title></path>'
        )
        parts.append(_draw_text(_WIDTH - 52, y + 13, f"{bar.closed:.0%}", "start", "value"))
    return _wrap_svg(height, title, parts)


def draw_strategies(
    shares: Mapping[str, Sequence[float]], budgets: Sequence[int], title: str
) -> str:
    """One group of bars for each strategy, one bar for each budget."""
    row = 13 * len(budgets) + 12
    height = row * len(shares) + 34
    width = _WIDTH - _LABEL - 60
    parts = [_draw_grid(width, height)]
    for number, (name, values) in enumerate(shares.items()):
        top = 8 + number * row
        style = "ours" if number == 0 else "other"
        parts.append(_draw_text(_LABEL - 10, top + row / 2 - 2, name, "end"))
        for place, (budget, share) in enumerate(zip(budgets, values, strict=True)):
            y = top + 13 * place
            told = f"{name} at {budget} %: {share:.1%}"
            parts.append(
                f'<rect class="{style} b{place}" x="{_LABEL}" y="{y}" width="{width * share:.1f}" '
                f'height="11" rx="2"><title>{escape(told)}</title></rect>'
            )
            label = f"{share:.0%} at {budget} %"
            parts.append(_draw_text(_LABEL + width * share + 6, y + 9, label, "start", "small"))
    return _wrap_svg(height, title, parts)


def draw_curves(lines: Sequence[Curve], title: str) -> str:
    """Shares over the rounds; the product's line is the strong one."""
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
    return _wrap_svg(height, title, parts, width)


def _draw_grid(width: float, height: float) -> str:
    lines: list[str] = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        x = _LABEL + width * share
        lines.append(f'<path class="grid" d="M{x:.1f} 2V{height - 24}"/>')
        lines.append(_draw_text(x, height - 8, f"{share:.0%}", "middle", "small"))
    return "".join(lines)


def _draw_rect(y: float, width: float, style: str, told: str) -> str:
    return (
        f'<rect class="{style}" x="{_LABEL}" y="{y}" width="{width:.1f}" height="18" rx="3">'
        f"<title>{escape(told)}</title></rect>"
    )


def _draw_text(x: float, y: float, words: str, anchor: str, style: str = "label") -> str:
    return (
        f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
        f"{escape(words)}</text>"
    )


def _wrap_svg(height: float, title: str, parts: Sequence[str], width: int = _WIDTH) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height:.0f}" role="img" aria-label="{escape(title)}">'
        f"{''.join(parts)}</svg>"
    )

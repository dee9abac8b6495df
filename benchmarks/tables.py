"""What was measured, as tables to print or as JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.rankings import percentile


@dataclass(frozen=True, slots=True)
class Table:
    """What was measured, to be printed or given as JSON."""

    title: str
    columns: dict[str, str]  # each name and how its values are written
    rows: list[dict[str, Any]]
    notes: list[str] = field(default_factory=list[str])


def milliseconds(began: float) -> float:
    """How long it is since then."""
    return (time.perf_counter() - began) * 1_000


def times(ms: Sequence[float], unit: str = "ms") -> dict[str, float]:
    """The middle and the slow end."""
    return {f"p50 {unit}": percentile(ms, 50), f"p95 {unit}": percentile(ms, 95)}


def progress(text: str) -> None:
    """What is being done, on a line of its own that the next one replaces."""
    print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def table_json(table: Table) -> dict[str, Any]:
    """A table as JSON, its values unrounded."""
    return {"title": table.title.replace("\n", " "), "rows": table.rows, "notes": table.notes}


def table_text(table: Table) -> str:
    """A table as text: names to the left, numbers to the right."""
    lines = [list(table.columns)]
    for row in table.rows:
        lines.append([format(row[name], how) for name, how in table.columns.items()])
    widths = [max(len(line[n]) for line in lines) for n in range(len(table.columns))]
    shown = [
        "  ".join(
            cell.rjust(width) if how else cell.ljust(width)
            for cell, width, how in zip(line, widths, table.columns.values(), strict=True)
        ).rstrip()
        for line in lines
    ]
    return "\n".join([table.title, *(f"  {line}" for line in [*shown, *table.notes])])

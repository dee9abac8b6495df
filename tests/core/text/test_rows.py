"""Rows of one template are folded to one example and a count; other lines stay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.text.rows import Row, fold_rows, render_rows

LINES = st.lists(st.text(alphabet="ab1 .-", max_size=12), max_size=40)


@pytest.mark.parametrize(
    "rows",
    [
        [f"2026-11-05 00:21:{n:02},123 INFO pool.worker: job {n} is done" for n in range(30)],
        [f"-rw-r--r-- 1 root root {n}05 Aug  2 22:{n} part_{n}.dat" for n in range(10, 40)],
        [
            f" {n}%|{'█' * n}{' ' * (30 - n)}| {n}/30 [00:{n:02}<00:15, 36.{n}it/s]"
            for n in range(30)
        ],
        [f"Collecting {name}" for name in ("click", "rich", "mteb", "torch", "numpy", "scipy")],
        [f"{n}7183,55464{n}    1926{n},54720{n}" for n in range(30)],
    ],
    ids=["a log", "a listing", "a progress bar", "packages", "numbers"],
)
def test_rows_of_one_template_are_one_example_and_a_count(rows: list[str]) -> None:
    folded = fold_rows("\n".join([*rows, "the result", "the end"]))
    assert folded == [Row(rows[0], len(rows) - 1), Row("the result"), Row("the end")]
    note = f"[... {len(rows) - 1} more lines like this ...]"
    assert render_rows(folded).split("\n") == [rows[0], note, "the result", "the end"]


def test_what_breaks_a_template_stays_in_its_place() -> None:
    calm = [f"12:00:{n:02} INFO worker: job {n} is done" for n in range(20)]
    turn = "12:00:20 ERROR worker: job 20 was killed"
    folded = fold_rows("\n".join([*calm, turn, *calm, "bye", "end"]))
    assert [row.text for row in folded] == [calm[0], turn, "bye", "end"]


def test_the_last_lines_stay_whatever_their_template() -> None:
    rows = [f"step {n} of 9" for n in range(10)]
    assert fold_rows("\n".join(rows)) == [Row(rows[0], 7), Row(rows[8]), Row(rows[9])]


def test_few_rows_and_lines_of_signs_alone_are_not_folded() -> None:
    few = "\n".join([*(f"import part_{n}" for n in range(5)), *"}" * 20, "a", "b"])
    assert render_rows(fold_rows(few)) == few


@given(LINES)
def test_every_line_is_shown_or_counted_once(lines: list[str]) -> None:
    text = "\n".join(lines)
    folded = fold_rows(text)
    assert sum(1 + row.more for row in folded) == len(text.splitlines())
    left = iter(text.splitlines())
    assert all(row.text in left for row in folded)  # in their order

"""What counts as having survived, on hand-made cases."""

from __future__ import annotations

import pytest

from mcp_compaction.evals.corpora import (
    Context,
    Probe,
    Recollection,
    comes_back,
    content_words_of,
    survives,
)


def context(*lines: str) -> Context:
    return Context(lines)


@pytest.mark.parametrize(
    ("line", "survived"),
    [
        ("p99_ms: 412", True),
        ("412 is the P99_MS of today", True),
        ("p99_ms: 4125", False),
        ("p99_ms: 1.412", False),
        ("p99_ms: 412.5", False),
        ("retries: 412", False),
        (f"p99_ms {'x' * 80} 412", False),
    ],
)
def test_a_number_survives_beside_the_name_it_goes_by(line: str, survived: bool) -> None:
    probe = Probe(kind="number", test="keyed", needle="412", key="p99_ms")
    assert survives(probe, context(line)) is survived


TURN = "We painted the old harbor wall yellow yesterday"  # six words that say something


@pytest.mark.parametrize(
    ("lines", "survived"),
    [
        (("painted harbor wall yellow",), True),
        (("painted harbor", "something else", "wall yellow"), True),
        (("painted harbor wall",), False),
        (("painted harbor", "one", "two", "wall yellow"), False),
    ],
)
def test_evidence_needs_most_words_within_three_lines(
    lines: tuple[str, ...], survived: bool
) -> None:
    assert len(set(content_words_of(TURN))) == 6
    probe = Probe(kind="evidence", test="evidence", needle=TURN, source=3)
    assert survives(probe, context(*lines)) is survived


def test_a_recall_brings_back_the_words_or_for_evidence_the_message() -> None:
    answer = Recollection(context("it was the red door"), frozenset({7}))
    assert comes_back(Probe(kind="answer", test="words", needle="red door"), [answer])
    assert comes_back(Probe(kind="evidence", test="evidence", needle=TURN, source=7), [answer])
    assert not comes_back(Probe(kind="evidence", test="evidence", needle=TURN, source=8), [answer])
    assert not comes_back(Probe(kind="answer", test="words", needle="red door"), [])

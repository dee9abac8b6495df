"""What the demo says of its figures, above all when a promise did not hold."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from mcp_compaction.demo import AskedDetail, Figures, broken_promises_of, tell
from mcp_compaction.model import Receipt, Replaced, Tally

RECEIPT = Receipt(
    compaction=1,
    reason="done",
    at=datetime(2026, 11, 15, tzinfo=UTC),
    before=70_000,
    after=12_000,
    window=80_000,
    precision="scaled",
    freed=(("deduplicate", 3_000), ("shrink", 55_000)),
    replaced=(Replaced(first=2, last=41, digest=1),),
    tallies=(Tally(kind="paths", retained=3, recoverable=2),),
)
FOUND = AskedDetail(
    query="port", detail="6437", in_window=False, ref="m5", passage="it listens on 6437"
)
FIGURES = Figures(
    session="s",
    project="/p",
    messages=90,
    calls=70,
    largest_batch=4,
    receipt=RECEIPT,
    advice=None,
    rule="Never\n\tever.",
    rule_message="m8",
    rule_bytes=12,
    rule_in_window=True,
    rule_message_in_window=False,
    recollection=FOUND,
    shown_messages=20,
    provider_faults=(),
    archive_faults=(),
    first_answer_ms=900,
    seconds=3.5,
)


def told(figures: Figures) -> str:
    """The whole telling as text."""
    return "\n".join(line for paragraph in tell(figures) for line in paragraph)


@pytest.mark.parametrize(
    ("change", "promise", "words"),
    [
        ({"rule_in_window": False}, "byte for byte", "NOT all the same"),
        ({"provider_faults": ("an orphan",)}, "a provider accepts", "NOT valid: an orphan"),
        ({"archive_faults": ("m7",)}, "the archive has", "NOT as they were said: m7"),
        (
            {"recollection": FOUND.model_copy(update={"in_window": True})},
            "recalled",
            "STILL in the window",
        ),
        (
            {"recollection": FOUND.model_copy(update={"ref": None})},
            "recalled",
            "NOT found: 6437",
        ),
        (
            {"receipt": RECEIPT.model_copy(update={"tallies": (Tally(kind="ids", lost=2),)})},
            "nothing is lost",
            "   2",
        ),
        (
            {"receipt": RECEIPT.model_copy(update={"tallies": ()})},
            "nothing is lost",
            "lost",
        ),
        (
            {"receipt": RECEIPT.model_copy(update={"after": 70_000, "freed": ()})},
            "smaller",
            "70,000",
        ),
    ],
)
def test_a_broken_promise_is_named(change: dict[str, Any], promise: str, words: str) -> None:
    figures = FIGURES.model_copy(update=change)
    faults = broken_promises_of(figures)
    assert len(faults) == 1
    assert promise in faults[0]
    assert words in told(figures)


def test_what_the_check_put_back_is_told() -> None:
    receipt = RECEIPT.model_copy(update={"after": 20_000, "shortfall": "held by logs"})
    text = told(FIGURES.model_copy(update={"receipt": receipt}))
    assert "put back by the check" in text
    assert " -8,000" in text
    assert "shortfall: held by logs" in text

"""Outcomes in words and numbers, as a model and a person read them."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_compaction.core.compaction.outcomes import change_of_view
from mcp_compaction.core.compaction.receipt import (
    outcome_text,
    projection_text,
    receipt_text,
)
from mcp_compaction.core.window.fill import Fill
from mcp_compaction.model import (
    Compaction,
    Failed,
    Kept,
    Mode,
    NothingToDo,
    Outcome,
    Projection,
    Receipt,
    Refusal,
    Replaced,
    Tally,
    View,
)
from tests.core.saying import user
from tests.sessions import NOW, pin, session_of


def fill(tokens: int, ratio: float = 1.0) -> Fill:
    return Fill(
        parts=(("messages", tokens),), by_role=(), window=200_000, ratio=ratio, precision="scaled"
    )


def receipt(**fields: Any) -> Receipt:
    known: dict[str, Any] = {
        "compaction": 4,
        "reason": "done",
        "at": NOW,
        "before": 148_000,
        "after": 61_000,
        "window": 200_000,
        "precision": "scaled",
    }
    return Receipt(**{**known, **fields})


def test_a_receipt_is_told_in_short_lines() -> None:
    told = receipt(
        replaced=(Replaced(first=12, last=225, digest=3),),
        freed=(("deduplicate", 9_000), ("shrink", 52_000), ("merge", 0), ("summarize", 26_000)),
        tallies=(
            Tally(kind="rules", retained=3),
            Tally(kind="paths", retained=41, recoverable=17),
        ),
        shortfall="61k is above the target of 50k: held by recent steps 40k",
        notes=("the model was down; extracted instead",),
    )
    assert receipt_text(told) == (
        "c4 done: 148k -> 61k of 200k tokens (scaled). m12..m225 is now d3.\n"
        "freed: duplicates 9.0k, old tool results 52k, old steps 26k\n"
        "checked: rules 3/3 in view; paths 41 in view, 17 by recall; lost 0\n"
        "shortfall: 61k is above the target of 50k: held by recent steps 40k\n"
        "note: the model was down; extracted instead\n"
        "window: smaller from your next step. undo: restore_context c4"
    )


def test_a_receipt_of_before_there_were_offers_is_still_read() -> None:
    old = receipt().model_dump(mode="json", exclude={"offer"})
    assert Receipt.model_validate(old) == receipt()


@pytest.mark.parametrize("mode", ["hooks", "plain"])
def test_a_window_of_the_hosts_is_never_said_to_shrink(mode: Mode) -> None:
    done, back = (
        receipt_text(receipt(), mode, "tax"),
        receipt_text(receipt(kind="restore"), mode, "tax"),
    )
    assert done.endswith(
        "window: the host's, and unchanged; smaller is the view that a fresh chat starts from. "
        'Tell the user: "For a fresh window open a new chat and write: continue tax"\n'
        "undo: restore_context c4"
    )
    assert "window: the host's, and unchanged; as it was is the view" in back
    for text in (done, back):
        assert "your next step" not in text


def test_a_digest_alone_is_told_as_unchecked() -> None:
    told = receipt(kind="digest", replaced=(Replaced(first=0, last=0, digest=1),))
    assert receipt_text(told) == (
        "c4 saved: your digest is kept as d1. It stands for nothing that was recorded, so it is "
        "unchecked."
    )


def test_a_step_back_is_a_receipt_of_its_own() -> None:
    session = session_of([user("go")], [pin(1, "Never push.")], view=View(version=3))
    session = session.model_copy(update={"next_compaction": 5})
    old = View(version=1, compaction=2, head=(Kept(seq=1),), upto=1)
    back = change_of_view(session, old, "restore", "c3, c4", (fill(500), fill(900)), NOW)
    assert back == Compaction(
        base_version=3,
        view=old.model_copy(update={"version": 4, "compaction": 5}),
        digests=(),
        receipt=receipt(
            compaction=5,
            kind="restore",
            reason="undo c3, c4",
            before=500,
            after=900,
            pins=1,
            notes=("undone: c3, c4",),
        ),
    )
    assert outcome_text(back).split("\n")[-2:] == [
        "window: as it was, with everything said since.",
        "next: go on. undo: restore_context c5",
    ]


def test_a_dry_run_says_that_nothing_was_changed() -> None:
    told = Projection(
        before=148_000,
        after=61_000,
        window=200_000,
        precision="exact",
        freed=(("shrink", 87_000),),
        spans=((12, 40), (50, 90)),
        shortfall="too much",
    )
    assert projection_text(told) == outcome_text(told)
    assert outcome_text(told) == (
        "dry run: 148k -> at most about 61k of 200k tokens (exact). Nothing was changed.\n"
        "would free: old tool results 87k\n"
        "would become a digest: m12..m40, m50..m90\n"
        "may fall short: too much"
    )
    bare = Projection(before=10, after=5, window=100, precision="exact")
    assert "\n" not in projection_text(bare)


@pytest.mark.parametrize(
    "outcome",
    [
        Refusal(reason="too_soon", text="go on."),
        NothingToDo(reason="all_needed", text="go on."),
        Failed(reason="error", text="go on."),
    ],
)
def test_other_outcomes_say_their_text(outcome: Outcome) -> None:
    assert outcome_text(outcome) == "go on."

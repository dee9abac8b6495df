"""What the API answers prints as text that a person reads."""

from __future__ import annotations

from pathlib import Path

from mcp_compaction import Compaction, open_store


def test_stats_and_receipts_print_as_text(tmp_path: Path) -> None:
    with open_store(home=tmp_path, project="/shop", window_tokens=4_000) as store:
        session = store.session("letters")
        session.pin("Never touch prod.", by="user")
        for n in range(40):
            said = {"role": "user", "content": f"Write letter {n} to parcel office {n}. " * 4}
            done = {"role": "assistant", "content": f"Letter {n} is written. " * 12}
            session.record([said, done])
        outcome = session.compress("all written", target_percent=30)
        assert isinstance(outcome, Compaction)
        told = str(outcome.receipt)
        assert str(outcome) == told
        assert told.startswith(
            f"c1: {outcome.receipt.before:,} -> {outcome.receipt.after:,} of 4,000"
        )
        assert told.endswith("undo: restore c1")
        stats = str(session.stats())
        assert stats.startswith("letters: 80 messages\n")
        assert "\n1 pin\n" in stats
        assert f"last: {told}" in stats

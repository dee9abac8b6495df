"""The numbers of pins, which PostgreSQL counts in a row of the owner's."""

from __future__ import annotations

from mcp_compaction.store.postgres.database import PgTx


def last_pin(tx: PgTx) -> int:
    """The newest number that was ever given to a pin."""
    row = tx.one("SELECT pins FROM counter WHERE owner = %(owner)s")
    return 0 if row is None else row["pins"]


def expect_pins(tx: PgTx, upto: int) -> None:
    """Have pins kept under their numbers: one that was given once is never given again."""
    tx.run(
        "INSERT INTO counter (owner, pins) VALUES (%(owner)s, %(upto)s) ON CONFLICT (owner)"
        " DO UPDATE SET pins = greatest(counter.pins, excluded.pins)",
        upto=upto,
    )

"""An agent loop that compacts its own window: record, pin, compress, recall, page in, undo."""

from __future__ import annotations

import asyncio
import tempfile
from typing import Any

from mcp_compaction.core.compaction.receipt.text import outcome_text
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import Ask, Compaction
from mcp_compaction.ports import SessionKey
from mcp_compaction.settings import load_settings
from mcp_compaction.wiring import open_compactor

RULE = "Never run migrations against prod; only staging."


def tool_step(number: int) -> list[dict[str, Any]]:
    """One step of an agent: a call and its result."""
    call = {
        "type": "tool_use",
        "id": f"t{number}",
        "name": "Read",
        "input": {"path": f"m{number}.sql"},
    }
    text = f"-- migration {number}\n" + f"ALTER TABLE orders ADD COLUMN note_{number} text;\n" * 20
    result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": text}
    return [
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]


async def main() -> None:
    """Play the session and show what the model would be sent."""
    with tempfile.TemporaryDirectory() as home:
        settings = load_settings(
            {"MCP_COMPACTION_HOME": home, "MCP_COMPACTION_WINDOW_TOKENS": "8000"}
        )
        compactor = await open_compactor(settings)
        try:
            session, _ = await compactor.open(SessionKey(project="/shop", name="migrations"))
            first: list[Any] = [{"role": "user", "content": f"Review the migrations. {RULE}"}]
            await compactor.record(session, read_incoming(first))
            pinned = await compactor.pin(session, RULE, by="agent")
            print(f"{pinned.pin.ref} by {pinned.pin.author}: {pinned.pin.text}")

            for number in range(30):
                await compactor.record(session, read_incoming([*tool_step(number)]))
            print(f"fill: {(await compactor.fill(session)).percent:.0f} %")

            outcome = await compactor.compress(session, Ask(reason="all migrations read"))
            print(outcome_text(outcome))
            context = await compactor.context(session)
            print(
                f"the model is sent {len(str(context)):,} characters, the rule among them: "
                f"{RULE in str(context)}"
            )

            found = await compactor.recall(session, "note_3 orders")
            print(f"recall: {found.hits[0].ref} {found.hits[0].text.splitlines()[0]}")
            again = await compactor.page_in(session, "t3")  # the id of a tool call, or m8
            print(outcome_text(again))
            if isinstance(outcome, Compaction):
                back = await compactor.restore(session, outcome.receipt.ref, force=True)
                print(outcome_text(back))
        finally:
            await compactor.close()


if __name__ == "__main__":
    asyncio.run(main())

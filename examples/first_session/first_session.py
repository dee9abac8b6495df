"""An agent loop that compacts its own window: record, pin, compress, recall, page in, undo."""

from __future__ import annotations

import asyncio
import tempfile
from typing import Any

from mcp_compaction import Compaction, open_store, outcome_text

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
        async with open_store(home=home, project="/shop", window_tokens=8_000) as store:
            session = await store.session("migrations")
            await session.record({"role": "user", "content": f"Review the migrations. {RULE}"})
            pinned = await session.pin(RULE)
            print(f"{pinned.pin.ref} by {pinned.pin.author}: {pinned.pin.text}")

            for number in range(30):
                await session.record(tool_step(number))
            print(f"fill: {(await session.stats()).fill.percent:.0f} %")

            outcome = await session.compress("all migrations read")
            print(outcome_text(outcome))
            body = await session.request("anthropic")  # send it: client.messages.create(**body, …)
            print(
                f"the model is sent {len(str(body)):,} characters, the rule among them: "
                f"{RULE in str(body)}"
            )

            found = await session.recall("note_3 orders")
            print(f"recall: {found.hits[0].ref} {found.hits[0].text.splitlines()[0]}")
            again = await session.page_in("t3")  # the id of a tool call, or m8
            print(outcome_text(again))
            if isinstance(outcome, Compaction):
                back = await session.restore(outcome.receipt.ref, force=True)
                print(outcome_text(back))


if __name__ == "__main__":
    asyncio.run(main())

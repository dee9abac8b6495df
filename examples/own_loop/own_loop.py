"""A loop whose agent compresses its own window; a script stands in for the model."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from typing import Any

from mcp_compaction import open_store
from mcp_compaction.adapters.loop import LoopKit

Json = dict[str, Any]
RULE = "Never run migrations against prod; only staging."


async def agent(kit: LoopKit, ask: Callable[[list[Any]], Awaitable[Json]], task: str) -> list[Any]:
    """Work on a task until the model calls no tool any more."""
    messages: list[Any] = [{"role": "user", "content": task}]
    while True:
        response = await kit.send(ask, messages)
        messages += kit.answer_of(response)
        calls = kit.calls_of(response)
        if not calls:
            return messages
        results: list[Any] = []
        for call in calls:
            if kit.owns(call):
                results.append(await kit.call(call))
                print(f"{call['name']}: {str(results[-1]['content']).splitlines()[0]}")
            else:
                results.append(kit.result_of(call, read(call)))
        messages += kit.messages_of(results)
        messages = await kit.apply(messages)  # after the whole batch


def read(call: Any) -> str:
    """The only tool of this loop: a file's text."""
    path = call["input"]["path"]
    return f"-- {path}\n" + f"ALTER TABLE {path.removesuffix('.sql')} ADD COLUMN note text;\n" * 30


class Script:
    """A model that reads files, and looks after its window as a good agent would."""

    def __init__(self) -> None:
        self.step = 0
        self.largest = 0

    async def __call__(self, messages: list[Any]) -> Json:
        """The next answer; a real one comes from `client.messages.create(…, tools=kit.tools)`."""
        self.step += 1
        self.largest = max(self.largest, len(str(messages)))
        return {"role": "assistant", "content": [self._next()]}

    def _next(self) -> Json:
        match self.step:
            case 1:
                name, given = "pin_constraint", {"text": RULE}
            case 20 | 40:
                name, given = "compress_context", {"reason": "a part is read", "force": True}
            case 45:
                name, given = "recall_archived", {"query": "orders_7"}
            case 46:
                return {"type": "text", "text": "All read, nothing was run against prod."}
            case number:
                name, given = "read", {"path": f"orders_{number}.sql"}
        return {"type": "tool_use", "id": f"call_{self.step}", "name": name, "input": given}


async def main() -> None:
    """Play the loop and show what it did."""
    with tempfile.TemporaryDirectory() as home:
        async with open_store(home=home, project="/shop", window_tokens=20_000) as store:
            session = await store.session("migrations")
            kit, script = LoopKit(session), Script()
            messages = await agent(kit, script, f"Read all migrations. {RULE}")
            print(f"{script.step} requests, the largest of {script.largest:,} characters")
            print(f"the rule is in the window: {RULE in str(messages)}")
            print(f"recorded: {(await session.stats()).info.messages} messages")


if __name__ == "__main__":
    asyncio.run(main())

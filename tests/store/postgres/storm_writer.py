"""A process that records and compacts for one owner until it is killed; tells what it was told.

python storm_writer.py ADDRESS OWNER FIRST
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).parents[3]))

from mcp_compaction.errors import StoreError
from mcp_compaction.store.postgres.database import PoolLimits
from mcp_compaction.store.postgres.store import open_store
from tests.store.given_store import NOW, batch, compaction, new_session, said

T = TypeVar("T")


async def main(address: str, owner: str, first: int) -> None:
    """Say one message after the other, each until it was acknowledged; compact after each tenth."""
    store = await insist(lambda: open_store(address, owner, PoolLimits(2)))
    session = await insist(lambda: new_session(store))
    number = first
    while True:
        message = batch(said(f"message {number}", host_id=f"id{number}"))
        await insist(lambda message=message: store.append(session, message, NOW))
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
        if number >= 10 and number % 10 == 0:
            base = (await insist(lambda: store.load(session, NOW))).view.version
            made = compaction(base=base, number=base + 1)
            # Where the answer was lost the second try finds another view, and saves nothing.
            await insist(lambda made=made: store.save(session, made))
        number += 1


async def insist(call: Callable[[], Awaitable[T]]) -> T:
    """The answer of a call, asked again while the store is away."""
    while True:
        try:
            return await call()
        except StoreError:
            await asyncio.sleep(0.05)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))

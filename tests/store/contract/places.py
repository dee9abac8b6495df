"""The stores that have to hold the contract, each opened as often as a test likes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

from mcp_compaction.ports import Store
from mcp_compaction.store.postgres import store as postgres
from mcp_compaction.store.postgres.database import PoolLimits, opened
from mcp_compaction.store.postgres.schema import TABLES
from mcp_compaction.store.sqlite import open_store
from tests.store.given_store import PATIENCE, bytes_left


class Place(Protocol):
    """Where a test's store lies; empty when the test begins."""

    def opened(self) -> AbstractAsyncContextManager[Store]:
        """The store there, as one more process would have it."""
        ...

    async def find_traces(self, canary: str) -> list[str]:
        """The places that still hold a text; asked while the store is not open."""
        ...


class SqlitePlace:
    """A file."""

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o700)
        self._folder = folder
        self._path = folder / "store.db"

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Store]:
        """The store in that file."""
        store = await open_store(self._path, PATIENCE)
        try:
            yield store
        finally:
            await store.close()

    async def find_traces(self, canary: str) -> list[str]:
        """The files that hold a text."""
        return bytes_left(self._folder, canary)


class PostgresPlace:
    """One owner's rows in a database."""

    def __init__(self, address: str, owner: str) -> None:
        self.address = address
        self.owner = owner

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Store]:
        """The owner's store, with connections of its own."""
        store = await postgres.open_store(self.address, self.owner, PoolLimits(connections=4))
        try:
            yield store
        finally:
            await store.close()

    async def find_traces(self, canary: str) -> list[str]:
        """The tables that hold a text in one of the owner's rows."""
        found: list[str] = []
        async with opened(self.address) as database:
            for table in TABLES:
                rows = await database.read(
                    self.owner,
                    lambda tx, table=table: tx.all(
                        f"SELECT t::text AS row FROM {table} AS t WHERE owner = %(owner)s"
                    ),
                )
                needles = (canary.lower(), canary.encode().hex())
                if any(needle in row["row"].lower() for row in rows for needle in needles):
                    found.append(table)
        return found

"""What the store's tests start from: messages, compactions, and ways to look at a store's file."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from mcp_compaction.core.recall.rank import rank
from mcp_compaction.model import (
    Compaction,
    Cut,
    Digest,
    Digested,
    Hit,
    IndexItem,
    Item,
    JsonObject,
    Kept,
    NewMessage,
    NewPin,
    Pin,
    PinChange,
    Receipt,
    Role,
    SearchQuery,
    Spoken,
    Text,
    ToolCall,
    ToolResult,
    Traits,
    Trimmed,
    View,
)
from mcp_compaction.ports import Batch, Scope, SessionKey, Store
from mcp_compaction.store.connect import connect
from mcp_compaction.store.health import health
from mcp_compaction.store.sqlite import SqliteStore, open_store

T = TypeVar("T")

PATIENCE = 120.0  # seconds; only a net against hanging
NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
PROJECT = "/home/ann/shop"
KEY = SessionKey(project=PROJECT, name="checkout")
CANARY = "Xq7canaryZk9"


def said(text: str, role: Role = "user", host_id: str | None = None) -> NewMessage:
    """A message of plain words."""
    raw = json.dumps({"role": role, "content": text}, ensure_ascii=False)
    return NewMessage(
        role=role,
        parts=(Text(text=text),),
        shape="anthropic",
        raw=raw,
        normal=raw,
        passages=(Spoken(role, text),),
        host_id=host_id,
        tokens=len(text),
    )


def called(call: str, tool: str, arguments: JsonObject) -> NewMessage:
    """An assistant's tool call."""
    block = {"type": "tool_use", "id": call, "name": tool, "input": arguments}
    raw = json.dumps({"role": "assistant", "content": [block]})
    return NewMessage(
        role="assistant",
        parts=(ToolCall(id=call, name=tool, arguments=arguments),),
        shape="anthropic",
        raw=raw,
        normal=raw,
        passages=(Spoken("assistant", json.dumps(arguments)),),
        tokens=20,
    )


def answered(call: str, text: str) -> NewMessage:
    """What a tool answered."""
    block = {"type": "tool_result", "tool_use_id": call, "content": text}
    raw = json.dumps({"role": "user", "content": [block]})
    return NewMessage(
        role="user",
        parts=(ToolResult(call=call, text=text),),
        shape="anthropic",
        raw=raw,
        normal=raw,
        passages=(Spoken("tool", text),),
        tokens=len(text),
    )


def batch(*messages: NewMessage, after: int | None = None, whole: bool = False) -> Batch:
    """Messages to append."""
    return Batch(messages=messages, counter="test", after=after, whole=whole)


def history(*texts: str) -> tuple[NewMessage, ...]:
    """A conversation in turns."""
    roles: tuple[Role, Role] = ("user", "assistant")
    return tuple(said(text, roles[number % 2]) for number, text in enumerate(texts))


def compaction(base: int = 0, number: int = 1, upto: int = 6) -> Compaction:
    """A compaction of m2..m4 with a trimmed m5, made from a given view."""
    digest = Digest(
        number=number,
        first=2,
        last=4,
        messages=3,
        sections=(
            ("FACTS", (Item(text="the port is 8443", refs=("m3",)), Item(text="all went well"))),
            ("NEXT", (Item(text="ship it", refs=("m4",)),)),
        ),
        index=(IndexItem(kind="file", text="src/cart.py", refs=("m2..m3",)),),
        tokens=30,
    )
    view = View(
        version=base + 1,
        compaction=number,
        head=(Kept(seq=1),),
        body=(
            Digested(digest=number),
            Trimmed(
                seq=5,
                cuts=(Cut(part=0, shown=Text(text="cut of the fifth"), why="preview"),),
                tokens=4,
            ),
            Kept(seq=6),
        ),
        upto=upto,
    )
    receipt = Receipt(
        compaction=number,
        reason="test",
        at=NOW,
        before=100,
        after=40,
        window=200,
        precision="estimate",
        notes=('rule not pinned? m3 user: "use port 8443"', "nothing else"),
    )
    return Compaction(base_version=base, view=view, digests=(digest,), receipt=receipt)


@asynccontextmanager
async def opened(path: Path, deadline: float = PATIENCE) -> AsyncGenerator[SqliteStore]:
    """A store that is closed afterwards."""
    store = await open_store(path, deadline)
    try:
        yield store
    finally:
        await store.close()


def with_store(
    path: Path, use: Callable[[SqliteStore], Awaitable[T]], deadline: float = PATIENCE
) -> T:
    """What a coroutine gives that uses a store, where no loop runs yet."""

    async def main() -> T:
        async with opened(path, deadline) as store:
            return await use(store)

    return asyncio.run(main())


async def new_session(store: Store, key: SessionKey = KEY) -> int:
    """The id of the session of a key."""
    info, _ = await store.open_session(key, Traits(), NOW)
    return info.id


async def add_pin(store: Store, session: int, pin: NewPin, now: datetime) -> Pin:
    """Keep a pin, whichever there are."""
    kept = await store.change_pins(session, lambda _: PinChange(new=pin), now)
    assert kept is not None
    return kept


def here(session: int | None = None) -> Scope:
    """A scope in the tests' project."""
    return Scope(project=PROJECT, session=session)


TABLES = (
    *("session", "message", "tool_call", "section", "view", "digest", "receipt", "pin", "event"),
    *("tombstone", "passage"),
)


def state(path: Path) -> str:
    """A hash of all rows of a store, but for whether a forget was purged from the log file."""
    digest = sha256()
    with closing(connect(path, deadline=5, newest=99)) as connection:
        for table in TABLES:
            columns = [
                row["name"]
                for row in connection.execute(f"PRAGMA table_info({table})")
                if row["name"] != "purged"
            ]
            if columns:
                listed = ", ".join(columns)
                for row in connection.execute(f"SELECT {listed} FROM {table} ORDER BY {listed}"):
                    digest.update(repr((table, tuple(row))).encode())
    return digest.hexdigest()


def damage(path: Path) -> list[str]:
    """What is wrong with a store, but for the version of SQLite it is read with."""
    with closing(connect(path, deadline=5, newest=99)) as connection:
        return list(health(connection, path).problems)


def rows(path: Path, sql: str, *parameters: str | int) -> list[tuple[object, ...]]:
    """The rows of a query on a store's file."""
    with closing(connect(path, deadline=5, newest=99)) as connection:
        connection.row_factory = None
        return connection.execute(sql, parameters).fetchall()


def bytes_left(folder: Path, canary: str = CANARY) -> list[str]:
    """The files that still hold a canary; read only while no store is open."""
    needles = (canary.encode(), canary.lower().encode())
    return [
        file.name
        for file in folder.rglob("*")
        if file.is_file() and any(needle in file.read_bytes() for needle in needles)
    ]


def is_writable_now(path: Path) -> bool:
    """Whether another connection can begin to write within a tenth of a second."""
    with closing(sqlite3.connect(path, timeout=0.1, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
        return True


async def matching(store: Store, scope: Scope, word: str) -> tuple[Hit, ...]:
    """The passages that hold a word, as recall ranks them."""
    query = SearchQuery(terms=(word,))
    return await store.read(scope, query, rank(await store.find(scope, query)))

"""A store whose folder cannot be written is read as ever, and a write says why it fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from given_store import NOW, batch, new_session, opened, said, with_store

from mcp_compaction.store.identity import Identity, change_since
from mcp_compaction.store.sqlite import SqliteStore

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(os.name == "nt", reason="modes are POSIX")]

LOOK = """
import asyncio, json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from given_store import NOW, batch, here, matching, opened, said
from mcp_compaction.errors import StoreReadOnly
from rootless import obey_modes
obey_modes()

async def main():
    found = {}
    async with opened(Path(sys.argv[2])) as store:
        found["sessions"] = [info.name for info in await store.sessions(here(), 9)]
        found["said"] = [o.message.raw for o in await store.originals(here(1))]
        found["recalled"] = len(await matching(store, here(1), "alpha"))
        health = await store.health()
        found["notes"], found["messages"] = health.notes, health.messages
        try:
            await store.append(1, batch(said("beta")), NOW)
        except StoreReadOnly as error:
            found["refusal"] = str(error)
        await store.mark_announced("/p", [1])
    print(json.dumps(found))

asyncio.run(main())
"""


@pytest.fixture
def folder() -> Generator[Path]:
    """A folder that can be removed again, whatever the test did to its mode."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)
        Path(name).chmod(0o755)


async def record(store: SqliteStore) -> None:
    session = await new_session(store)
    await store.append(session, batch(said("alpha")), NOW)


async def record_and_die(store: SqliteStore) -> None:
    await record(store)
    os._exit(0)


def looked_at(path: Path) -> dict[str, Any]:
    """What a process that obeys modes sees of a store in a folder that is closed to writing."""
    for file in path.parent.iterdir():
        file.chmod(0o444)
    path.parent.chmod(0o555)
    words = [sys.executable, "-c", LOOK, str(Path(__file__).parent), str(path)]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_a_log_that_appears_beside_a_store_read_alone_is_noticed() -> None:
    """Where the log cannot be shared SQLite sees no change; the store has to."""
    alone = Identity((1, 2), None, None)
    assert change_since(alone, alone) is None
    assert change_since(alone, Identity((1, 2), (1, 3), (1, 4))) == "log replaced"
    assert change_since(alone, Identity((1, 9), None, None)) == "replaced"


def check(found: dict[str, Any]) -> None:
    assert found["sessions"] == ["checkout"]
    assert found["said"] == ['{"role": "user", "content": "alpha"}']
    assert found["recalled"] == found["messages"] == 1
    assert "can be read but not written" in found["refusal"]
    assert "MCP_COMPACTION_HOME" in found["refusal"]
    assert found["refusal"] in found["notes"]


async def test_a_closed_store_is_read_where_nothing_can_be_written(folder: Path) -> None:
    path = folder / "store.db"
    async with opened(path) as store:
        await record(store)
    check(looked_at(path))


def test_what_stands_in_the_log_alone_is_read_where_nothing_can_be_written(folder: Path) -> None:
    path = folder / "store.db"
    pid = os.fork()
    if pid == 0:
        with_store(path, record_and_die)
    os.waitpid(pid, 0)
    assert (folder / "store.db-wal").stat().st_size > 0
    check(looked_at(path))


async def test_a_log_that_cannot_be_read_with_its_store_is_not_passed_over(folder: Path) -> None:
    path = folder / "store.db"
    async with opened(path) as store:
        await record(store)
    (folder / "store.db-wal").write_bytes(b"the newest messages")
    with pytest.raises(AssertionError, match="StoreReadOnly"):
        looked_at(path)

"""Files removed or replaced under an open store: nothing is acknowledged that is not kept."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from given_store import NOW, PATIENCE, batch, damage, here, history, new_session, opened, rows, said

from mcp_compaction.errors import StoreDamaged, StoreError, StoreMoved
from mcp_compaction.store.connections import Connections
from mcp_compaction.store.database import Writer
from mcp_compaction.store.lockfile import LockFile
from mcp_compaction.store.sqlite import SqliteStore

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(os.name == "nt", reason="an open file cannot be removed there"),
]

WRITING_ELSEWHERE = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from given_store import NOW, batch, new_session, opened, said

async def main():
    async with opened(Path(sys.argv[1])) as store:
        if sys.argv[4] == "give up":
            await store.repair()
        session = await new_session(store)
        for number in range(int(sys.argv[3])):
            await store.append(session, batch(said(f"elsewhere {number} " + "word " * 2000)), NOW)

asyncio.run(main())
"""


def write_elsewhere(path: Path, messages: int = 1, after: str = "") -> None:
    """Have another process record; POSIX locks do not part connections of one process."""
    words = [sys.executable, "-c", WRITING_ELSEWHERE, str(path), str(Path(__file__).parent)]
    subprocess.run([*words, str(messages), after], check=True)


def replace(path: Path, other: Path) -> None:
    """Put another store in the place of one, and take the old log away."""
    other.replace(path)
    remove(path, "-wal", "-shm")


def remove(path: Path, *suffixes: str) -> None:
    for suffix in suffixes:
        path.with_name(path.name + suffix).unlink()


async def record(store: SqliteStore, text: str) -> int:
    session = await new_session(store)
    await store.append(session, batch(said(text)), NOW)
    return session


async def refused(store: SqliteStore, session: int) -> str:
    with pytest.raises(StoreError) as error:
        await store.append(session, batch(said("lost if acknowledged")), NOW)
    return str(error.value)


def texts(path: Path) -> str:
    return repr(rows(path, "SELECT raw FROM message ORDER BY id"))


async def test_a_write_during_which_its_file_goes_away_is_not_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    def work(connection: sqlite3.Connection) -> None:
        connection.execute(
            "INSERT INTO tombstone (session, ref, sha256, at) VALUES (1, 'x', '', '')"
        )
        path.rename(tmp_path / "elsewhere.db")

    connections = Connections(path, LockFile(path), PATIENCE)
    await connections.open()
    writer = Writer(lambda: connections.writing, connections.lock_file, PATIENCE, connections.check)
    with pytest.raises(StoreMoved, match="nothing was kept of this call"):
        await writer.transaction(work)
    await connections.close()
    connections.lock_file.close()


async def test_a_write_to_a_removed_store_is_not_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(path) as store:
        session = await record(store, "alpha")
        remove(path, "", "-wal", "-shm")
        for _ in range(2):
            assert "mcp-compaction store restore FILE" in await refused(store, session)
        (left,) = await store.originals(here(session))
        assert "alpha" in left.message.raw
    assert not path.exists()


async def test_a_replaced_store_is_used_from_the_next_call_on(tmp_path: Path) -> None:
    path, other = tmp_path / "store.db", tmp_path / "other" / "store.db"
    write_elsewhere(other)
    async with opened(path) as store:
        session = await record(store, "alpha")
        replace(path, other)
        assert (await refused(store, session)).endswith("used from now on: try again.")
        await record(store, "beta")
    assert "elsewhere" in texts(path)
    assert "beta" in texts(path)
    assert "alpha" not in texts(path)
    assert damage(path) == []


async def test_a_store_put_beside_the_log_of_another_is_never_mixed_with_it(tmp_path: Path) -> None:
    path, other = tmp_path / "store.db", tmp_path / "other" / "store.db"
    write_elsewhere(other)
    before = other.read_bytes()
    async with opened(path) as store:
        session = await record(store, "alpha")
        other.replace(path)
        for _ in range(2):
            assert "mcp-compaction store restore FILE" in await refused(store, session)
        with pytest.raises(StoreDamaged, match="store restore FILE"):
            async with opened(path):
                pass
    with pytest.raises(StoreDamaged, match="not the file that the log"):
        damage(path)
    assert path.read_bytes() == before


async def test_a_copy_of_the_whole_folder_is_a_store_like_any_other(tmp_path: Path) -> None:
    path, copy = tmp_path / "here" / "store.db", tmp_path / "there"
    async with opened(path) as store:
        await record(store, "alpha")
        # By another process: closing the copied file here would drop SQLite's locks.
        subprocess.run(["cp", "-r", path.parent, copy], check=True)
    assert copy.joinpath("store.db-wal").stat().st_size > 0
    assert "alpha" in texts(copy / "store.db")


async def test_a_reader_of_a_replaced_store_is_told_and_then_reads_the_new_one(
    tmp_path: Path,
) -> None:
    path, other = tmp_path / "store.db", tmp_path / "other" / "store.db"
    write_elsewhere(other, 3)
    async with opened(path) as store:
        session = await record(store, "alpha")
        replace(path, other)
        with pytest.raises(StoreError, match="try again"):
            await store.originals(here(session))
        assert len(await store.originals(here(session))) == 3


async def test_a_store_replaced_by_something_else_is_refused_until_it_is_mended(
    tmp_path: Path,
) -> None:
    path, other = tmp_path / "store.db", tmp_path / "other" / "store.db"
    write_elsewhere(other)
    async with opened(path) as store:
        session = await record(store, "alpha")
        note = tmp_path / "note"
        note.write_text("Dear diary, this is no database.\n" * 200)
        replace(path, note)
        for _ in range(2):
            with pytest.raises(StoreDamaged):
                await store.append(session, batch(said("x")), NOW)
        other.replace(path)
        assert (await refused(store, session)).endswith("try again.")
        await record(store, "beta")
    assert "beta" in texts(path)


@pytest.mark.parametrize("gone", [("-wal", "-shm"), ("-wal",), ("-shm",)])
async def test_a_removed_log_loses_nothing_that_was_acknowledged(
    tmp_path: Path, gone: tuple[str, ...]
) -> None:
    path = tmp_path / "store.db"
    async with opened(path) as store, opened(path) as beside:
        session = await record(store, "alpha")
        remove(path, *gone)
        assert "nothing was kept of this call" in await refused(store, session)
        await refused(beside, session)
        await record(store, "beta")
        await record(beside, "gamma")
    assert all(word in texts(path) for word in ("alpha", "beta", "gamma"))
    assert "lost" not in texts(path)
    assert damage(path) == []


@pytest.mark.thorough
async def test_a_log_that_another_process_made_anew_is_not_spoiled(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    write_elsewhere(path)
    async with opened(path) as store:
        session = await new_session(store)
        await store.append(session, batch(*history(*("word " * 500 for _ in range(9)))), NOW)
        remove(path, "-wal", "-shm")
        with pytest.raises(subprocess.CalledProcessError):  # it misses what was acknowledged
            write_elsewhere(path, 40)
        write_elsewhere(path, 40, after="give up")
        assert "may be missing" in await refused(store, session)
        await record(store, "beta")
    assert texts(path).count("elsewhere") == 40
    assert "beta" in texts(path)
    assert damage(path) == []


@pytest.mark.thorough
async def test_closing_beside_a_log_that_another_process_made_anew_spoils_nothing(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.db"
    write_elsewhere(path)
    async with opened(path) as store:
        session = await new_session(store)
        await store.append(session, batch(*history(*("word " * 500 for _ in range(9)))), NOW)
        remove(path, "-wal", "-shm")
        write_elsewhere(path, 40, after="give up")
    assert texts(path).count("elsewhere") == 40
    assert damage(path) == []

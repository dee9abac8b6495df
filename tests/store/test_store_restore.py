"""A backup is put in a store's place whole, and nothing of what lay there is lost."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from given_store import NOW, batch, damage, new_session, opened, rows, said

from mcp_compaction.errors import InputError, StoreBusy, StoreNewer
from mcp_compaction.store.lockfile import LockFile
from mcp_compaction.store.restore import check_backup, restore_backup

pytestmark = pytest.mark.anyio


async def record(path: Path, text: str) -> None:
    async with opened(path) as store:
        session = await new_session(store)
        await store.append(session, batch(said(text)), NOW)


async def back_up(path: Path, target: Path) -> None:
    async with opened(path) as store:
        await store.backup(target)


def record_and_die(path: Path, text: str) -> None:
    """Leave a log behind, as a process does that is killed."""
    code = (
        "import asyncio, os, sys\n"
        "from pathlib import Path\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from given_store import NOW, batch, new_session, opened, said\n"
        "async def main():\n"
        "    async with opened(Path(sys.argv[2])) as store:\n"
        "        session = await new_session(store)\n"
        "        await store.append(session, batch(said(sys.argv[3])), NOW)\n"
        "        os._exit(0)\n"
        "asyncio.run(main())\n"
    )
    folder = str(Path(__file__).parent)
    subprocess.run([sys.executable, "-c", code, folder, str(path), text], check=True)


def texts(path: Path) -> str:
    return repr(rows(path, "SELECT raw FROM message ORDER BY id"))


def restore(backup: Path, path: Path) -> tuple[Path, ...]:
    return restore_backup(check_backup(backup, path), path, NOW)


@pytest.fixture(scope="module")
async def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a backup and its store, which was killed and damaged later."""
    folder = tmp_path_factory.mktemp("damaged")
    path = folder / "own" / "store.db"
    await record(path, "in the backup")
    await back_up(path, folder / "backup.db")
    record_and_die(path, "after the backup")
    with path.open("r+b") as file:
        file.write(b"garbage garbage!")
    return folder


@pytest.fixture
def path(tmp_path: Path, damaged: Path) -> Path:
    """A store with a message that its backup has and one that it has not, killed and damaged."""
    shutil.copytree(damaged, tmp_path, dirs_exist_ok=True)
    return tmp_path / "own" / "store.db"


async def test_a_backup_replaces_a_damaged_store_beside_its_old_log(
    tmp_path: Path, path: Path
) -> None:
    backup = tmp_path / "backup.db"
    before = backup.read_bytes()
    assert path.with_name("store.db-wal").stat().st_size > 0
    restore(backup, path)
    assert "in the backup" in texts(path)
    assert "after" not in texts(path)
    assert damage(path) == []
    assert backup.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["backup.db", "own"]
    await record(path, "and on it goes")


async def test_the_old_files_are_kept_as_they_were(tmp_path: Path, path: Path) -> None:
    old = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    kept = restore(tmp_path / "backup.db", path)
    stem = "store-replaced-20261115-120000.db"
    assert [file.name for file in kept] == [stem, f"{stem}-shm", f"{stem}-wal"]
    for file in kept:
        assert file.read_bytes() == old[file.name.replace(stem, "store.db")]
    if os.name != "nt":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_store_that_a_program_has_open_is_not_replaced(tmp_path: Path) -> None:
    path, backup = tmp_path / "own" / "store.db", tmp_path / "backup.db"
    await record(path, "alpha")
    await back_up(path, backup)
    # In another process, since POSIX locks do not part connections of one process.
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from mcp_compaction.store.restore import check_backup, restore_backup\n"
        "from mcp_compaction.errors import StoreBusy\n"
        "from datetime import datetime\n"
        "backup, path = map(Path, sys.argv[1:])\n"
        "try:\n"
        "    restore_backup(check_backup(backup, path), path, datetime(2026, 1, 1))\n"
        "except StoreBusy as error:\n"
        "    print(error)\n"
    )
    async with opened(path):
        words = [sys.executable, "-c", code, str(backup), str(path)]
        ran = await asyncio.to_thread(subprocess.run, words, capture_output=True, text=True)
    refusal = ran.stdout
    assert refusal.endswith("then run this again.\n")
    if sys.platform == "linux":
        assert f"(process {os.getpid()})" in refusal
    assert {file.name for file in path.parent.iterdir()} == {"store.db", "store.db.lock"}


async def test_a_store_that_is_being_written_is_not_replaced(tmp_path: Path, path: Path) -> None:
    lock = LockFile(path)
    backup = check_backup(tmp_path / "backup.db", path)
    with lock.hold(1), pytest.raises(StoreBusy):
        restore_backup(backup, path, NOW, deadline=0.01)
    lock.close()


def spoiled(backup: Path) -> None:
    data = bytearray(backup.read_bytes())
    for start in range(4096, len(data), 4096):
        data[start : start + 64] = b"?" * 64
    backup.write_bytes(data)


def emptied(backup: Path) -> None:
    backup.write_bytes(b"")


def removed(backup: Path) -> None:
    backup.unlink()


def foreign(backup: Path) -> None:
    backup.unlink()
    with closing(sqlite3.connect(backup)) as connection:
        connection.execute("CREATE TABLE song (title TEXT)")


def run_in(backup: Path, statement: str) -> None:
    with closing(sqlite3.connect(backup, isolation_level=None)) as connection:
        connection.execute(statement)


def without_a_row(backup: Path) -> None:
    run_in(backup, "DELETE FROM message")


def with_a_trigger(backup: Path) -> None:
    gone = "DELETE FROM message WHERE id < new.id"
    run_in(backup, f"CREATE TRIGGER theirs AFTER INSERT ON message BEGIN {gone}; END")


def with_a_table(backup: Path) -> None:
    run_in(backup, "CREATE TABLE song (message INTEGER REFERENCES message (id))")


UNSOUND = [spoiled, emptied, foreign, removed, without_a_row, with_a_trigger, with_a_table]


@pytest.mark.parametrize("spoil", UNSOUND)
async def test_what_is_no_sound_backup_is_refused(
    tmp_path: Path, path: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(tmp_path / "backup.db")
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    with pytest.raises(InputError):
        restore(tmp_path / "backup.db", path)
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before


async def test_a_backup_of_a_newer_version_is_refused(tmp_path: Path, path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "backup.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreNewer, match="pip install --upgrade"):
        restore(tmp_path / "backup.db", path)

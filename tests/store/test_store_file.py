"""The file: where it lies, who may read it, and how a strange, newer or damaged one is treated."""

from __future__ import annotations

import os
import random
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from given_store import (
    NOW,
    batch,
    history,
    new_session,
    opened,
    rows,
    said,
)

from mcp_compaction.errors import (
    InputError,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreNewer,
)
from mcp_compaction.store.connect import (
    refuse_remote,
)
from mcp_compaction.store.health import sqlite_note
from mcp_compaction.store.lockfile import LockFile
from mcp_compaction.store.schema import MIGRATIONS, open_migrated
from mcp_compaction.store.sqlite import SqliteStore

pytestmark = pytest.mark.anyio


async def fill(store: SqliteStore) -> None:
    session = await new_session(store)
    for number in range(20):
        await store.append(session, batch(*history(f"{number} " + "word " * 300, "yes")), NOW)


async def filled(path: Path) -> bytes:
    """The bytes of a closed store with something in it."""
    async with opened(path) as store:
        await fill(store)
    return path.read_bytes()


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX")
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
async def test_only_the_owner_may_read(tmp_path: Path, umask: int) -> None:
    path = tmp_path / "data" / "mcp-compaction" / "store.db"
    modes: dict[str, int] = {}
    before = os.umask(umask)
    try:
        async with opened(path) as store:
            session = await new_session(store)
            await store.append(session, batch(said("hello")), NOW)
            await store.backup(path.with_name("backup.db"))
            for file in (path.parent, path.parent.parent, *path.parent.iterdir()):
                modes[file.name] = stat.S_IMODE(file.stat().st_mode)
            assert all("can be read" not in problem for problem in (await store.health()).problems)
    finally:
        os.umask(before)
    assert modes.pop("data") == modes.pop("mcp-compaction") == 0o700
    assert modes == dict.fromkeys(
        ["store.db", "store.db-wal", "store.db-shm", "store.db.lock", "backup.db"], 0o600
    )


def test_a_hook_needs_the_standard_library_only(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib, os\n"
        "from mcp_compaction.store.connect import connect, store_path, LockFile\n"
        "from mcp_compaction.home import default_home\n"
        "from mcp_compaction.store.schema import open_migrated\n"
        "path = store_path(default_home(os.environ))\n"
        "lock = LockFile(path)\n"
        "connection = open_migrated(path, deadline=2)\n"
        "lock.acquire(2)\n"
        "connection.execute('BEGIN IMMEDIATE')\n"
        'connection.execute("INSERT INTO tombstone (session, ref, sha256, at)'
        " VALUES (1, 'x', '', '')\")\n"
        "connection.execute('COMMIT')\n"
        "connection.close()\n"
        "lock.close()\n"
        "heavy = {'pydantic', 'aiosqlite', 'asyncio', 'anyio', 'mcp'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)\n"
    )
    environ = {**os.environ, "MCP_COMPACTION_HOME": str(tmp_path / "home")}
    subprocess.run([sys.executable, "-c", code], env=environ, check=True)
    assert rows(tmp_path / "home" / "store.db", "SELECT count(*) FROM tombstone") == [(1,)]


def emptied_file(path: Path) -> None:
    path.write_bytes(b"")


def emptied_beside_its_log(path: Path) -> None:
    path.write_bytes(b"")
    path.with_name("store.db-wal").write_bytes(b"the newest messages")
    path.with_name("store.db.lock").unlink()


def removed_beside_its_log(path: Path) -> None:
    emptied_beside_its_log(path)
    path.unlink()


def without_its_tables(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")


@pytest.mark.parametrize(
    "empty", [emptied_file, emptied_beside_its_log, removed_beside_its_log, without_its_tables]
)
async def test_an_emptied_store_is_not_taken_for_a_new_one(
    tmp_path: Path, empty: Callable[[Path], None]
) -> None:
    path = tmp_path / "own" / "store.db"
    await filled(path)
    empty(path)
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    with pytest.raises(StoreDamaged, match="mcp-compaction store restore FILE"):
        async with opened(path) as store:
            await fill(store)
    assert before.items() <= {f.name: f.read_bytes() for f in path.parent.iterdir()}.items()


async def test_a_first_start_that_was_killed_before_the_tables_can_be_made_again(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.db"
    lock = LockFile(path)
    lock.acquire(1)
    lock.close()
    path.touch(0o600)
    async with opened(path) as store:
        await fill(store)
    assert rows(path, "SELECT count(*) FROM message") == [(40,)]


async def test_a_newer_store_is_left_untouched(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    await filled(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    before = path.read_bytes()
    with pytest.raises(StoreNewer, match="pip install --upgrade"):
        async with opened(path) as store:
            await fill(store)
    assert path.read_bytes() == before


async def test_a_foreign_database_is_left_untouched(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE song (title TEXT)")
    before = path.read_bytes()
    with pytest.raises(StoreDamaged, match="another program"):
        async with opened(path) as store:
            await fill(store)
    assert path.read_bytes() == before


def _header(data: bytes, _: random.Random) -> bytes:
    return b"garbage!" * 2 + data[16:]


def _text(_: bytes, __: random.Random) -> bytes:
    return b"Dear diary, this is no database.\n" * 200


def _truncated(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randint(5, len(data) // 4096 - 1) * 4096 - chance.randint(0, 4000)]


def _pages(data: bytes, chance: random.Random) -> bytes:
    broken = bytearray(data)
    # Every page but the first, so that whatever is read is hit.
    for start in range(4096, len(data), 4096):
        broken[start : start + 64] = chance.randbytes(64)
    return bytes(broken)


async def use(path: Path) -> None:
    async with opened(path) as store:
        session = await new_session(store)
        await store.load(session, NOW)
        await store.health()


@pytest.mark.thorough
@pytest.mark.parametrize("spoil", [_header, _text, _truncated, _pages])
@pytest.mark.parametrize("seed", range(5))
async def test_a_damaged_file_is_reported_and_never_altered(
    tmp_path: Path, spoil: Callable[[bytes, random.Random], bytes], seed: int
) -> None:
    path = tmp_path / "store.db"
    broken = spoil(await filled(path), random.Random(seed))
    path.write_bytes(broken)
    with pytest.raises(StoreDamaged, match="backup"):
        await use(path)
    assert path.read_bytes() == broken


def test_write_ahead_logging_is_refused_on_a_network(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/vda / ext4 rw 0 0\n"
        "server:/x /mnt/with\\040space nfs4 rw 0 0\n"
        "me@there: /mnt/ssh fuse.sshfs rw 0 0\n"
        "share /mnt/share virtiofs rw 0 0\n"
    )
    refuse_remote(Path("/home/ann/store.db"), mounts)
    refuse_remote(Path("/mnt/store.db"), mounts)
    refuse_remote(Path("/x"), tmp_path / "nothing")
    for place in ("/mnt/with space/store.db", "/mnt/ssh/store.db", "/mnt/share/a/store.db"):
        with pytest.raises(StoreError, match="MCP_COMPACTION_HOME"):
            refuse_remote(Path(place), mounts)


async def test_a_foreign_program_that_holds_the_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(path) as store:
        session = await new_session(store)
        with closing(sqlite3.connect(path, isolation_level=None)) as foreign:
            foreign.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreBusy, match="Another program"):
                await store.append(session, batch(said("x")), NOW)
            foreign.execute("ROLLBACK")
        assert (await store.append(session, batch(said("x")), NOW)).new == 1


@pytest.mark.skipif(os.name == "nt", reason="Windows has neither")
async def test_a_link_in_the_place_of_the_lock_file_is_never_written_through(
    tmp_path: Path,
) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_text("A text of somebody else.")
    (tmp_path / "store.db.lock").symlink_to(theirs)
    with pytest.raises(StoreError, match="should be a file"):
        async with opened(tmp_path / "store.db"):
            pass
    assert theirs.read_text() == "A text of somebody else."


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
async def test_a_folder_that_everybody_may_write_is_refused_until_it_is_closed(
    tmp_path: Path,
) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(StoreError, match="chmod go-w"):
        async with opened(tmp_path / "store.db"):
            pass
    tmp_path.chmod(0o755)
    async with opened(tmp_path / "store.db"):
        pass


def test_the_lock_file_shuts_out_and_survives_its_removal(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    one, two = LockFile(path), LockFile(path)
    assert one.try_acquire()
    assert one.held
    assert not two.try_acquire()
    with pytest.raises(StoreBusy):
        two.acquire(0.01)
    one.path.unlink()
    one.release()
    assert not one.try_acquire()
    assert one.try_acquire()
    assert not two.try_acquire()
    one.close()
    two.acquire(1)
    two.close()
    with pytest.raises(StoreError, match="open it again"):
        two.try_acquire()


async def test_a_backup_is_a_sound_copy_in_a_new_file(tmp_path: Path) -> None:
    path, copy = tmp_path / "store.db", tmp_path / "copy.db"
    async with opened(path) as store:
        await fill(store)
        await store.backup(copy)
        with pytest.raises(InputError, match="choose a new file"):
            await store.backup(copy)
        with pytest.raises(StoreError):
            await store.backup(tmp_path / "nowhere" / "copy.db")
    async with opened(copy) as store:
        found = await store.health()
    assert found.schema_version == len(MIGRATIONS)
    assert all("can be read" in problem for problem in found.problems)
    assert found.messages == 40


async def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    await filled(path)

    def broken(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE extra (x)")
        connection.execute("INSERT INTO nowhere VALUES (1)")

    with pytest.raises(StoreError):
        open_migrated(path, deadline=1, migrations=(*MIGRATIONS, broken))
    assert rows(path, "SELECT count(*) FROM sqlite_master WHERE name = 'extra'") == [(0,)]
    assert rows(path, "PRAGMA user_version") == [(len(MIGRATIONS),)]


@pytest.mark.parametrize(
    ("version", "fine"),
    [
        ((3, 40, 1), False),
        ((3, 44, 5), False),
        ((3, 44, 6), True),
        ((3, 49, 9), False),
        ((3, 50, 6), False),
        ((3, 50, 7), True),
        ((3, 51, 2), False),
        ((3, 51, 3), True),
        ((3, 53, 0), True),
    ],
)
def test_a_sqlite_with_the_wal_reset_bug_is_named(version: tuple[int, ...], fine: bool) -> None:
    assert (sqlite_note(version) is None) == fine

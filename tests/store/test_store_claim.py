"""One compaction a session at a time, across processes; the dead hold nothing."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_compaction.errors import StoreError
from mcp_compaction.store.claim import claim_of, hold_claim, is_claimed
from mcp_compaction.store.lockfile import LockFile

pytestmark = pytest.mark.anyio

HOLDER = """
import sys
from pathlib import Path
from mcp_compaction.store.claim import claim_of
claim = claim_of(Path(sys.argv[1]), 1)
assert claim.try_acquire()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


async def test_a_session_is_claimed_by_one_and_free_after_it(database: Path) -> None:
    async with hold_claim(database, 1, 0) as is_first:
        assert is_first
        assert is_claimed(database, 1)
        async with hold_claim(database, 1, 0) as is_second:
            assert not is_second
        assert is_claimed(database, 1)  # who did not get it gives nothing back
        async with hold_claim(database, 2, 0) as is_other:
            assert is_other
    assert not is_claimed(database, 1)
    async with hold_claim(database, 1, 0) as is_next:
        assert is_next


async def test_no_file_of_a_claim_stays_behind(database: Path) -> None:
    async with hold_claim(database, 1, 0):
        assert claim_of(database, 1).path.exists()
    assert not is_claimed(database, 1)
    assert list(database.parent.glob("store.db*")) == []


async def test_who_waits_gets_a_claim_as_soon_as_it_is_given_back(database: Path) -> None:
    order: list[str] = []
    waiting = asyncio.Event()

    async def second() -> None:
        waiting.set()
        async with hold_claim(database, 1, 60) as is_ours:
            assert is_ours
            order.append("second")

    async with hold_claim(database, 1, 0):
        task = asyncio.create_task(second())
        await waiting.wait()
        order.append("first")
    await task
    assert order == ["first", "second"]


async def test_a_cancelled_owner_gives_its_claim_back(database: Path) -> None:
    held = asyncio.Event()

    async def hold() -> None:
        async with hold_claim(database, 1, 0):
            held.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(hold())
    await held.wait()
    task.cancel()
    await asyncio.wait({task})
    assert not is_claimed(database, 1)


def test_a_killed_owner_holds_nothing(database: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(database)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout
        assert owner.stdout.readline() == b"held\n"
        assert is_claimed(database, 1)
        owner.kill()
        owner.wait()
    assert not is_claimed(database, 1)


@pytest.mark.skipif(sys.platform == "win32", reason="there a folder cannot be told from no access")
async def test_a_folder_in_the_place_of_a_claim_or_a_lock_is_named(database: Path) -> None:
    folder = claim_of(database, 1).path
    folder.mkdir()
    with pytest.raises(StoreError, match=rf"{folder.name} should be a file.* Move it away"):
        async with hold_claim(database, 1, 0):
            raise AssertionError("it cannot be held")
    with pytest.raises(StoreError, match="should be a file"):
        is_claimed(database, 1)
    assert folder.is_dir()
    lock = LockFile(database)
    lock.path.mkdir()
    with pytest.raises(StoreError, match="should be a file"):
        lock.try_acquire()

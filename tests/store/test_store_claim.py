"""One compaction a session at a time, across processes; the dead hold nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
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


async def test_no_file_of_a_claim_stays_behind(database: Path) -> None:
    async with hold_claim(database, 1, 0):
        assert claim_of(database, 1).path.exists()
    assert not is_claimed(database, 1)
    assert list(database.parent.glob("store.db*")) == []


def test_a_killed_owner_holds_nothing(database: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(database)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout
        assert owner.stdout.readline() == b"held\n"
        assert is_claimed(database, 1)
        owner.kill()
        owner.wait()
    assert not is_claimed(database, 1)


STOPPED = """
import asyncio, sys
from pathlib import Path
from mcp_compaction.store.claim import hold_claim

async def main():
    async with hold_claim(Path(sys.argv[1]), 1, 0) as is_ours:
        print("held" if is_ours else "not held", flush=True)
        sys.stdin.read()
    print("given back", flush=True)

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
async def test_a_stopped_owner_loses_its_claim_and_takes_nobodys(database: Path) -> None:
    command = [sys.executable, "-c", STOPPED, str(database)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout
        assert owner.stdin
        assert owner.stdout.readline() == b"held\n"
        owner.send_signal(signal.SIGSTOP)
        os.waitpid(owner.pid, os.WUNTRACED)
        assert is_claimed(database, 1)
        _make_old(claim_of(database, 1).path)
        assert not is_claimed(database, 1)
        async with hold_claim(database, 1, 10) as is_ours:
            assert is_ours
            owner.send_signal(signal.SIGCONT)
            owner.stdin.close()
            assert owner.stdout.readline() == b"given back\n"
            assert is_claimed(database, 1)
            async with hold_claim(database, 1, 0) as is_third:
                assert not is_third
    assert list(database.parent.glob("store.db*")) == []


async def test_an_owner_that_works_keeps_its_claim(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_compaction.store.claim.SIGN_EVERY", 0.01)
    async with hold_claim(database, 1, 0):
        _make_old(claim_of(database, 1).path)
        with anyio.fail_after(10):
            while not is_claimed(database, 1):
                await anyio.sleep(0)
        async with hold_claim(database, 1, 0.3) as is_second:
            assert not is_second


def _make_old(path: Path) -> None:
    long_ago = time.time() - 3600
    os.utime(path, (long_ago, long_ago))


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

"""Servers that are killed and a PostgreSQL that crashes lose nothing that was acknowledged."""

from __future__ import annotations

import queue
import subprocess
import sys
from pathlib import Path
from random import Random
from threading import Thread

import pytest

from mcp_compaction.ports import Scope
from mcp_compaction.store.postgres.database import migrate
from mcp_compaction.store.postgres.store import open_store
from tests.store.given_store import NOW
from tests.store.postgres_server import WHY_NOT, find_programs, running_server

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]

WRITERS = 4
PATIENCE = 120  # seconds; only a net against hanging


class Writer:
    """A process that records for one owner, and what was acknowledged to it and those before it."""

    def __init__(self, address: str, owner: str) -> None:
        self.owner = owner
        self.acknowledged = 0
        self._address = address
        self._news = queue.Queue[int]()
        self.start()

    def start(self) -> None:
        """Start the process; it goes on after what was acknowledged."""
        script = Path(__file__).with_name("storm_writer.py")
        first = str(self.acknowledged + 1)
        self._process = subprocess.Popen(
            [sys.executable, str(script), self._address, self.owner, first],
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = Thread(target=self._read, args=(self._process,))
        self._reader.start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.endswith("\n"):  # half a line is none
                self._news.put(int(line))

    def wait_for(self, more: int) -> None:
        """Wait until so many more messages were acknowledged."""
        for _ in range(more):
            self.acknowledged = self._news.get(timeout=PATIENCE)

    def kill(self) -> None:
        """Kill the process, and take note of all that it had told."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        while not self._news.empty():
            self.acknowledged = self._news.get()


@pytest.mark.parametrize(
    ("kills", "restarts"), [(10, 2), pytest.param(200, 20, marks=pytest.mark.slow)]
)
async def test_what_was_acknowledged_outlives_kills_and_crashes(kills: int, restarts: int) -> None:
    if find_programs() is None:
        pytest.skip(WHY_NOT)
    chance = Random(39)
    with running_server() as server:
        await migrate(server.address)
        writers = [Writer(server.address, f"owner{number}") for number in range(WRITERS)]
        crashes = set(chance.sample(range(kills), restarts))
        try:
            for number in range(kills):
                writer = chance.choice(writers)
                writer.wait_for(chance.randint(3, 25))
                if number in crashes:
                    server.stop("immediate")
                    server.start()
                    writer.wait_for(5)
                writer.kill()
                writer.start()
            for writer in writers:
                writer.wait_for(5)
        finally:
            for writer in writers:
                writer.kill()
        for writer in writers:
            await check(server.address, writer)


async def check(address: str, writer: Writer) -> None:
    """What an owner has is whole: in order, each once, and each compaction all or nothing."""
    store = await open_store(address, writer.owner)
    try:
        (info,) = await store.sessions(Scope(project=None), 10)
        scope = Scope(project=None, session=info.id)
        found = await store.originals(scope, limit=100_000)
        texts = [one.message.text for one in found]
        assert [one.message.seq for one in found] == list(range(1, len(found) + 1))
        assert texts == [f"message {number}" for number in range(1, len(found) + 1)]
        assert len(found) >= writer.acknowledged > 0
        loaded = await store.load(info.id, NOW)
        receipts = await store.receipts(info.id)
        assert [receipt.compaction for receipt, _ in receipts] == list(
            range(1, loaded.view.version + 1)
        )
        assert len(await store.digests(info.id)) == len(receipts)
        assert (await store.health()).problems == ()
    finally:
        await store.close()

"""A large window is compacted in any case: apart where a process can be had, else in the server."""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mcp_compaction import compactor, worker
from mcp_compaction.compactor.workspace import Workspace, ignore_progress
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import Ask, Compaction, Failed, SessionInfo
from mcp_compaction.ports import SessionKey
from mcp_compaction.settings import Settings, load_settings
from mcp_compaction.store.connect import SCHEMA_VERSION
from mcp_compaction.wiring import open_workspace
from tests.strategies import coding_session

pytestmark = pytest.mark.anyio

ASK = Ask(reason="full", force=True, target_percent=2)
RUN = "from mcp_compaction import worker; "


@asynccontextmanager
async def large_session(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[tuple[Settings, Workspace, SessionInfo]]:
    monkeypatch.setattr(worker, "LARGE", 1)
    environ = {"MCP_COMPACTION_HOME": str(home), "MCP_COMPACTION_COUNTER": "estimate"}
    settings = load_settings(environ)
    work = await open_workspace(settings)
    try:
        info, _ = await compactor.open_session(work, SessionKey(project="/p", name="work"))
        await compactor.record(work, info, read_incoming(coding_session(40, 300)))
        yield settings, work, info
    finally:
        await work.store.close()


def run_instead(monkeypatch: pytest.MonkeyPatch, *command: str) -> None:
    monkeypatch.setattr(worker, "_COMMAND", command)


UPGRADED = f"{RUN}worker.SCHEMA_VERSION = {SCHEMA_VERSION + 1}; worker.main()"
COMMANDS = {
    "the interpreter is gone": ("/gone/python", "-c", ""),
    "the package is gone": (sys.executable, "-P", "-c", "import no_such_package"),
    "the package is another one": (sys.executable, "-P", "-c", UPGRADED),
}


@pytest.mark.thorough
@pytest.mark.parametrize("command", COMMANDS.values(), ids=list(COMMANDS))
async def test_a_window_is_compacted_in_the_server_where_no_process_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    run_instead(monkeypatch, *command)
    async with large_session(tmp_path, monkeypatch) as (settings, work, info):
        outcome = await worker.compress(settings, work, info, ASK, ignore_progress)
        assert isinstance(outcome, Compaction)
        assert [receipt.ref for receipt in await compactor.receipts(work, info)] == ["c1"]
        assert await worker.relieve(settings, work, info) is None


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
async def test_a_process_that_is_stopped_is_ended_and_its_session_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = f"lambda *_: worker.os.kill(worker.os.getpid(), {int(signal.SIGSTOP)})"
    run_instead(
        monkeypatch,
        sys.executable,
        "-P",
        "-c",
        f"{RUN}worker.Worker._report = {stop}; worker.main()",
    )
    monkeypatch.setattr(worker, "SILENCE", 5.0)
    async with large_session(tmp_path, monkeypatch) as (settings, work, info):
        outcome = await worker.compress(settings, work, info, ASK, ignore_progress)
        assert isinstance(outcome, Failed)
        assert outcome.reason == "process_ended"
        assert isinstance(await compactor.compress(work, info, ASK), Compaction)


@pytest.mark.thorough
async def test_what_a_process_of_its_own_saved_is_counted_and_a_dry_run_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = worker.counts["compactions"]
    async with large_session(tmp_path, monkeypatch) as (settings, work, info):
        shown = ASK.model_copy(update={"dry_run": True})
        await worker.compress(settings, work, info, shown, ignore_progress)
        assert worker.counts["compactions"] == before
        outcome = await worker.compress(settings, work, info, ASK, ignore_progress)
        assert isinstance(outcome, Compaction)
    assert worker.counts["compactions"] == before + 1

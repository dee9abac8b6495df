"""Thousands of requests one after another: none hangs, none is empty, and memory stays."""

from __future__ import annotations

import gc
import resource
import sys
from pathlib import Path

import pytest

from tests.gateway.talking import Host, open_talk

pytestmark = pytest.mark.anyio

CHAT = 12  # requests of one chat, which ends with a window that is too full
SPARE = 1.1  # times what was taken before, that may be taken at the end


def _memory_taken() -> tuple[int, int]:
    """The pieces of memory that objects take now, and the most that the process ever took."""
    gc.collect()
    return sys.getallocatedblocks(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


async def _talk(host: Host, session: str) -> None:
    """One chat: it is refused, cleared and compacted."""
    host.session, host.history = session, []
    for number in range(CHAT // 2):
        await host.work(number, size=1_800)
        assert host.history[-1]["content"]
    host.provider.status = 529
    assert (await host.post(host.body())).status_code == 529
    host.provider.status = None
    host.provider.requests.clear()


async def _run(home: Path, chats: int, warm: int) -> None:
    """Have chats one after another, the first of them to fill what is kept of any."""
    async with open_talk(home, agent_controlled=False) as (host, _):
        for number in range(warm):
            await _talk(host, f"chat-{number}")
        pieces, most = _memory_taken()
        for number in range(warm, chats):
            await _talk(host, f"chat-{number % (2 * warm)}")
        pieces_now, most_now = _memory_taken()
        assert pieces_now < SPARE * pieces
        assert most_now < SPARE * most
        assert host.turns.tally["compactions"] >= chats - warm
        assert len(host.turns.ledger.accounts) <= warm
        assert host.provider.faults == []
        assert not [kind for kind in host.turns.tally if "fail" in kind or "could not" in kind]


@pytest.mark.thorough
async def test_memory_stays_in_many_chats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_compaction.compactor.workspace._MOST_KNOWN", 2)
    await _run(tmp_path, 9, 4)


@pytest.mark.slow
async def test_memory_stays_in_ten_thousand_requests(tmp_path: Path) -> None:
    await _run(tmp_path, 10_000 // CHAT + 1, 80)

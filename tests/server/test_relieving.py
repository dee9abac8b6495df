"""What one process begins beside its calls is told once, fails loudly and ends with the server."""

from __future__ import annotations

import asyncio
import logging

import pytest

from mcp_compaction.core.window.fill import Fill
from mcp_compaction.errors import StoreFull
from mcp_compaction.model import Outcome
from mcp_compaction.server.state import Relieving
from tests.sessions import session_of

pytestmark = pytest.mark.anyio

INFO = session_of([]).info


def full(tokens: int) -> Fill:
    return Fill(window=1_000, parts=(("messages", tokens),), precision="exact", ratio=1.0)


async def fail(error: Exception) -> Outcome | None:
    raise error


async def ended(relieving: Relieving) -> Outcome | None:
    await relieving.wait(INFO)
    return relieving.take(INFO)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (StoreFull("no room on the disk; free some."), "no room on the disk; free some."),
        (OSError(11, "no process can be started"), "BlockingIOError."),
    ],
)
async def test_a_failure_is_logged_and_told(
    error: Exception, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        relieving = Relieving()
        relieving.begin(INFO, full(960), fail(error))
        outcome = await ended(relieving)
        assert outcome is not None
        assert outcome.kind == "failed"
        assert outcome.text == f"not compressed: {reason} The session is as it was; go on."
    assert "relieving test failed" in caplog.text


async def test_closing_ends_what_runs() -> None:
    relieving = Relieving()
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def hang() -> Outcome | None:
        begun.set()
        try:
            return await asyncio.Future[None]()
        finally:
            cancelled.set()

    relieving.begin(INFO, full(960), hang())
    await begun.wait()
    await relieving.close()
    assert cancelled.is_set()
    assert relieving.take(INFO) is None

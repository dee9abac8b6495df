"""The example of a team runs: one command, and any of its servers answers."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.server.talking import ERAS, Era
from tests.server.team_server import talking
from tests.store.postgres_server import WHY_NOT, find_programs

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]

SCRIPT = Path(__file__).parents[1] / "examples/team/team.py"


@contextmanager
def team() -> Generator[tuple[int, str]]:
    """The port of a team that was started by the one command, and a token."""
    words = [sys.executable, str(SCRIPT), "--port", "0"]
    running = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    try:
        url, token = running.stdout.readline(), running.stdout.readline()
        yield int(url.rpartition(":")[2].partition("/")[0]), token.strip()
    finally:
        running.terminate()
        assert running.wait() == 0
        running.stdout.close()


async def test_one_command_starts_a_team_whose_servers_share_what_they_know() -> None:
    if find_programs() is None:
        pytest.skip(WHY_NOT)
    if shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin") is None:
        pytest.skip("no PgBouncer here: apt-get install pgbouncer")
    with team() as (port, token):
        said = [{"role": "user", "content": "The refund goes to account 4711."}]
        async with talking(port, token, "auto") as talk:
            await talk.say("record_messages", session="tax", messages=said)
        eras: tuple[Era, ...] = ERAS
        for era in eras * 2:  # connections take turns, so that both answer
            async with talking(port, token, era) as talk:
                found = await talk.say("recall_archived", session="tax", query="refund account")
                assert "4711" in found
        asked: list[str] = []
        for _ in range(2):
            with httpx2.Client(headers={"Authorization": f"Bearer {token}"}) as client:
                asked.append(client.get(f"http://127.0.0.1:{port}/metrics").text)
        assert all('requests_total{status="200"}' in metrics for metrics in asked)

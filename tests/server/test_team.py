"""A team's store over HTTP: each token opens its owner's rows, at whichever process."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from pathlib import Path
from uuid import uuid4

import httpx2
import pytest

from mcp_compaction.errors import InputError, SettingsError
from mcp_compaction.server.http import ServerAddress
from mcp_compaction.server.team import check_front, check_tokens
from mcp_compaction.store.postgres import database
from tests.server.talking import ERAS, Era
from tests.server.team_server import (
    PROGRAM,
    environ_for,
    migrated_server,
    new_token,
    process,
    talking,
    wait_until_ready,
)
from tests.store.postgres_server import WHY_NOT, Server, find_programs, running_server

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]

ROLE = "served_team"


@pytest.fixture(scope="module")
def postgres() -> Generator[Server]:
    """A database of this module's own."""
    with migrated_server(ROLE) as server:
        yield server


@pytest.fixture(scope="module")
def two(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[int, int]]:
    """Two processes on one store; their ports."""
    address, home = postgres.address_of(ROLE), tmp_path_factory.mktemp("team")
    with process(address, home / "a") as one, process(address, home / "b") as other:
        yield one, other


@pytest.mark.parametrize("era", ERAS)
async def test_what_one_process_recorded_is_continued_at_once_at_another(
    postgres: Server, two: tuple[int, int], era: Era
) -> None:
    one, other = two
    ann, bob = (f"{name}-{uuid4().hex}" for name in ("ann", "bob"))
    tokens = [await new_token(postgres, owner) for owner in (ann, ann, bob)]
    refund = [{"role": "user", "content": "The refund goes to account 4711."}]
    async with talking(one, tokens[0], era) as talk:
        await talk.say("record_messages", session="tax-2026", messages=refund)
        await talk.say("pin_constraint", text="only the staging key", session="tax-2026")
    async with talking(other, tokens[1], era) as talk:  # another machine of hers
        assert "only the staging key" in await talk.say("recall_archived", session="tax-2026")
        found = await talk.say("recall_archived", session="tax-2026", query="refund account")
        assert "4711" in found
    hello = [{"role": "user", "content": "Hello."}]
    async with talking(other, tokens[2], era) as talk:  # somebody else
        assert "4711" not in await talk.fail("recall_archived", session="tax-2026")
        await talk.say("record_messages", session="his", messages=hello)
        said = await talk.say("recall_archived", session="his", query="refund", scope="project")
        assert "4711" not in said
    url, good = f"http://127.0.0.1:{other}/metrics", {"Authorization": f"Bearer {tokens[2]}"}
    metrics = httpx2.get(url, headers=good).text
    assert 'mcp_compaction_requests_total{status="200"}' in metrics
    assert "mcp_compaction_pool_connections " in metrics


def test_who_has_no_token_or_a_revoked_one_gets_nothing(
    postgres: Server, two: tuple[int, int], tmp_path: Path
) -> None:
    def command(*arguments: str) -> str:
        environ = environ_for(postgres.address, tmp_path)
        return subprocess.run(
            [*PROGRAM, *arguments], env=environ, check=True, capture_output=True, text=True
        ).stdout

    token = command("token", "add", "carls", "--owner", "carl").splitlines()[0]
    url, good = f"http://127.0.0.1:{two[1]}", {"Authorization": f"Bearer {token}"}
    assert httpx2.get(f"{url}/healthz").text == "ok\n"
    for headers in ({}, {"Authorization": "Bearer"}, {"Authorization": "Bearer mct_wrong"}):
        assert httpx2.post(f"{url}/mcp", headers=headers).status_code == 401
        assert httpx2.get(f"{url}/metrics", headers=headers).status_code == 401
    assert httpx2.get(f"{url}/metrics", headers=good).status_code == 200
    listed = command("token", "list", "--json")
    assert '"carls"' in listed
    assert token not in listed
    command("token", "revoke", "carls")
    assert httpx2.get(f"{url}/metrics", headers=good).status_code == 401


async def test_without_its_database_a_process_says_when_to_try_again(tmp_path: Path) -> None:
    if find_programs() is None:
        pytest.skip(WHY_NOT)
    with running_server() as server:
        await database.migrate(server.address)
        headers = {"Authorization": f"Bearer {await new_token(server, 'dora')}"}
        with process(server.address, tmp_path / "a") as port:
            server.stop("immediate")
            for method, path in (("GET", "/readyz"), ("POST", "/mcp")):
                url = f"http://127.0.0.1:{port}{path}"
                answer = httpx2.request(method, url, headers=headers, timeout=120)
                assert answer.status_code == 503
                assert int(answer.headers["Retry-After"]) > 0
                assert "try again" in answer.text
            server.start()
            wait_until_ready(port)


async def test_other_machines_need_tokens_and_tls_in_front(postgres: Server) -> None:
    door = ServerAddress("0.0.0.0", 1, ("box.lan",), allow_remote=True)
    with pytest.raises(SettingsError, match="--tls-front https://NAME"):
        check_front(door, "")
    with pytest.raises(InputError, match="no address of TLS"):
        check_front(door, "http://box.lan")
    check_front(door, "https://box.lan")
    async with database.opened(postgres.address) as team:
        async with team.pool.connection() as connection:
            await connection.execute(b"DELETE FROM token")
        with pytest.raises(SettingsError, match="mcp-compaction token add NAME"):
            await check_tokens(team, door)
        await check_tokens(team, ServerAddress())

"""A team's store over HTTP: each token opens its owner's rows, at whichever process."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from mcp_compaction.errors import InputError, SettingsError
from mcp_compaction.server import receiving
from mcp_compaction.server.http import ServerAddress
from mcp_compaction.server.team import check_front, check_tokens
from mcp_compaction.settings import load_settings
from mcp_compaction.store import log
from mcp_compaction.store.postgres import database
from mcp_compaction.store.postgres.database import PgTx
from mcp_compaction.store.postgres.store import PostgresStore
from mcp_compaction.wiring import open_workspace
from tests.doors import Opened
from tests.fuzzed_requests import broken_requests, hostile_bodies
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
FIRST, LAST = "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"


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


def parcel(project: str, **more: Any) -> dict[str, Any]:
    """What a machine sends of a session of that project."""
    said = {"seq": 1, "shape": "anthropic", "raw": '{"role": "user", "content": "Hello."}'}
    return {"source": uuid4().hex, "project": project, "name": "s", "messages": [said], **more}


def pin(number: int, scope: str) -> dict[str, Any]:
    """A pin as a machine sends it."""
    rule = {"text": f"Rule {number}.", "kind": "constraint", "author": "user"}
    return {"number": number, "scope": scope, **rule}


async def test_a_token_of_a_project_reaches_nothing_else_by_what_is_sent(
    postgres: Server, two: tuple[int, int]
) -> None:
    owner, url = f"eve-{uuid4().hex}", f"http://127.0.0.1:{two[0]}/sent"
    of_shop, of_all = await new_token(postgres, owner, "shop"), await new_token(postgres, owner, "")
    shop, every = ({"Authorization": f"Bearer {token}"} for token in (of_shop, of_all))
    everywhere = parcel("bank", pins=[pin(1, "global"), pin(2, "project")])
    taken = httpx2.post(url, json=everywhere, headers=every).json()
    assert taken["new"] == 1
    for refused in (
        httpx2.post(url, json=parcel("bank"), headers=shop),
        httpx2.post(url, json=parcel("bank", messages=[], released=[1, 2]), headers=shop),
        httpx2.get(url, params={"project": "bank"}, headers=shop),
    ):
        assert refused.status_code == 422
        assert "reaches only the project shop" in refused.text
    own = httpx2.post(url, json=parcel("shop", pins=[pin(3, "global")]), headers=shop).json()
    assert own["new"] == 1
    assert "reaches only the project shop" in own["refused"]["3"]
    gone = parcel("shop", messages=[], released=list(taken["pins"].values()))
    assert httpx2.post(url, json=gone, headers=shop).status_code == 200
    left = httpx2.get(url, params={"project": "bank"}, headers=every).json()["pins"]
    assert "Rule 2." in [one["text"] for one in left]
    async with talking(two[0], of_shop, "auto") as talk:
        assert "Rule 1." in await talk.say("recall_archived", session="s")  # holds in shop, too
        assert "Hello." not in await talk.fail("recall_archived", session="s", scope="all")


@pytest.mark.parametrize("path", ["/mcp", "/sent", "/metrics"])
async def test_every_path_of_a_team_looks_at_host_origin_and_token(
    postgres: Server, two: tuple[int, int], path: str
) -> None:
    good = {"Authorization": f"Bearer {await new_token(postgres, 'finn')}"}
    url = f"http://127.0.0.1:{two[0]}{path}"
    for status, change in (
        (421, {"Host": "evil.example"}),
        (403, {"Origin": "http://evil.example"}),
        (401, {"Authorization": "Bearer mct_wrong"}),
    ):
        assert httpx2.get(url, headers={**good, **change}).status_code == status


async def test_hostile_requests_meet_no_error_that_nobody_caught(
    postgres: Server, tmp_path: Path
) -> None:
    token = await new_token(postgres, "gus", "shop")
    with process(postgres.address_of(ROLE), tmp_path / "a") as port:
        door = Opened(port, token, "/sent?project=shop", method="GET")
        fields = ("source", "name", "project", "host", "agent", "parent", "released", "pins")
        whole = json.dumps(parcel("shop"))[1:-1].encode() + b", "
        said, times = parcel("shop")["messages"][0], ("2026-01-01T00:00:00", FIRST, LAST, "1e30")
        odd = [
            *(parcel("shop", messages=[{**said, "at": at}]) for at in times),
            *(parcel("shop", pins=[{**pin(4, "session"), "expires": at}]) for at in times),
            *(parcel("shop", messages=[{**said, "seq": seq}]) for seq in (-1, 2**63, 2**70)),
            *(
                parcel("shop", messages=[{**said, "raw": raw}])
                for raw in ("", "{", "null", "[" * 9999)
            ),
            *(parcel("shop", messages=[], released=[number]) for number in (-1, 2**63, 2**70)),
        ]
        sending = replace(door, path="/sent", method="POST")
        for path in ("/sent", "/mcp"):  # somebody leaves in the middle of a body
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(replace(sending, path=path).bytes_of(b"{}", **{"Content-Length": "99"}))
            await writer.drain()
            writer.close()
        for sent in (
            *(sending.bytes_of(json.dumps(one).encode()) for one in odd),
            *broken_requests(door),
            *hostile_bodies(door, ["/sent"], fields, whole),
            *hostile_bodies(door, ["/mcp"], ["jsonrpc", "id", "method", "params"]),
            *(replace(door, path=f"/sent?project={p}").bytes_of() for p in ("%00", "%ff", "")),
        ):
            assert (await door.say(sent))[0] != 500, sent[:400] + sent[-100:]
        assert (await door.ask())[0] == 200
        assert "Traceback" not in (tmp_path / "a" / "stderr").read_text(encoding="utf-8")


async def test_a_large_message_is_read_beside_the_loop_and_written_in_small_statements(
    postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: dict[str, set[int]] = {}
    sizes: list[int] = []
    for module, name in ((receiving, "incoming_of"), (log, "content_hash"), (log, "chain_hash")):
        monkeypatch.setattr(
            module, name, partial(note_thread, threads, name, getattr(module, name))
        )

    def run(tx: PgTx, statement: str, **values: Any) -> int:
        sizes.append(len(values.get("terms", ())))
        return run_really(tx, statement, **values)

    run_really = PgTx.run
    monkeypatch.setattr(PgTx, "run", run)
    words = " ".join(f"word{number}" for number in range(60_000))
    said = {"seq": 1, "shape": "anthropic", "raw": json.dumps({"role": "user", "content": words})}
    async with database.opened(postgres.address_of(ROLE)) as team:
        settings = load_settings({"MCP_COMPACTION_HOME": str(tmp_path)})
        work = await open_workspace(settings, store=PostgresStore(team, "hal"))
        body = json.dumps(parcel("shop", messages=[said])).encode()
        assert (await receiving.take_parcel(work, body)).new == 1
    assert set(threads) == {"incoming_of", "content_hash", "chain_hash"}
    assert all(threading.get_ident() not in found for found in threads.values())
    assert sum(sizes) >= 60_000
    assert max(sizes) < 60_000 / 3


def note_thread(
    threads: dict[str, set[int]], name: str, function: Callable[..., Any], *arguments: Any
) -> Any:
    """What a function gives; the thread that it ran in is noted."""
    threads.setdefault(name, set()).add(threading.get_ident())
    return function(*arguments)


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
                for secret in (str(server.folder), "postgresql", "127.0.0.1", "dora"):
                    assert secret not in answer.text
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
        with team.pool.connection() as connection:
            connection.execute(b"DELETE FROM token")
        with pytest.raises(SettingsError, match="mcp-compaction team token add NAME"):
            await check_tokens(team, door)
        await check_tokens(team, ServerAddress())

"""One rule for the name of a session, at whichever door it is given."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from mcp_compaction import compactor, open_store
from mcp_compaction.errors import InputError
from mcp_compaction.hosts.finding import transcripts_at
from mcp_compaction.hosts.recording import record_new
from mcp_compaction.model import Traits
from mcp_compaction.ports import SessionKey
from mcp_compaction.store import sqlite
from tests.cli.conftest import Shell
from tests.server.talking import talk
from tests.sessions import NOW

SAID = [{"role": "user", "content": "hello there"}]
NO_NAMES = (
    "",
    "  ",
    "two\nlines",
    "-f",
    "x" * 81,
    "[digest d1 of m1..m9]",
    "p1 constraint, by user: push",
    "ghp_" + "a1B" * 12,
)


async def refusal_of_api(folder: Path, name: str) -> str:
    async with open_store(home=folder, project="/p") as store:
        with pytest.raises(InputError) as refused:
            await store.session(name)
        assert await compactor.list_sessions(store.workspace, None) == ()
        return str(refused.value)


async def refusal_of_server(folder: Path, name: str) -> str:
    async with talk(folder, "auto") as chat:
        return await chat.fail("pin_constraint", text="Be nice.", session=name)


@pytest.mark.parametrize("name", NO_NAMES)
def test_every_door_refuses_what_is_no_name_in_the_same_words(tmp_path: Path, name: str) -> None:
    said = f"{name!r} is no name for a session; write one such as tax-2026."
    assert asyncio.run(refusal_of_api(tmp_path / "api", name)) == said
    assert asyncio.run(refusal_of_server(tmp_path / "server", name)) == said
    ran = Shell(tmp_path)("record", f"--session={name}", stdin=json.dumps(SAID).encode())
    assert ran.code == 2
    assert said in ran.err


def test_every_door_strips_a_name(tmp_path: Path) -> None:
    async def by_api() -> str:
        async with open_store(home=tmp_path / "api", project="/p") as store:
            made = await store.session(" tax ")
            return (await store.session("tax")).name if made.info.id == 1 else ""

    async def by_server() -> str:
        async with talk(tmp_path / "server", "auto") as chat:
            await chat.say("record_messages", messages=SAID, session=" tax ")
            return await chat.say("context_stats", session="tax  ")

    assert asyncio.run(by_api()) == "tax"
    assert asyncio.run(by_server()).startswith("session tax of")
    shell = Shell(tmp_path)
    shell("record", "--session= tax ", stdin=json.dumps(SAID).encode())
    assert shell("stats", "--session= tax").out.startswith("tax: 1 message")


async def _make_old(path: Path, name: str) -> None:
    """A session as it was kept before there was a rule for its name."""
    store = await sqlite.open_store(path)
    await store.open_session(SessionKey(project="/p", name=name), Traits(), NOW)
    await store.close()


@pytest.mark.anyio
@pytest.mark.parametrize("name", [" tax ", "x" * 300])
async def test_a_session_from_before_the_rule_is_still_found(tmp_path: Path, name: str) -> None:
    await _make_old(tmp_path / "store.db", name)
    async with open_store(home=tmp_path, project="/p") as store:
        assert (await store.session(name)).info.id == 1
        assert (await compactor.find_session(store.workspace, "/p", name)).id == 1
        assert len(await compactor.list_sessions(store.workspace, None)) == 1


@pytest.mark.anyio
async def test_an_export_whose_name_is_none_gets_another(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    await _make_old(tmp_path / "a" / "store.db", NO_NAMES[-1])
    async with open_store(home=tmp_path / "a", project="/p") as store:
        session = await store.session(NO_NAMES[-1])
        await session.record(SAID)
        written = "\n".join(
            [line async for line in compactor.export(store.workspace, session.info)]
        )
    (tmp_path / "out.jsonl").write_text(written)
    async with open_store(home=tmp_path / "b", project="/p") as store:
        (transcript,) = transcripts_at(tmp_path / "out.jsonl", {})
        taken = await record_new(store.workspace, transcript, lambda _: "/p")
        assert taken.session is not None
        assert taken.session.name != NO_NAMES[-1]
        assert taken.new == 1

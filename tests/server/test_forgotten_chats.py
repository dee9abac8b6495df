"""What was said in a chat that its user has had forgotten comes back by no way in."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from mcp_compaction.home import default_home
from mcp_compaction.hosts.events import TOOL
from tests.cli.conftest import Shell
from tests.gateway.talking import open_talk
from tests.server.claude_host import CLAUDE_CODE, PROJECT, SESSION, ClaudeHost, claude_talk
from tests.server.talking import talk
from tests.server.test_plugin import OPENCODE
from tests.view_service.test_listening import ask
from tests.view_service.test_views import history, typed

pytestmark = pytest.mark.anyio

BEFORE = "0d9f1c5e-5d0a-4c3c-9a39-7f3c1a5be000"
OTHER = "0d9f1c5e-5d0a-4c3c-9a39-7f3c1a5be002"
SAID, LATE = "The word is plumtree.", "And the second word is quincejam."
KEPT = "These late words, of ladybirds, are nobody's secret."
NEXT = "We go on with figs."

Bring = Callable[[Path, ClaudeHost], Awaitable[None]]


def store_in(folder: Path) -> Path:
    """The folder of the store."""
    return default_home({"HOME": str(folder / "home")})


def recorded_in(folder: Path) -> str:
    """All that the store holds of what was said."""
    with closing(sqlite3.connect(store_in(folder) / "store.db")) as store:
        return "\n".join(raw for (raw,) in store.execute("SELECT raw FROM message"))


async def run(folder: Path, command: str, *words: str) -> None:
    """Run a command as the user does."""
    shell = Shell(folder).as_user().with_environ({"HOME": str(folder / "home")})
    place = (command, "--home", str(store_in(folder)), *words)
    ran = await asyncio.to_thread(shell.bare, *place)
    assert ran.code == 0, ran.err


async def forget(folder: Path, chat: str) -> None:
    """Have the session of a host's chat forgotten."""
    with closing(sqlite3.connect(store_in(folder) / "store.db")) as store:
        found = "SELECT name, project FROM session WHERE host_session = ?"
        ((name, project),) = store.execute(found, (chat,)).fetchall()
    await run(folder, "forget", name, "--project", project, "--yes")
    assert SAID not in recorded_in(folder)


async def forgotten_chat(folder: Path) -> ClaudeHost:
    """A chat of Claude Code that is forgotten, with a row that came after it was last recorded; and
    one before it of which the same is true, but that is not forgotten."""
    earlier, host = ClaudeHost(folder / "home", BEFORE), ClaudeHost(folder / "home")
    earlier.type("Hello.")
    host.type(SAID)
    for number in range(6):
        host.run(f"t{number}", f"cat {number}.txt", "a line of a long file\n" * 200)
    host.answer("Understood.")
    await run(folder, "import", "claude-code", "--project", PROJECT)
    assert SAID in recorded_in(folder)
    earlier.type(KEPT)
    os.utime(earlier.transcript, (1, 1))  # so that it is looked at after the other
    host.type(LATE)
    await forget(folder, SESSION)
    return host


async def kept_words(folder: Path) -> None:
    """Wait until earlier chats were looked back at."""
    async with asyncio.timeout(60):
        while KEPT not in recorded_in(folder):
            await asyncio.sleep(0.01)


async def look_back_by_module(folder: Path, host: ClaudeHost) -> None:
    host.type(LATE)  # which the host has written down even later
    async with claude_talk(folder) as (_, _, place):
        second = ClaudeHost(folder / "home", OTHER)
        second.type("Hello.")
        await ask(place, "/claude/append", session=OTHER)
        await kept_words(folder)


async def look_back_by_hook(folder: Path, host: ClaudeHost) -> None:
    host.type(LATE)
    second = ClaudeHost(folder / "home", OTHER)
    second.type("Hello.")
    await tell_hook(folder, second, kept_words)


async def tell_hook(
    folder: Path, host: ClaudeHost, then: Callable[[Path], Awaitable[None]] | None = None
) -> None:
    environ = {"HOME": str(folder / "home"), "CLAUDE_CODE_SESSION_ID": host.session}
    place = {"environ": environ, "home": store_in(folder), "project": PROJECT}
    async with talk(folder, **place, client_info=CLAUDE_CODE) as client:  # pyright: ignore[reportArgumentType]
        told = {"session_id": host.session, "transcript_path": str(host.transcript)}
        await client.say(TOOL, event="UserPromptSubmit", **told)
        if then is not None:
            await then(folder)


async def go_on_by_hook(folder: Path, host: ClaudeHost) -> None:
    host.type(NEXT)
    await tell_hook(folder, host)
    assert NEXT in recorded_in(folder)


async def go_on_by_module(folder: Path, host: ClaudeHost) -> None:
    async with claude_talk(folder) as (client, _, place):
        host.type(NEXT)
        await client.say("pin_constraint", text="Only figs.")
        assert NEXT in recorded_in(folder)
        assert (await host.compact(place))["why"].startswith(
            "what was said in this chat was forgotten"
        )


async def fit_by_module(folder: Path, host: ClaudeHost) -> None:
    async with claude_talk(folder, {"shrink_in_turn": "true"}) as (_, _, place):
        body = {"messages": host.request(), "tools": [{"name": "Bash"}], "model": "m"}
        _, told = await ask(place, "/claude/request", session=SESSION, request=json.dumps(body))
        assert told is None
        assert (await host.compact(place))["why"].startswith(
            "what was said in this chat was forgotten"
        )


async def import_again(folder: Path, _: ClaudeHost) -> None:
    await run(folder, "import", "claude-code", "--project", PROJECT)
    assert KEPT in recorded_in(folder)


async def import_moved(folder: Path, host: ClaudeHost) -> None:
    elsewhere = host.folder.with_name("-home-ann-other")
    elsewhere.mkdir()
    host.transcript.rename(elsewhere / host.transcript.name)
    await import_again(folder, host)


WAYS: dict[str, Bring] = {
    "module, from the next chat": look_back_by_module,
    "module, in the same chat": go_on_by_module,
    "module, before anything is said": fit_by_module,
    "hook, from the next chat": look_back_by_hook,
    "hook, in the same chat": go_on_by_hook,
    "import": import_again,
    "import of the file moved": import_moved,
}


@pytest.mark.parametrize("way", WAYS)
async def test_no_word_of_a_forgotten_chat_comes_back_from_its_transcript(
    tmp_path: Path, way: str
) -> None:
    host = await forgotten_chat(tmp_path)
    await WAYS[way](tmp_path, host)
    assert [word in recorded_in(tmp_path) for word in (SAID, LATE)] == [False, False]


async def test_no_word_of_a_forgotten_chat_comes_back_by_the_history_of_a_plugin(
    tmp_path: Path,
) -> None:
    place = tmp_path / "private/views.json"
    place.parent.mkdir(mode=0o700)
    environ = {"HOME": str(tmp_path / "home"), "MCP_COMPACTION_VIEWS": str(place)}
    said = [typed(0, SAID), *history(1)]
    environ["MCP_COMPACTION_VIEW_TIMEOUT_SECONDS"] = "60"

    async def view() -> object:
        home = store_in(tmp_path)
        async with talk(tmp_path, environ=environ, home=home, client_info=OPENCODE):
            _, told = await ask(place, "/opencode/view", session="ses_1", messages=said)
            return told

    assert await view() is not None
    await forget(tmp_path, "ses_1")
    said.append(typed(5, NEXT))
    assert await view() is None  # the host sends its own messages
    assert SAID not in recorded_in(tmp_path)


async def test_a_chat_that_is_forgotten_while_its_requests_pass_goes_on_as_it_comes(
    tmp_path: Path,
) -> None:
    async with open_talk(store_in(tmp_path)) as (host, store):
        await host.say(SAID)
        await forget(tmp_path, "chat-1")
        await store.session("another")
        await host.say(NEXT)
        assert host.last_sent == host.history[:-1]
    assert SAID not in recorded_in(tmp_path)


@pytest.mark.parametrize("agent", ["", "a7"])
async def test_no_word_of_a_forgotten_chat_comes_back_by_the_requests_of_a_gateway(
    tmp_path: Path, agent: str
) -> None:
    async with open_talk(store_in(tmp_path)) as (host, _):
        await host.say("Hello.")
        await host.say(SAID)
        said = host.history
    assert SAID in recorded_in(tmp_path)
    await forget(tmp_path, "chat-1")
    async with open_talk(store_in(tmp_path)) as (host, _):
        host.history, host.agent = said, agent
        await host.say(NEXT)
        assert host.last_sent == said[:-1]  # it goes out as it came
    assert SAID not in recorded_in(tmp_path)

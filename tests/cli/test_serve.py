"""The server as a host starts it: the installed script, a pipe on each side."""

from __future__ import annotations

import json
import os
import pty
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from mcp_compaction.server import probe
from mcp_compaction.server.probe import Era, ServerError, start_server
from tests.cli.conftest import Shell

pytestmark = pytest.mark.anyio

SCRIPT = str(Path(sys.executable).with_name("mcp-compaction"))
ALL = {
    "compress_context",
    "pin_constraint",
    "recall_archived",
    "context_stats",
    "unpin_constraint",
    "restore_context",
    "record_messages",
}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "0"},
    },
}


def environ_of(shell: Shell, **extra: str) -> dict[str, str]:
    """An environment for a process of its own, with a store of the test's."""
    path = f"{Path(SCRIPT).parent}{os.pathsep}{os.environ['PATH']}"
    own = {"PATH": path, "MCP_COMPACTION_HOME": str(shell.home)}
    return {**shell.environ, **own, **extra}


def spoken(
    shell: Shell, *argv: str, cwd: Path | None = None, **extra: str
) -> tuple[int, list[dict[str, Any]], str]:
    """A conversation by hand: the exit code, the answers in order, and what was on stderr."""
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    odd = {"jsonrpc": "2.0", "id": 3, "method": "ping", "params": {"what": "the SDK knows"}}
    lines = [json.dumps(line) for line in (INITIALIZE, initialized, listing, odd)]
    environ = environ_of(shell, **extra)
    with subprocess.Popen(
        [SCRIPT, *argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environ,
        cwd=cwd,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write("\n".join(lines) + "\n")
        process.stdin.flush()
        answers = [process.stdout.readline() for _ in range(3)]
        rest, errors = process.communicate(timeout=3000)
    said = [*answers, *rest.splitlines()]
    return process.returncode, [json.loads(line) for line in said if line], errors


@pytest.mark.thorough
@pytest.mark.parametrize(("argv", "era"), [([], "auto"), (["serve"], "legacy")])
async def test_a_host_is_served_in_both_eras(argv: list[str], era: Era, shell: Shell) -> None:
    async with start_server(environ_of(shell), era, (SCRIPT, *argv)) as server:
        version = server.client.protocol_version
        stats = await server.call("context_stats", {"session": "nobody"})
        tools = await server.tools()
    assert version == ("2026-07-28" if era == "auto" else "2025-11-25")
    assert set(tools) == ALL
    assert stats.is_error
    assert "no session" in stats.text


async def project_of(environ: dict[str, str], *argv: str) -> str:
    """The project a server works in."""
    async with start_server(environ, "auto", (SCRIPT, "serve", *argv)) as server:
        await server.call("pin_constraint", {"text": "Only on Fridays.", "session": "s"})
        return json.loads(await server.read("compaction://sessions"))[0]["project"]


@pytest.mark.thorough
async def test_the_project_is_typed_or_set_or_the_hosts_word(shell: Shell) -> None:
    for name in ("typed", "set", "told"):
        (shell.folder / name).mkdir()
    typed, set_here, told = (str(shell.folder / name) for name in ("typed", "set", "told"))
    environ = environ_of(shell, MCP_COMPACTION_PROJECT=set_here, CLAUDE_PROJECT_DIR=told)
    assert await project_of({**environ, "MCP_COMPACTION_HOME": typed}, "--project", typed) == typed
    assert await project_of({**environ, "MCP_COMPACTION_HOME": set_here}) == set_here
    del environ["MCP_COMPACTION_PROJECT"]
    assert await project_of({**environ, "MCP_COMPACTION_HOME": told}) == told


def test_nothing_but_the_protocol_reaches_stdout(shell: Shell) -> None:
    """Every import of something heavy prints; none of it may come before the claim."""
    loud = shell.folder / "loud"
    loud.mkdir()
    (loud / "sitecustomize.py").write_text(
        "import os, sys\n"
        "class Loud:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name in ('mcp', 'pydantic', 'anyio', 'sqlite3', 'mcp_compaction.settings'):\n"
        "            os.write(1, f'noise of {name}\\n'.encode())\n"
        "            print('more noise')\n"
        "sys.meta_path.insert(0, Loud())\n"
    )
    code, answers, errors = spoken(shell, PYTHONPATH=str(loud), PYTHONUNBUFFERED="1")
    assert code == 0
    assert [answer["id"] for answer in answers] == [1, 2, 3]
    for name in ("mcp", "pydantic", "anyio", "mcp_compaction.settings"):
        assert f"noise of {name}\n" in errors


@pytest.mark.thorough
def test_nothing_is_imported_from_the_working_directory(shell: Shell) -> None:
    hostile = shell.folder / "a 'hostile' dir ü"
    hostile.mkdir()
    mark = shell.folder / "was-here"
    names = ("secrets", "json", "sqlite3", "sitecustomize", "usercustomize", "mcp", "pydantic")
    for name in names:
        (hostile / f"{name}.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    code, answers, errors = spoken(shell, cwd=hostile)
    assert (code, errors) == (0, "")
    assert {tool["name"] for tool in answers[1]["result"]["tools"]} == ALL
    ran = subprocess.run(
        [SCRIPT, "doctor", "--server"],
        cwd=hostile,
        env=environ_of(shell),
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0
    assert not mark.exists()


def refused(environ: dict[str, str], *argv: str) -> str:
    """What a server says that ends with code 2 while its host still listens."""
    with subprocess.Popen(
        [SCRIPT, *argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environ,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stderr
        said = process.stderr.read()
        assert (process.wait(60), process.stdout.read()) == (2, "")
    return said


BAD_SETTINGS = {
    "an unknown variable": ({"MCP_COMPACTION_NOBODY": "1"}, "MCP_COMPACTION_NOBODY is no setting"),
    "a misspelled variable": ({"MCP_COMPACTION_RECRD": "false"}, "did you mean MCP_COMPACTION_REC"),
    "a bad value": ({"MCP_COMPACTION_RECORD": "fasle"}, "MCP_COMPACTION_RECORD is 'fasle'"),
    "no such preset": ({"MCP_COMPACTION_PRESET": "ladr"}, "did you mean ladder?"),
    "a relative home": ({"MCP_COMPACTION_HOME": "here"}, "write the whole path"),
    "no settings file": ({"MCP_COMPACTION_CONFIG": "/nowhere.toml"}, "does not exist"),
}


@pytest.mark.parametrize(
    "kind",
    [
        kind if number == 0 else pytest.param(kind, marks=pytest.mark.thorough)
        for number, kind in enumerate(BAD_SETTINGS)
    ],
)
async def test_a_host_is_served_with_bad_settings_and_every_answer_says_so(
    kind: str, shell: Shell
) -> None:
    """A host remembers a server that ends at its start, and does not start it again."""
    wish, said = BAD_SETTINGS[kind]
    async with start_server(environ_of(shell, **wish), "auto", (SCRIPT, "serve")) as server:
        assert said in (server.client.instructions or "")
        assert set(await server.tools()) == ALL
        for tool, given in (
            ("pin_constraint", {"text": "Only on Fridays."}),
            ("context_stats", {}),
        ):
            answer = await server.call(tool, given)
            assert answer.is_error
            assert said in answer.text
            assert "Nothing was done; tell the user" in answer.text
    assert not shell.home.exists()
    assert not Path("here").exists()


def lock(shell: Shell) -> sqlite3.Connection:
    """Hold the store as a program that writes does."""
    other = sqlite3.connect(shell.home / "store.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    return other


def damage(shell: Shell) -> None:
    """Write over the store's beginning."""
    (shell.home / "store.db").write_bytes(b"no database at all" * 1000)


@pytest.mark.thorough
@pytest.mark.parametrize("hurt", [lock, damage])
async def test_a_host_is_served_while_the_store_is_locked_or_damaged(
    hurt: Callable[[Shell], sqlite3.Connection | None], recorded: Shell
) -> None:
    other = hurt(recorded)
    async with start_server(environ_of(recorded), "auto", (SCRIPT, "serve")) as server:
        assert set(await server.tools()) == ALL
        answer = await server.call("pin_constraint", {"text": "Only on Fridays.", "session": "s"})
        assert answer.is_error
        assert "store" in answer.text
        if other is not None:
            other.close()
            answer = await server.call(
                "pin_constraint", {"text": "Only on Fridays.", "session": "s"}
            )
            assert not answer.is_error


def test_where_both_ends_are_a_terminal_the_program_is_a_guide(shell: Shell) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [SCRIPT], stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=environ_of(shell)
    ) as process:
        os.close(theirs)
        out = b""
        with suppress(OSError):  # Linux says so when the program has left its terminal
            while chunk := os.read(ours, 65_536):
                out += chunk
        os.close(ours)
        assert process.stderr
        assert (process.wait(), process.stderr.read()) == (0, b"")
    assert b"to begin:" in out
    assert b"mcp-compaction demo" in out


def test_over_http_a_token_is_asked_for(shell: Shell) -> None:
    words = [SCRIPT, "serve", "--http", "--port", "0"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ_of(shell), text=True
    ) as process:
        assert process.stderr
        said = ""
        while "http://127.0.0.1:" not in said:
            line = process.stderr.readline()
            assert line, said
            said += line
        url = next(word for word in said.split() if word.startswith("http://127.0.0.1:"))
        with pytest.raises(HTTPError) as refused:
            urlopen(url.rstrip(".,;"), timeout=300)
        assert refused.value.code == 401
        refused.value.close()
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=300)
    assert (process.returncode, out) == (0, "")


# The doctor, who starts it too


@pytest.mark.thorough
def test_doctor_starts_the_server_in_both_eras(recorded: Shell) -> None:
    before = recorded.dump()
    told = recorded("doctor", "--server", "--json").json()
    assert [check["protocol"] for check in told["server"]] == ["2026-07-28", "2025-11-25"]
    for check in told["server"]:
        assert set(check["tools"]) == ALL
        assert check["first_answer_ms"] > 0
        assert (check["calls"], check["problems"]) == (5, [])
    assert recorded.dump() == before


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("/nowhere/mcp-compaction",), "No such file"),
        (("/bin/sh", "-c", "echo the disk is full >&2; exit 3"), "  the disk is full"),
        (("/bin/false",), "it said nothing"),
    ],
)
def test_doctor_says_why_the_server_did_not_start(
    words: tuple[str, ...], told: str, recorded: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "installed_command", lambda: words)
    ran = recorded("doctor", "--server")
    assert (ran.code, ran.err) == (1, "")
    assert ran.out.count("problem: the server did not start") == 1
    assert told in ran.out
    assert "(protocol 2026-07-28, 2025-11-25)" in ran.out


# The probe itself


SHORT_LIVED = """
import json, sys
asked = json.loads(sys.stdin.readline())
info = {"name": "short", "version": "0"}
result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": info}
print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
sys.stdin.readline()
sys.exit("the store is gone")
"""


async def test_a_server_that_breaks_off_is_told_with_its_last_words(shell: Shell) -> None:
    words = (sys.executable, "-c", SHORT_LIVED)
    with pytest.raises(ServerError, match=r"the server broke off .*\n  the store is gone"):
        async with start_server(environ_of(shell), "legacy", words) as server:
            await server.call("context_stats", {})

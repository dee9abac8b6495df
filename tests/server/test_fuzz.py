"""Every tool called with anything its schema allows and does not allow, on the real process."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.server.fuzzing import any_call, mangled
from tests.server.host import Host, modern, request, toy

pytestmark = pytest.mark.thorough

SERVER = [str(Path(sys.executable).with_name("mcp-compaction")), "serve", "--project", "/fuzz"]
CASES = 500  # in each era
AT_ONCE = 20
LINES = 50_000  # in each era
LINES_OF_SESSION = 1_000
MANGLED = 0.6  # the share of lines that are no good call


@pytest.mark.parametrize("era", ["handshake", "modern"])
def test_every_call_is_answered_and_no_exception_is_unhandled(era: str, tmp_path: Path) -> None:
    random = Random(f"fuzz {era}")
    wrap = modern if era == "modern" else as_it_is
    with serving(tmp_path) as host:
        tools = tools_of(host, era)
        for start in range(0, CASES, AT_ONCE):
            calls = [any_call(random, start + n, tools) for n in range(AT_ONCE)]
            host.send(*(wrap(message) for message in calls))
            check_replies(host, {message["id"]: message for message in calls})
        host.send(wrap(request("end", "tools/list")))
        assert len(host.reply_to("end")["result"]["tools"]) == 7


@pytest.mark.slow
@pytest.mark.parametrize("era", ["handshake", "modern"])
def test_a_hundred_thousand_fuzzed_lines_are_answered_one_by_one(era: str, tmp_path: Path) -> None:
    random = Random(f"lines {era}")
    wrap = modern if era == "modern" else as_it_is
    with serving(tmp_path) as host:
        tools = tools_of(host, era)
        for start in range(0, LINES, AT_ONCE):
            sessions = (f"fuzz {start // LINES_OF_SESSION}", "other")
            wanted: Counter[int | None] = Counter()
            for id in range(start, start + AT_ONCE):
                sent = json.dumps(wrap(any_call(random, id, tools, sessions))).encode()
                expected, line = (
                    mangled(random, id, sent) if random.random() < MANGLED else (id, sent)
                )
                host.write(line + b"\n")
                wanted[expected] += 1
            assert Counter(reply["id"] for reply in replies(host, AT_ONCE)) == wanted
        host.send(wrap(request("end", "tools/list")))
        assert len(host.reply_to("end")["result"]["tools"]) == 7


@contextmanager
def serving(folder: Path) -> Generator[Host]:
    """The real server on a store of its own; afterwards, that it has logged no traceback."""
    log = folder / "stderr"
    env = {
        "MCP_COMPACTION_HOME": str(folder / "store"),
        "MCP_COMPACTION_COUNTER": "estimate",
        "MCP_COMPACTION_WINDOW_TOKENS": "5000",
    }
    with log.open("wb") as errors, toy(command=SERVER, env=env, stderr=errors.fileno()) as host:
        yield host
    assert "Traceback" not in log.read_text(encoding="utf-8", errors="replace")


def tools_of(host: Host, era: str) -> list[dict[str, Any]]:
    """The tools of a server that was greeted as the era wants it."""
    if era == "handshake":
        host.greet()
    wrap = modern if era == "modern" else as_it_is
    host.send(wrap(request("tools", "tools/list")))
    return host.reply_to("tools")["result"]["tools"]


def replies(host: Host, number: int) -> Iterator[dict[str, Any]]:
    """The next replies; notifications between them are dropped."""
    while number:
        message = host.receive()
        if "id" in message:
            number -= 1
            yield message


def as_it_is(message: dict[str, Any]) -> dict[str, Any]:
    return message


def check_replies(host: Host, waiting: dict[Any, dict[str, Any]]) -> None:
    """Each call is answered, by a result or by words."""
    for reply in replies(host, len(waiting)):
        message = waiting.pop(reply["id"])
        text = json.dumps(reply)
        assert "Error executing tool" not in text, (message, reply)
        assert "internal" not in text.lower() or "result" in reply, (message, reply)

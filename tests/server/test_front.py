"""What is answered before the SDK is loaded is what the SDK would answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction.server.app import INSTRUCTIONS, INSTRUCTIONS_BY_SYSTEM
from mcp_compaction.server.front import OUT_OF_ORDER, Front, file_of, read_front
from mcp_compaction.server.writing import SETS, as_text, first_answers
from tests.server.host import HELLO, PATIENCE, Host, call, modern, opening, request

PROGRAM = [sys.executable, "-c", "from mcp_compaction.cli.main import run; run()"]
DISCOVER = modern(request("d", "server/discover"))
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.mark.anyio
@pytest.mark.parametrize(("only_core", "by_agent"), SETS)
async def test_the_written_answers_are_those_of_the_sdk(
    only_core: bool, by_agent: bool, tmp_path: Path
) -> None:
    fresh = as_text(await first_answers(only_core, by_agent, tmp_path))
    written = file_of(only_core, by_agent).read_text(encoding="utf-8")
    assert written == fresh, "tools or words changed: run python -m mcp_compaction.server.writing"


def front() -> Front:
    return read_front(only_core=False, by_agent=True)


def reply_of(front: Front, message: dict[str, Any]) -> Any:
    """The result that a front gives by itself; None: the SDK is to answer."""
    taken = front.take(json.dumps(message))
    return None if taken.reply is None else json.loads(taken.reply)["result"]


@pytest.mark.parametrize(
    ("asked", "told"),
    [("2024-11-05", "2024-11-05"), ("2025-06-18", "2025-06-18"), ("1999-01-01", "2025-11-25")],
)
def test_a_known_version_is_taken_and_the_newest_handshake_offered_else(
    asked: str, told: str
) -> None:
    greeting = request(0, "initialize", {**HELLO, "protocolVersion": asked})
    assert reply_of(front(), greeting)["protocolVersion"] == told


@pytest.mark.parametrize("first", [request(0, "initialize", HELLO), DISCOVER])
def test_the_sdk_reads_the_first_request_too_and_its_answer_to_it_is_for_nobody(
    first: dict[str, Any],
) -> None:
    one = front()
    taken = one.take(json.dumps(first))
    assert taken.reply
    assert taken.is_passed_on
    assert not taken.is_urgent
    assert not one.is_for_nobody("another")
    assert one.is_for_nobody(first["id"])
    assert not one.is_for_nobody(first["id"])


@pytest.mark.parametrize(
    "strange",
    [
        request(0, "initialize", {"protocolVersion": "2025-11-25"}),
        request(0, "initialize", {**HELLO, "clientInfo": {"name": 5}}),
        modern(request(0, "initialize", HELLO)),
        call(1, "context_stats"),
        modern(call(1, "context_stats")),
        {
            **DISCOVER,
            "params": {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}},
        },
        request(1, "tools/list", {"cursor": "x"}),
        {"jsonrpc": "2.0", "id": 4, "result": {}},
        request(1, "initialize", {**HELLO, "padding": "x" * 70_000}),
    ],
)
def test_whatever_else_opens_a_connection_is_the_sdks_to_judge_with_all_that_follows(
    strange: dict[str, Any],
) -> None:
    one = front()
    assert reply_of(one, strange) is None
    assert reply_of(one, request(7, "initialize", HELLO)) is None


def test_a_request_of_the_other_era_and_a_second_greeting_are_the_sdks_to_refuse() -> None:
    handshake, new = front(), front()
    assert reply_of(handshake, request(0, "initialize", HELLO))
    assert reply_of(handshake, request(1, "tools/list"))
    assert reply_of(handshake, request(2, "initialize", HELLO)) is None
    assert reply_of(handshake, modern(request(3, "tools/list"))) is None
    assert reply_of(new, DISCOVER)
    assert reply_of(new, modern(request(1, "tools/list")))
    assert reply_of(new, request(2, "tools/list")) is None
    assert reply_of(new, request(3, "initialize", HELLO)) is None


def told(event: str, source: str = "") -> dict[str, Any]:
    """A hook that tells of an event."""
    return call(7, "host_event", event=event, session_id="s", source=source)


def test_the_hooks_of_a_new_chat_without_pins_hear_at_once_that_there_is_nothing() -> None:
    one = Front(json.loads(file_of(False, True).read_bytes()), has_pins=lambda: False)
    reply_of(one, request(0, "initialize", HELLO))
    for hook in (told("SessionStart", "startup"), told("UserPromptSubmit")):
        taken = one.take(json.dumps(hook))
        assert taken.reply is not None
        assert json.loads(taken.reply)["result"]["content"] == [{"type": "text", "text": "{}"}]
        assert taken.is_passed_on  # the SDK records what is told
        assert one.is_for_nobody(7)


@pytest.mark.parametrize(
    ("pins", "hooks"),
    [
        (True, [told("SessionStart", "startup"), told("UserPromptSubmit")]),
        (False, [told("SessionStart", "resume"), told("UserPromptSubmit")]),
        (False, [told("UserPromptSubmit")]),
        (False, [told("Stop")]),
    ],
)
def test_where_a_hook_may_have_something_to_hear_the_sdk_answers(
    pins: bool, hooks: list[dict[str, Any]]
) -> None:
    one = Front(json.loads(file_of(False, True).read_bytes()), has_pins=lambda: pins)
    reply_of(one, request(0, "initialize", HELLO))
    assert [reply_of(one, hook) for hook in hooks] == [None] * len(hooks)


QUIET = {"UserPromptSubmit", "Stop"}
LISTEN = modern(request("l", "subscriptions/listen", {"notifications": {"toolsListChanged": True}}))


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_hook_to_which_nothing_is_told_yet_is_answered_and_loads_nothing(era: str) -> None:
    one = Front(json.loads(file_of(False, True).read_bytes()), quiet=QUIET)
    is_modern = era == "modern"
    reply_of(one, DISCOVER if is_modern else request(0, "initialize", HELLO))
    hook = modern(told("Stop")) if is_modern else told("Stop")
    taken = one.take(json.dumps(hook))
    assert (taken.is_passed_on, taken.is_urgent) == (False, False)
    assert taken.reply is not None
    result = json.loads(taken.reply)["result"]
    assert result["content"] == [{"type": "text", "text": "{}"}]
    assert ("resultType" in result) == is_modern
    assert one.take(json.dumps(hook), is_cold=False).reply is None
    other = told("PreCompact")
    assert reply_of(one, modern(other) if is_modern else other) is None


def test_the_wish_to_hear_of_changes_is_acknowledged_at_once_and_once() -> None:
    one = front()
    reply_of(one, DISCOVER)
    one.is_for_nobody("d")
    taken = one.take(json.dumps(LISTEN))
    assert (taken.is_passed_on, taken.is_urgent) == (True, False)
    assert one.is_for_nobody("l")  # the SDK's own acknowledgment
    assert not one.is_for_nobody("l")  # its answer at the end
    more = {"toolsListChanged": True, "resourceSubscriptions": ["compaction://sessions"]}
    params = {**LISTEN["params"], "notifications": more}
    assert one.take(json.dumps({**LISTEN, "params": params})).reply is None


def test_claude_code_hears_at_once_of_all_it_asks_at_a_start_and_of_nothing_twice(
    tmp_path: Path,
) -> None:
    variables = {"CLAUDE_CODE_SESSION_ID": "s", "MCP_COMPACTION_VIEWS": str(tmp_path / "views")}
    with serving(tmp_path, "serve", **variables) as host:
        host.send(DISCOVER, LISTEN, modern(request(1, "tools/list")), modern(told("Stop")))
        assert host.receive()["id"] == "d"
        acknowledged = host.receive()
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        assert host.receive()["id"] == 1
        assert host.receive()["result"]["content"] == [{"type": "text", "text": "{}"}]
        host.send(modern(call(2, "context_stats")))
        assert host.receive()["id"] == 2
        host.close_stdin()
        assert host.receive()["id"] == "l"
        assert host.process.wait(PATIENCE) == 0


def test_the_acknowledgment_is_the_one_that_the_sdk_would_send(tmp_path: Path) -> None:
    with serving(tmp_path) as host:
        host.send(DISCOVER, LISTEN)
        host.receive()
        ours = host.receive()
    with serving(tmp_path) as host:
        host.send(modern(call(1, "context_stats")), LISTEN)
        said = [host.receive() for _ in range(2)]
    assert ours in said


@contextmanager
def serving(folder: Path, *words: str, **variables: str) -> Generator[Host]:
    """The real program, with a store in that folder."""
    environ = {
        **os.environ,
        "HOME": str(folder),
        "MCP_COMPACTION_HOME": str(folder / "store"),
        **variables,
    }
    with subprocess.Popen(
        [*PROGRAM, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environ,
        cwd=folder,
    ) as process:
        try:
            yield Host(process)
        finally:
            process.kill()


def has_sdk(host: Host) -> bool:
    """Whether the process has loaded what the SDK is built on."""
    return "pydantic_core" in Path(f"/proc/{host.process.pid}/maps").read_text()


@pytest.mark.thorough
@on_linux
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_tools_are_listed_without_the_sdk_and_called_with_it(era: str, tmp_path: Path) -> None:
    def asked(message: dict[str, Any]) -> dict[str, Any]:
        return modern(message) if era == "modern" else message

    with serving(tmp_path) as host:
        host.send(*([DISCOVER] if era == "modern" else opening()), asked(request(1, "tools/list")))
        host.receive()
        tools = [tool["name"] for tool in host.receive()["result"]["tools"]]
        assert "compress_context" in tools
        assert not has_sdk(host)
        host.send(asked(call(2, "context_stats")))
        answer = host.receive()
        assert answer["id"] == 2
        assert "no session is recorded" in answer["result"]["content"][0]["text"]
        assert has_sdk(host)
        host.send(asked(request(3, "tools/list")))
        assert [tool["name"] for tool in host.receive()["result"]["tools"]] == tools


def test_a_host_that_leaves_after_the_list_is_left_in_good_order(tmp_path: Path) -> None:
    with serving(tmp_path) as host:
        host.send(*opening(), request(1, "tools/list"))
        host.close_stdin()
        assert host.receive()["id"] == "hello"
        assert host.receive()["id"] == 1
        assert host.process.wait(PATIENCE) == 0


@pytest.mark.parametrize(
    ("variables", "instructions", "compresses"),
    [
        ({}, INSTRUCTIONS, True),
        ({"MCP_COMPACTION_AGENT_CONTROLLED": "false"}, INSTRUCTIONS_BY_SYSTEM, False),
        ({"MCP_COMPACTION_WINDOW_TOKENS": "many"}, OUT_OF_ORDER, True),
    ],
)
def test_the_first_answers_follow_the_settings(
    variables: dict[str, str], instructions: str, compresses: bool, tmp_path: Path
) -> None:
    with serving(tmp_path, "serve", "--tools", "core", **variables) as host:
        host.send(*opening(), request(1, "tools/list"))
        assert host.receive()["result"]["instructions"].startswith(instructions)
        tools = [tool["name"] for tool in host.receive()["result"]["tools"]]
        assert ("compress_context" in tools) == compresses
        assert "record_messages" not in tools

"""Every tool called with anything its schema allows and does not allow, on the real process."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.server.host import Host, call, modern, request, toy
from tests.strategies import coding_session

SERVER = [str(Path(sys.executable).with_name("mcp-compaction")), "serve", "--project", "/fuzz"]
CASES = 2_500  # in each era
AT_ONCE = 20

WORDS = (
    "", " ", "m1", "m1..m9", "m42~3", "p1", "c1", "d1", "fuzz", "other", "never push", "role:user",
    "tool:Bash", "since:2026-11-01", "since:nonsense", "'; DROP TABLE session; --", '" OR 1=1',
    "NEAR(a b)", "a* AND (b", "\x00nul", "\ud83d", "‮rtl", "é" * 50, "中文 查询", "{}", "[1,2]",
    "../../etc/passwd", "m" + "9" * 400, "-1", "null", "x" * 5_000, "OPEN\n- a\nCONSTRAINTS\n- b",
    "2026-11-30T18:00", "0001-01-01", "archive", "global", "note",
)  # fmt: skip
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 10**30, 0.5, 1e308, [], [[]], {}, {"a": {"b": []}}, "text", ["m1"],
)  # fmt: skip


def any_value(random: Random, schema: dict[str, Any]) -> Any:
    """Something the schema allows, or, one time in five, something else."""
    if random.random() < 0.2:
        return random.choice((*ODD, random.choice(WORDS)))
    if "enum" in schema:
        return random.choice(schema["enum"])
    match schema.get("type"):
        case "boolean":
            return random.random() < 0.5
        case "integer":
            return random.choice((50, 60, 1_000, 20_000))
        case "number":
            return random.choice((0.5, 10, 50, 99.9))
        case "string":
            return random.choice(WORDS)
        case _:
            return random.choice((some_messages(random), {"messages": some_messages(random)}))


def some_messages(random: Random) -> list[Any]:
    """A few messages, some of them broken."""
    good = coding_session(random.randrange(1, 4), 120, seed=random.randrange(50))
    broken: list[Any] = [{"role": "user"}, {"content": "x"}, 5, {"role": "king", "content": "x"}]
    return [*good, random.choice(broken)] if random.random() < 0.3 else list(good)


def any_call(random: Random, id: int, tools: list[dict[str, Any]]) -> dict[str, Any]:
    tool = random.choice(tools)
    schema = tool["inputSchema"]
    names = [
        n for n in schema["properties"] if n in schema.get("required", ()) or random.random() < 0.4
    ]
    arguments = {name: any_value(random, schema["properties"][name]) for name in names}
    if random.random() < 0.7:
        arguments["session"] = random.choice(("fuzz", "other"))
    if random.random() < 0.05:
        arguments[random.choice(("dryrun", "", "__class__", "ctx", "allowed"))] = True
    return call(id, tool["name"], **arguments)


@pytest.mark.parametrize("era", ["handshake", "modern"])
def test_every_call_is_answered_and_no_exception_is_unhandled(era: str, tmp_path: Path) -> None:
    random = Random(f"fuzz {era}")
    log = tmp_path / "stderr"
    env = {
        "MCP_COMPACTION_HOME": str(tmp_path / "store"),
        "MCP_COMPACTION_COUNTER": "estimate",
        "MCP_COMPACTION_WINDOW_TOKENS": "5000",
    }
    wrap = modern if era == "modern" else as_it_is
    with log.open("wb") as errors, toy(command=SERVER, env=env, stderr=errors.fileno()) as host:
        if era == "handshake":
            host.greet()
        host.send(wrap(request("tools", "tools/list")))
        tools = host.reply_to("tools")["result"]["tools"]
        for start in range(0, CASES, AT_ONCE):
            calls = [any_call(random, start + n, tools) for n in range(AT_ONCE)]
            host.send(*(wrap(message) for message in calls))
            check_replies(host, {message["id"]: message for message in calls})
        host.send(wrap(request("end", "tools/list")))
        assert len(host.reply_to("end")["result"]["tools"]) == 7
    assert "Traceback" not in log.read_text(encoding="utf-8", errors="replace")


def as_it_is(message: dict[str, Any]) -> dict[str, Any]:
    return message


def check_replies(host: Host, waiting: dict[Any, dict[str, Any]]) -> None:
    """Each call is answered, by a result or by words."""
    while waiting:
        reply = host.receive()
        if "id" not in reply:
            continue
        message = waiting.pop(reply["id"])
        text = json.dumps(reply)
        assert "Error executing tool" not in text, (message, reply)
        assert "internal" not in text.lower() or "result" in reply, (message, reply)

"""The loop of the README runs as it stands, in process and over MCP to a real server process."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.scripted import ScriptedModel, Step, blocks_of, use
from tests.checkers import Json, problems
from tests.documents import ROOT, python_blocks

pytestmark = pytest.mark.anyio

ONE_CALL, LOOP, WITH_OPENAI, OVER_MCP = (
    block.code
    for page in ("README.md", "docs/loop.md")
    for block in python_blocks((ROOT / page).read_text(encoding="utf-8"))
    if "LoopKit" in block.code
)


def steps() -> list[Step]:
    """Reads, a compaction by the agent, and more reads."""
    reads = [[use(f"a{n}", "Read", path=f"{n}.txt")] for n in range(40)]
    reads[30].append(use("c", "compress_context", reason="sorted", target_percent=1, force=True))
    return [*reads, [{"type": "text", "text": "Sorted."}]]


async def run(call: Json) -> str:
    """One of the loop's own tools."""
    return f"receipt {call['id']}\n" * 30


def loop_of_readme() -> dict[str, Any]:
    """The functions of the README's loop."""
    names: dict[str, Any] = {"MY_TOOLS": [{"type": "function", "function": {"name": "Read"}}]}
    exec(ONE_CALL, names)
    exec(LOOP, names)
    exec(WITH_OPENAI, names)
    exec(OVER_MCP, names)
    return names


def check(model: ScriptedModel, messages: list[Json]) -> None:
    """The model was sent only what it accepts, and a smaller window after it had compressed."""
    assert messages[-1]["content"] == [{"type": "text", "text": "Sorted."}]
    sizes = [len(request) for request in model.requests]
    assert len(sizes) == 41
    assert sizes[31] < sizes[30]
    (receipt,) = (b for b in blocks_of(model.requests[31][-1]) if b["tool_use_id"] == "c")
    assert "c1 done: " in receipt["content"]


def test_the_loop_of_the_readme_has_twenty_lines() -> None:
    assert len([line for line in LOOP.splitlines() if line.strip()]) <= 20


async def test_the_loop_of_the_readme_runs_in_process() -> None:
    model = ScriptedModel(steps())
    offered: list[Json] = []

    async def ask(sent: list[Json], tools: list[Json]) -> Json:
        offered[:] = tools
        return await model(sent)

    check(model, await loop_of_readme()["main"](ask, run))
    assert "compress_context" in [tool["name"] for tool in offered]


@pytest.mark.thorough
async def test_the_loop_of_the_readme_runs_over_mcp(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = ScriptedModel(steps())

    async def ask(sent: list[Json], tools: list[Json]) -> Json:
        return await model(sent)

    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    check(model, await loop_of_readme()["main_over_mcp"](ask, run))
    assert "the loop goes on" not in caplog.text


class Anthropic:
    """A client of Anthropic's SDK whose model answers once."""

    def __init__(self) -> None:
        self.messages = self
        self.sent: list[Json] = []

    async def create(self, **body: Any) -> Json:
        """Answer a request, if the API would take it."""
        self.sent.append(body)
        return await ScriptedModel([[{"type": "text", "text": "Sorted."}]])(body["messages"])


async def test_the_call_of_the_readme_sends_the_pin_and_the_tools() -> None:
    client = Anthropic()
    messages = [{"role": "user", "content": "Sort the receipts."}]
    response = await loop_of_readme()["work"](client, messages)
    assert response["content"] == [{"type": "text", "text": "Sorted."}]
    (body,) = client.sent
    assert "Never delete a receipt." in json.dumps(body)
    assert "compress_context" in [tool["name"] for tool in body["tools"]]


class Completion:
    """A response of OpenAI's SDK, as far as a loop sees it."""

    def __init__(self, *calls: Json) -> None:
        said = {"tool_calls": list(calls)} if calls else {"content": "Sorted."}
        self.choices = [{"index": 0, "message": {"role": "assistant", **said}}]

    def to_dict(self) -> Json:
        """What the API sent."""
        return {"object": "chat.completion", "choices": self.choices, "model": "gpt-5.2"}


class OpenAi:
    """A client of OpenAI's SDK whose model reads 40 receipts and compresses in between."""

    def __init__(self) -> None:
        self.chat = self.completions = self
        self.sent: list[list[Json]] = []

    async def create(self, *, model: str, messages: list[Json], tools: list[Json]) -> Completion:
        """Answer a request, if the API would take it."""
        assert [tool["function"]["name"] for tool in tools][-1] == "Read"
        assert not problems(messages, "openai")
        self.sent.append(list(messages))
        number = len(self.sent)
        if number > 40:
            return Completion()
        calls = [_function(f"c{number}", "Read", path=f"{number}.txt")]
        if number == 30:
            wish = {"reason": "sorted", "target_percent": 0.4, "force": True}
            calls.insert(0, _function("z", "compress_context", **wish))
        return Completion(*calls)


def _function(id: str, name: str, **given: Any) -> Json:
    function = {"name": name, "arguments": json.dumps(given)}
    return {"id": id, "type": "function", "function": function}


async def test_the_loop_of_the_readme_runs_with_openai() -> None:
    client = OpenAi()
    messages = await loop_of_readme()["main_with_openai"](client, run)
    assert messages[-1] == {"role": "assistant", "content": "Sorted."}
    sizes = [len(sent) for sent in client.sent]
    assert len(sizes) == 41
    assert sizes[30] < sizes[29]
    assert "[digest d1" in str(client.sent[30])

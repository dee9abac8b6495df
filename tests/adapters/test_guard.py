"""Calls of a program's own tools are held as pins say, in a loop and in three frameworks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcp_compaction import open_store
from mcp_compaction.adapters.guard import CallGuard
from mcp_compaction.adapters.loop import LoopKit
from mcp_compaction.checks.check import parse_checks
from mcp_compaction.checks.file import allow_once, read_held, rules_path, write_rules
from mcp_compaction.checks.judge import Rule

pytestmark = pytest.mark.anyio

RULE = "Nie auf „main“ pushen!"
PUSH = {"command": "sudo git push origin main"}
QUOTED = f"pin p1, by user: {RULE}"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The folder of a store with one rule that bites."""
    checks = parse_checks("deny Bash: git push main\nmust tests before Bash: git commit")
    write_rules(tmp_path, [Rule(1, RULE, checks, scope="global")])
    return tmp_path


def test_a_guard_holds_lifts_once_and_asks_where_it_can(home: Path) -> None:
    guard = CallGuard(home)
    assert QUOTED in (guard.hold("Bash", PUSH) or "")
    assert guard.hold("Bash", {"command": "git status"}) is None
    allow_once(home, 1)
    assert guard.hold("Bash", PUSH) is None
    assert guard.hold("Bash", PUSH) is not None
    asked: list[str] = []
    asking = CallGuard(home, ask=lambda text: not asked.append(text))
    assert asking.hold("Bash", {"command": "git commit -m x"}) is None
    assert QUOTED in asked[0]
    assert [note.verdict for note in read_held(home)] == ["deny", "allowed", "deny", "allowed"]


def test_where_the_checks_cannot_be_read_calls_go_on_and_are_counted(home: Path) -> None:
    rules_path(home).write_text("{")
    guard = CallGuard(home)
    assert guard.hold("Bash", PUSH) is None
    assert guard.failures == 1


async def test_the_kit_answers_in_place_of_a_tool(home: Path, tmp_path: Path) -> None:
    async with open_store(home=tmp_path / "store", project=tmp_path, counter="estimate") as store:
        kit = LoopKit(await store.session("s"), guard=CallGuard(home))
        call = {"type": "tool_use", "id": "c1", "name": "Bash", "input": PUSH}
        held = kit.hold(call)
        assert held is not None
        assert held["tool_use_id"] == "c1"
        assert held["is_error"] is True
        assert QUOTED in str(held["content"])
        assert kit.hold({**call, "input": {"command": "ls"}}) is None


async def test_an_agent_of_langchain_is_held(home: Path) -> None:
    pytest.importorskip("langchain")
    from langchain.agents.middleware.types import ToolCallRequest
    from langchain_core.messages import ToolMessage

    from mcp_compaction.adapters.langgraph.guarding import GuardMiddleware

    middleware, ran = GuardMiddleware(CallGuard(home)), list[str]()

    def run(request: ToolCallRequest) -> ToolMessage:
        ran.append(request.tool_call["args"]["command"])
        return ToolMessage(content="fine", tool_call_id="c1")

    async def run_later(request: ToolCallRequest) -> ToolMessage:
        return run(request)

    def request(command: str) -> ToolCallRequest:
        call: Any = {"name": "bash", "args": {"command": command}, "id": "c1", "type": "tool_call"}
        return ToolCallRequest(tool_call=call, tool=None, state={}, runtime=None)  # type: ignore[arg-type]

    held = middleware.wrap_tool_call(request(PUSH["command"]), run)
    assert QUOTED in str(held)
    assert QUOTED in str(await middleware.awrap_tool_call(request(PUSH["command"]), run_later))
    assert "fine" in str(middleware.wrap_tool_call(request("ls"), run))
    assert ran == ["ls"]


async def test_an_agent_of_pydantic_ai_is_held(home: Path) -> None:
    pytest.importorskip("pydantic_ai")
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    from mcp_compaction.adapters.pydantic_ai import GuardCapability

    commands, ran = [PUSH["command"], "ls"], list[str]()

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if not commands:
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart("bash", {"command": commands.pop(0)})])

    agent = Agent(FunctionModel(answer), capabilities=[GuardCapability(CallGuard(home))])

    @agent.tool_plain
    def bash(command: str) -> str:
        ran.append(command)
        return "fine"

    result = await agent.run("Go.")
    assert ran == ["ls"]
    assert QUOTED in str(result.all_messages())


async def test_a_tool_of_the_openai_agents_sdk_is_held(home: Path) -> None:
    pytest.importorskip("agents")
    import json

    from agents import Agent, ToolInputGuardrailData
    from agents.tool_context import ToolContext

    from mcp_compaction.adapters.openai_agents import guardrail_of

    guardrail = guardrail_of(CallGuard(home))

    async def behavior(command: str) -> str:
        context = ToolContext[Any](
            context=None,
            tool_name="bash",
            tool_call_id="c1",
            tool_arguments=json.dumps({"command": command}),
        )
        told = ToolInputGuardrailData(context=context, agent=Agent(name="clerk"))
        return str((await guardrail.run(told)).behavior)

    assert "reject_content" in await behavior(PUSH["command"])
    assert "pin p1" in await behavior(PUSH["command"])
    assert "allow" in await behavior("ls")

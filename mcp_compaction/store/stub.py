"""The stub for a forgotten message: the least that keeps the conversation valid."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import JsonValue

from mcp_compaction.model import JsonObject, Part, Role, Shape, ToolCall, ToolResult

FORGOTTEN = "[forgotten]"


def stub(shape: Shape, role: Role, parts: Sequence[Part], raw: str) -> str:
    """A message of that shape and role that says nothing but keeps its tool calls paired."""
    calls = [part for part in parts if isinstance(part, ToolCall)]
    results = [part for part in parts if isinstance(part, ToolResult)]
    match shape:
        case "anthropic":
            value = _anthropic(role, calls, results)
        case "openai":
            value = _openai(role, calls, results)
        case "responses":
            value = _responses(role, calls, results, raw)
    return json.dumps(value, separators=(",", ":"))


def _anthropic(role: Role, calls: list[ToolCall], results: list[ToolResult]) -> JsonObject:
    blocks: list[JsonValue] = []
    for call in calls:
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": {}})
    for result in results:
        blocks.append({"type": "tool_result", "tool_use_id": result.call, "content": FORGOTTEN})
    return {"role": role, "content": blocks or FORGOTTEN}


def _openai(role: Role, calls: list[ToolCall], results: list[ToolResult]) -> JsonObject:
    message: JsonObject = {"role": role, "content": FORGOTTEN}
    if calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": "{}"},
            }
            for call in calls
        ]
    if results:
        message["tool_call_id"] = results[0].call
    return message


def _responses(
    role: Role, calls: list[ToolCall], results: list[ToolResult], raw: str
) -> JsonObject:
    if not calls and not results:
        return {"type": "message", "role": role, "content": FORGOTTEN}
    kind: str = json.loads(raw)["type"]  # a call's type and its output's must go on agreeing
    if results:
        return {"type": kind, "call_id": results[0].call, "output": FORGOTTEN}
    said: JsonObject = {"input": ""} if kind == "custom_tool_call" else {"arguments": "{}"}
    return {"type": kind, "call_id": calls[0].id, "name": calls[0].name, **said}

"""The calls that a host's transcript tells of, the newest first: what was run, and how it ended."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from mcp_compaction.checks.judge import Deed, is_green

_MOST_READ = 2**22  # bytes
_WORDS = ("text", "content", "output", "stdout", "functionResponse", "response")


def deeds_in(path: str) -> Iterator[Deed]:
    """The calls in a transcript of Claude Code, Codex or Gemini CLI; none where it cannot be
    read."""
    results: dict[str, tuple[bool | None, str]] = {}
    for line in _lines_from_end(path):
        if b"tool_" not in line and b"_call" not in line and b"toolCalls" not in line:
            continue
        try:
            told: Any = json.loads(line)
        except ValueError:
            continue
        if isinstance(told, dict):
            yield from _read(cast("dict[str, Any]", told), results)


def _lines_from_end(path: str) -> Iterator[bytes]:
    try:
        with Path(path).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(-min(_MOST_READ, size), os.SEEK_END)
            lines = file.read().split(b"\n")
    except OSError:
        return
    yield from reversed(lines)


def _read(told: dict[str, Any], results: dict[str, tuple[bool | None, str]]) -> Iterator[Deed]:
    payload: Any = told.get("payload")
    if isinstance(payload, dict):
        yield from _read_item(cast("dict[str, Any]", payload), results)
        return
    if isinstance(told.get("toolCalls"), list):
        yield from _read_calls(cast("list[Any]", told["toolCalls"]))
        return
    message: Any = told.get("message")
    content: Any = cast("dict[str, Any]", message).get("content") if message else None
    if not isinstance(content, list):
        return
    for block in reversed(cast("list[Any]", content)):
        if not isinstance(block, dict):
            continue
        part = cast("dict[str, Any]", block)
        if part.get("type") == "tool_result":
            results[str(part.get("tool_use_id"))] = (
                bool(part.get("is_error")),
                text_of(part.get("content")),
            )
        elif part.get("type") == "tool_use" and isinstance(part.get("input"), dict):
            yield _deed(str(part.get("name")), part["input"], results.get(str(part.get("id"))))


def _read_item(item: dict[str, Any], results: dict[str, tuple[bool | None, str]]) -> Iterator[Deed]:
    call = str(item.get("call_id"))
    match item.get("type"):
        case "function_call_output" | "custom_tool_call_output" | "local_shell_call_output":
            results[call] = (None, text_of(item.get("output")))
        case "function_call":
            try:
                given: Any = json.loads(item.get("arguments") or "{}")
            except ValueError:
                return
            if isinstance(given, dict):
                yield _deed(str(item.get("name")), cast("dict[str, Any]", given), results.get(call))
        case "custom_tool_call":
            given = {"input": item.get("input")}
            yield _deed(str(item.get("name")), given, results.get(call))
        case "local_shell_call":
            yield _deed("local_shell", dict(item.get("action") or {}), results.get(call))
        case _:
            return


def _read_calls(calls: list[Any]) -> Iterator[Deed]:
    """The calls of one message of Gemini CLI, each with its result."""
    for told in (cast("dict[str, Any]", one) for one in reversed(calls) if isinstance(one, dict)):
        if isinstance(told.get("args"), dict):
            failed = told.get("status") != "success"
            yield _deed(str(told.get("name")), told["args"], (failed, text_of(told.get("result"))))


def _deed(tool: str, given: dict[str, Any], result: tuple[bool | None, str] | None) -> Deed:
    return Deed(tool, given, None if result is None else is_green(*result))


def text_of(value: Any) -> str:
    """The words of a result, whatever its shape."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(map(text_of, cast("list[Any]", value)))
    if isinstance(value, dict):
        parts = cast("dict[str, Any]", value)
        return "\n".join(text_of(parts[key]) for key in _WORDS if key in parts)
    return ""

"""Middleware that spares a model schema noise, unknown arguments and pydantic's error texts."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Container, Mapping
from typing import Any, cast

from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.types import CallToolResult, TextContent
from pydantic import BaseModel

from mcp_compaction.tools.arguments import complain_of_faults, complain_of_unknown, slim

_PREFIX = re.compile(r"^Error executing tool \w+: ?")
_FAULT = re.compile(r"^  (?P<what>.+?) \[type=(?P<type>\w+)", re.MULTILINE)


def strict_arguments(
    arguments: Mapping[str, frozenset[str]],
    withheld: Mapping[str, str],
    unlisted: Container[str],
    check_prompt: Callable[[dict[str, Any]], Awaitable[None]],
) -> ServerMiddleware[Any]:
    """Middleware that lets a tool take just these arguments, and slims what a model reads.

    `withheld`: tools that are not offered, each with the answer to one who calls it all the same.
    `unlisted`: tools that can be called and are not shown to a model. `check_prompt`: refuses what
    the SDK would answer with an internal error and a traceback.
    """

    async def handle(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.method == "tools/list":
            return _slim_list(_as_dict(await call_next(ctx)), unlisted)
        if ctx.method == "prompts/get":
            await check_prompt(cast("dict[str, Any]", ctx.params or {}))
        if ctx.method != "tools/call":
            return await call_next(ctx)
        params = ctx.params or {}
        refused = withheld.get(str(params.get("name")))
        refused = refused or _complaint_about_unknown(params, arguments)
        if refused is not None:
            return CallToolResult(content=[TextContent(type="text", text=refused)], is_error=True)
        result = _as_dict(await call_next(ctx))
        return _reword_texts(result) if result.get("isError") else result

    return handle


def reword(text: str) -> str:
    """An error as a model can act on it: which argument, and what it should be."""
    text = _PREFIX.sub("", text)
    if "validation error" not in text.split("\n", 1)[0]:
        return text
    lines = text.split("\n")
    faults: list[tuple[str, str, str]] = []
    for number, line in enumerate(lines):
        match = _FAULT.match(line)
        if match is not None and number:
            field = lines[number - 1].strip().split(".")[0]
            faults.append((field, match["what"], match["type"]))
    return complain_of_faults(faults)


def _complaint_about_unknown(
    params: Mapping[str, Any], arguments: Mapping[str, frozenset[str]]
) -> str | None:
    known = arguments.get(str(params.get("name")))
    given = params.get("arguments")
    if known is None or not isinstance(given, dict):
        return None
    return complain_of_unknown(cast("dict[str, Any]", given), known)


def _slim_list(result: dict[str, Any], unlisted: Container[str]) -> dict[str, Any]:
    result["tools"] = [tool for tool in result.get("tools", []) if tool["name"] not in unlisted]
    for tool in result["tools"]:
        tool["inputSchema"] = slim(tool["inputSchema"])
    return result


def _reword_texts(result: dict[str, Any]) -> dict[str, Any]:
    for block in result.get("content", []):
        if block.get("type") == "text":
            block["text"] = reword(block["text"])
    return result


def _as_dict(result: HandlerResult) -> dict[str, Any]:
    if isinstance(result, BaseModel):
        return result.model_dump(by_alias=True, exclude_none=True, mode="json")
    return result or {}

"""Middleware that spares a model schema noise, unknown arguments and pydantic's error texts."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from difflib import get_close_matches
from typing import Any, cast

from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.types import CallToolResult, TextContent
from pydantic import BaseModel

_NOISE = ("title", "default")
_PREFIX = re.compile(r"^Error executing tool \w+: ?")
_FAULT = re.compile(r"^  (?P<what>.+?) \[type=(?P<type>\w+)", re.MULTILINE)


def strict_arguments(
    arguments: Mapping[str, frozenset[str]],
    withheld: Mapping[str, str],
    unlisted: Container[str] = (),
) -> ServerMiddleware[Any]:
    """Middleware that lets a tool take just these arguments, and slims what a model reads.

    `withheld`: tools that are not offered, each with the answer to one who calls it all the same.
    `unlisted`: tools that can be called and are not shown to a model.
    """

    async def handle(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.method == "tools/list":
            return _slim_list(_as_dict(await call_next(ctx)), unlisted)
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


def slim(schema: Any) -> Any:
    """A JSON schema without what only costs tokens: titles, defaults null and false, `or null`."""
    if isinstance(schema, list):
        return [slim(part) for part in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    kept = {
        key: _slim_properties(value) if key == "properties" else slim(value)
        for key, value in cast("dict[str, Any]", schema).items()
        if not _is_noise(key, value)
    }
    choices = kept.get("anyOf")
    if isinstance(choices, list):
        real = [choice for choice in cast("list[Any]", choices) if choice != {"type": "null"}]
        if len(real) == 1:
            del kept["anyOf"]
            kept = {**real[0], **kept}
    return kept


def reword(text: str) -> str:
    """An error as a model can act on it: which argument, and what it should be."""
    text = _PREFIX.sub("", text)
    if "validation error" not in text.split("\n", 1)[0]:
        return text
    lines = text.split("\n")
    faults: list[str] = []
    for number, line in enumerate(lines):
        match = _FAULT.match(line)
        if match is not None and number:
            field = lines[number - 1].strip().split(".")[0]
            faults.append(f"{field}: {_plain(match['what'], match['type'])}")
    return (
        "; ".join(dict.fromkeys(faults))
        + ". Nothing was done; correct the arguments and call again."
    )


def _plain(what: str, kind: str) -> str:
    if kind == "missing":
        return "is required"
    return what[0].lower() + what[1:]


def _complaint_about_unknown(
    params: Mapping[str, Any], arguments: Mapping[str, frozenset[str]]
) -> str | None:
    known = arguments.get(str(params.get("name")))
    given = params.get("arguments")
    if known is None or not isinstance(given, dict):
        return None
    strange = [name for name in cast("dict[str, Any]", given) if name not in known]
    if not strange:
        return None
    near = get_close_matches(strange[0], known, 1)
    hint = f"Did you mean {near[0]}? " if near else ""
    return (
        f"no argument {strange[0]!r}. {hint}It takes: {', '.join(sorted(known))}. "
        "Nothing was done; call again with these."
    )


def _slim_list(result: dict[str, Any], unlisted: Container[str]) -> dict[str, Any]:
    result["tools"] = [tool for tool in result.get("tools", []) if tool["name"] not in unlisted]
    for tool in result["tools"]:
        tool["inputSchema"] = slim(tool["inputSchema"])
    return result


def _slim_properties(properties: Any) -> dict[str, Any]:
    # A property may be called "title"; only the schema's own title is noise.
    return {name: slim(value) for name, value in cast("dict[str, Any]", properties).items()}


def _is_noise(key: str, value: Any) -> bool:
    return (key == "title" and isinstance(value, str)) or (
        key == "default" and (value is None or value is False)
    )


def _reword_texts(result: dict[str, Any]) -> dict[str, Any]:
    for block in result.get("content", []):
        if block.get("type") == "text":
            block["text"] = reword(block["text"])
    return result


def _as_dict(result: HandlerResult) -> dict[str, Any]:
    if isinstance(result, BaseModel):
        return result.model_dump(by_alias=True, exclude_none=True, mode="json")
    return result or {}

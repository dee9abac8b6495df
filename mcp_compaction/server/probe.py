"""The client's side, for the demo and the doctor: starts the real server as a host would."""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import IO, Any, Literal

import anyio
from mcp import MCPError
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.dispatcher import ProgressFnT
from mcp.types import TextContent, TextResourceContents

from mcp_compaction.errors import CompactionError
from mcp_compaction.model import Value
from mcp_compaction.program import installed_command
from mcp_compaction.server.tools import list_tools

Era = Literal["auto", "legacy"]
Progress = Callable[[str], None]

PATIENCE_SECONDS = 30.0
_MOST_LINES = 8
_SESSION = "doctor"
_MODES: tuple[Era, ...] = ("auto", "legacy")
_CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("record_messages", {"messages": [{"role": "user", "content": "Only the staging key."}]}),
    ("pin_constraint", {"text": "Only the staging key."}),
    ("context_stats", {}),
    ("recall_archived", {"query": "staging"}),
    ("compress_context", {"reason": "a check", "dry_run": True}),
)


class ServerError(CompactionError):
    """The server did not start, broke off, or refused a call that had to go well."""


class ProbedAnswer(Value):
    """The answer of a tool: its text, and its data for programs."""

    text: str
    is_error: bool
    meta: dict[str, Any]


class Checked(Value):
    """The result of checking a server in one era of the protocol."""

    protocol: str
    first_answer_ms: int | None = None
    tools: tuple[str, ...] = ()
    calls: int = 0
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Server:
    """A running server, as its host sees it."""

    client: Client
    first_answer_ms: int

    async def call(
        self, tool: str, arguments: Mapping[str, Any], progress: Progress | None = None
    ) -> ProbedAnswer:
        """The answer of a tool, even if it is an error."""
        report = None if progress is None else _reporter_to(progress)
        result = await self.client.call_tool(tool, dict(arguments), progress_callback=report)
        texts = [block.text for block in result.content if isinstance(block, TextContent)]
        meta: dict[str, Any] = dict(result.meta or {})
        return ProbedAnswer(text="\n".join(texts), is_error=bool(result.is_error), meta=meta)

    async def read(self, uri: str) -> str:
        """The text of a resource."""
        found = await self.client.read_resource(uri)
        return "".join(c.text for c in found.contents if isinstance(c, TextResourceContents))

    async def tools(self) -> tuple[str, ...]:
        """The names of the server's tools."""
        return tuple(tool.name for tool in (await self.client.list_tools()).tools)


@asynccontextmanager
async def start_server(
    environ: Mapping[str, str], era: Era = "auto", words: Sequence[str] = ()
) -> AsyncGenerator[Server]:
    """A server in a process of its own, stopped after the block; ServerError if it fails."""
    program, *rest = words or (*installed_command(), "serve")
    parameters = StdioServerParameters(command=program, args=rest, env=dict(environ))
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        began = time.monotonic()
        client = Client(
            stdio_client(parameters, errlog=errors), mode=era, read_timeout_seconds=PATIENCE_SECONDS
        )
        is_up = False
        try:
            with anyio.fail_after(PATIENCE_SECONDS) as patience:
                async with client:
                    is_up = True
                    patience.deadline = float("inf")
                    yield Server(client, round(1000 * (time.monotonic() - began)))
        except* (MCPError, OSError, TimeoutError, anyio.BrokenResourceError) as group:
            raise ServerError(_describe_end(group, errors, is_up)) from group
        except* CompactionError as group:
            # The transport's task group has wrapped what its user raised.
            raise _first_of(group) from None


async def look_over(environ: Mapping[str, str], words: Sequence[str] = ()) -> tuple[Checked, ...]:
    """Start a server once for each era of the protocol, list its tools and call them."""
    return tuple([await _check(environ, era, words) for era in _MODES])


async def _check(environ: Mapping[str, str], era: Era, words: Sequence[str]) -> Checked:
    checked = Checked(protocol="2026-07-28" if era == "auto" else "2025-11-25")
    try:
        # Where the system compacts, a tool would be missing that is there.
        asked = {**environ, "MCP_COMPACTION_AGENT_CONTROLLED": "true"}
        async with start_server(asked, era, words) as server:
            found = await server.tools()
            problems = list(_complain_of_missing(found))
            session = {"session": f"{_SESSION}-{era}"}
            for tool, arguments in _CALLS:
                answer = await server.call(tool, {**arguments, **session})
                problems += [f"{tool} failed: {answer.text}"] if answer.is_error else []
            version = server.client.protocol_version
            return Checked(
                protocol=version,
                first_answer_ms=server.first_answer_ms,
                tools=found,
                calls=len(_CALLS),
                problems=tuple(problems),
            )
    except ServerError as error:
        return checked.model_copy(update={"problems": (str(error),)})


def _complain_of_missing(found: Sequence[str]) -> list[str]:
    absent = [tool.name for tool in list_tools() if tool.is_listed and tool.name not in found]
    return [f"tools are missing: {', '.join(absent)}; reinstall mcp-compaction"] if absent else []


def _reporter_to(tell: Progress) -> ProgressFnT:
    async def report(progress: float, total: float | None, message: str | None) -> None:
        tell(message or f"{progress:g} of {total or 'many'}")

    return report


def _first_of(error: BaseException) -> BaseException:
    match error:
        case BaseExceptionGroup(exceptions=(first, *_)):
            return _first_of(first)
        case _:
            return error


def _describe_end(group: BaseException, errors: IO[str], is_up: bool) -> str:
    errors.seek(0)
    said = errors.read().strip().splitlines()[-_MOST_LINES:]
    first = _first_of(group)
    what = "the server broke off" if is_up else "the server did not start"
    told = "\n  ".join(["; its last words:", *said]) if said else "; it said nothing"
    return f"{what} ({str(first) or type(first).__name__}){told}"

"""The tool for loops without hooks: record_messages."""

from __future__ import annotations

from typing import Annotated, cast

from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult
from pydantic import BaseModel, ConfigDict, Field

from mcp_compaction.core.text.secrets import masked_line
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import JsonObject, SessionInfo
from mcp_compaction.ports import Recorded
from mcp_compaction.server import worker_client
from mcp_compaction.server.state import State, errors_as, state_of
from mcp_compaction.server.tools.replying import Ctx, directive_of, reply
from mcp_compaction.tools import answers, arguments


@errors_as(ToolError)
async def record_messages(
    ctx: Ctx,
    messages: arguments.Messages,
    after: arguments.After = None,
    session: arguments.Session = None,
) -> CallToolResult:
    """Answer a call of the tool: record, and give the refs in order."""
    state = state_of(ctx)
    state.check_records()
    came = await state.threads.run(read_incoming, messages)
    compactor = await state.compactor()
    info, is_new = await state.session(ctx, session, "make")
    if not info.traits.owns_window and not state.host(ctx).is_closed:
        info = await compactor.own_window(info)
    done = await compactor.record(info, came, after, via="tool")
    meta = await _answer_loop(state, info, done, messages)
    refs = answers.refs_text(done.seqs) or "none"
    lines = [f"recorded {done.new} new of {len(done.seqs)} messages: {refs}"]
    if done.diverged is not None:
        lines.append(f"what was sent differs from m{done.diverged}, which stays as it was said")
    if done.masked:
        lines.append(masked_line(done.masked))
    if is_new:
        lines.append(await state.describe_new_session(ctx, info))
        session = info.name
    if state.mode(ctx, info) == "own":
        lines += await _relieve(state, info)
    return await reply(ctx, info, "\n".join(lines), meta, asked=session)


class _Loop(BaseModel):
    """What a loop may say beside its messages: the view it has, and what it wants."""

    model_config = ConfigDict(extra="ignore")

    view: int | None = None
    offload_over_tokens: Annotated[int, Field(gt=0)] | None = None
    microcompact: bool = False


async def _answer_loop(state: State, info: SessionInfo, done: Recorded, sent: object) -> JsonObject:
    """What a loop is told beside the text: refs and fill, and the view where it has another."""
    meta: JsonObject = {"refs": [f"m{seq}" for seq in done.seqs]}
    said = cast("dict[str, object]", sent).get("loop") if isinstance(sent, dict) else None
    if said is None:
        return meta
    loop = _Loop.model_validate(said)
    compactor = await state.compactor()
    await compactor.begin(info)
    newest = max(done.seqs, default=0) - done.new
    if loop.offload_over_tokens is not None and done.new:
        await compactor.offload_since(info, newest, loop.offload_over_tokens)
    if loop.microcompact:
        await compactor.shorten_stale(info)
    fill, pressure = await compactor.pressure(info)
    line = answers.budget_line(fill, pressure, by_agent=state.by_agent)
    meta |= {"fill_percent": fill.percent, "budget": line}
    meta["view"] = await compactor.view_version(info)
    if meta["view"] != loop.view:
        meta |= await directive_of(state, info, None)
    return meta


async def _relieve(state: State, info: SessionInfo) -> list[str]:
    """Have a window that is too full compacted beside the calls, and say so."""
    compactor = await state.compactor()
    fill = await compactor.fill_to_relieve(info)
    if fill is None:
        return []
    if not state.relieving.is_running(info):
        if compactor.is_compacting(info):
            return [answers.compacting_elsewhere_line(fill)]
        if not state.relieving.is_wanted(info, fill):
            return []
        work = worker_client.relieve(state.settings, compactor, info)
        state.relieving.begin(info, fill, work)
    return [answers.compacting_line(fill)]

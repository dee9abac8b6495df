"""The tools that change a window, as the server offers them: with a directive for programs."""

from __future__ import annotations

import time

from mcp.types import CallToolResult, InputRequiredResult

from mcp_compaction.model import Compaction
from mcp_compaction.server.tools.calling import HostMustAnswerError, ServerPlace, takes
from mcp_compaction.server.tools.replying import directive_of
from mcp_compaction.tools import compressing
from mcp_compaction.tools.arguments import CompressContext, RestoreContext
from mcp_compaction.tools.directive import receipt_meta


@takes(CompressContext)
async def compress_context(
    place: ServerPlace, asked: CompressContext
) -> CallToolResult | InputRequiredResult:
    """Answer a call of the tool: the receipt, and what a program is to show from now on."""
    began = time.monotonic()
    try:
        answer = await compressing.compress_context(place, asked)
    except HostMustAnswerError as needed:
        return needed.question
    if answer.info is None or answer.done is None:
        return await place.reply(answer)
    meta = receipt_meta(answer.done, "agent", time.monotonic() - began)
    if isinstance(answer.done, Compaction):
        place.state.mod.note_change(answer.info)
        if answer.done.receipt.kind == "compress":
            meta |= await directive_of(
                place.state, answer.info, answer.done, asked.preserve_markers
            )
    return await place.reply(answer, meta)


@takes(RestoreContext)
async def restore_context(place: ServerPlace, asked: RestoreContext) -> CallToolResult:
    """Answer a call of the tool: the view before a compaction."""
    answer = await compressing.restore_context(place, asked)
    if answer.info is None or not isinstance(answer.done, Compaction):
        return await place.reply(answer)
    place.state.mod.note_change(answer.info)
    return await place.reply(answer, await directive_of(place.state, answer.info, answer.done))

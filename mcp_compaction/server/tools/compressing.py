"""The tools that change a window: compress_context and its undo, restore_context."""

from __future__ import annotations

from typing import Annotated

from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, InputRequiredResult
from pydantic import Field

from mcp_compaction.compactor import Prepared, Progress
from mcp_compaction.compactor.compressing import check_ask
from mcp_compaction.core.compaction.receipt.text import outcome_text
from mcp_compaction.core.text.refs import parse_span
from mcp_compaction.model import Ask, Compaction, NothingToDo, Outcome, SessionInfo, Strategy
from mcp_compaction.server import worker_client
from mcp_compaction.server.hooked_answers import ALREADY_PREPARED, prepared_text
from mcp_compaction.server.sampling import compactor_asking_host
from mcp_compaction.server.state import errors_as, state_of
from mcp_compaction.server.tools.replying import Ctx, Name, directive_of, reply


@errors_as(ToolError)
async def compress_context(
    ctx: Ctx,
    reason: Annotated[str, Field(description="Why now, e.g. the finished task.")],
    digest: Annotated[
        str | None,
        Field(
            description="Your own summary: lines under PROGRESS, DECISIONS, FACTS, OPEN, ERRORS, "
            "CONSTRAINTS, ARTIFACTS, NEXT. Needed where the host records nothing."
        ),
    ] = None,
    focus: Annotated[str | None, Field(description="What matters most next.")] = None,
    strategy: Annotated[
        Strategy, Field(description="archive: refs and index only, no prose.")
    ] = "summarize",
    preserve_markers: Annotated[bool, Field(description="Keep stated doubts.")] = True,
    span: Annotated[str | None, Field(description='Only these, e.g. "m12..m40".')] = None,
    target_percent: Annotated[float | None, Field(description="Fill to reach, below 100.")] = None,
    dry_run: Annotated[bool, Field(description="Only say what would happen.")] = False,
    force: Annotated[bool, Field(description="Even if it hardly pays.")] = False,
    session: Name = None,
) -> CallToolResult | InputRequiredResult:
    """Shrink the context: old steps become a checked digest; the archive keeps everything.

    Good at a task boundary or before a large input. Returns a receipt with undo.
    """
    state = state_of(ctx)
    ask = Ask(
        reason=reason,
        digest=digest,
        focus=focus,
        strategy=strategy,
        preserve_markers=preserve_markers,
        span=parse_span(span) if span is not None else None,
        target_percent=target_percent,
        dry_run=dry_run,
        force=force,
    )
    check_ask(ask)
    if digest is not None:
        state.check_records()
    makes = digest is not None and not dry_run
    info, _ = await state.session(ctx, session, "make" if makes else "look")
    is_plain_wish = digest is None and span is None and target_percent is None and not dry_run
    if is_plain_wish and state.events.has_heard_of(info.host_session):
        return await _prepare(ctx, info, session)
    outcome = await _run(ctx, info, ask)
    if isinstance(outcome, InputRequiredResult):
        return outcome
    text = outcome_text(outcome, state.mode(ctx, info), info.name)
    meta = None
    if isinstance(outcome, Compaction) and outcome.receipt.kind == "compress":
        meta = await directive_of(state, info, outcome, preserve_markers)
    return await reply(ctx, info, text, meta, asked=session)


async def _prepare(ctx: Ctx, info: SessionInfo, asked: str | None) -> CallToolResult:
    """Prepare for the host's own compaction, after which its hooks put back what is prepared."""
    compactor = await state_of(ctx).compactor()
    done = await compactor.prepare(info)
    if isinstance(done, Prepared):
        pins = [pin for pin in await compactor.pins(info) if pin.kind != "note"]
        text = prepared_text(done, len(pins))
    elif isinstance(done, NothingToDo) and done.reason == "already_prepared":
        text = ALREADY_PREPARED
    else:
        text = outcome_text(done, "hooks", info.name)
    return await reply(ctx, info, text, asked=asked)


async def _run(ctx: Ctx, info: SessionInfo, ask: Ask) -> Outcome | InputRequiredResult:
    """Compact once what already runs has ended; the host may have to answer a question first."""
    state = state_of(ctx)
    compactor = await state.compactor()
    asking = await compactor_asking_host(ctx, state.settings, compactor, info, ask)
    if isinstance(asking, InputRequiredResult):
        return asking
    report = _progress_of(ctx)
    if state.relieving.is_running(info):
        await report("waiting for the compaction that is under way")
        await state.relieving.wait(info)
    if asking is compactor:
        return await worker_client.compress(state.settings, compactor, info, ask, report)
    return await asking.compress(info, ask, report)


def _progress_of(ctx: Ctx) -> Progress:
    step = 0

    async def report(what: str) -> None:
        nonlocal step
        step += 1
        await ctx.report_progress(step, None, what)

    return report


@errors_as(ToolError)
async def restore_context(
    ctx: Ctx,
    ref: Annotated[str, Field(description="The compaction, e.g. c4.")],
    force: Annotated[bool, Field(description="Even over the window.")] = False,
    session: Name = None,
) -> CallToolResult:
    """Undo a compaction and all after it; what was said since stays."""
    state = state_of(ctx)
    compactor = await state.compactor()
    info, _ = await state.session(ctx, session, "look")
    outcome = await compactor.restore(info, ref, force)
    text = outcome_text(outcome, state.mode(ctx, info), info.name)
    if not isinstance(outcome, Compaction):
        return await reply(ctx, info, text, asked=session)
    meta = await directive_of(state, info, outcome)
    return await reply(ctx, info, text, meta, asked=session)

"""The tools that change a window: compress_context and its undo, restore_context."""

from __future__ import annotations

import time

from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, InputRequiredResult

from mcp_compaction.compactor import Prepared, Progress
from mcp_compaction.compactor.asking import make_ask
from mcp_compaction.core.compaction.receipt.text import outcome_text
from mcp_compaction.model import Ask, Compaction, NothingToDo, Outcome, SessionInfo
from mcp_compaction.server.sampling import compactor_asking_host
from mcp_compaction.server.state import errors_as, state_of
from mcp_compaction.server.tools.replying import Ctx, directive_of, reply
from mcp_compaction.tools import arguments
from mcp_compaction.tools.directive import receipt_meta
from mcp_compaction.tools.hooked_answers import ALREADY_PREPARED, prepared_text
from mcp_compaction.worker import client as worker


@errors_as(ToolError)
async def compress_context(
    ctx: Ctx,
    reason: arguments.Reason,
    digest: arguments.OwnDigest = None,
    focus: arguments.Focus = None,
    strategy: arguments.How = "summarize",
    preserve_markers: arguments.PreserveMarkers = True,
    span: arguments.Span = None,
    target_percent: arguments.TargetPercent = None,
    dry_run: arguments.DryRun = False,
    force: arguments.Force = False,
    session: arguments.Session = None,
) -> CallToolResult | InputRequiredResult:
    """Answer a call of the tool: compact, and give the receipt."""
    state = state_of(ctx)
    ask = make_ask(
        reason=reason,
        digest=digest,
        focus=focus,
        strategy=strategy,
        preserve_markers=preserve_markers,
        span=span,
        target_percent=target_percent,
        dry_run=dry_run,
        force=force,
    )
    if digest is not None:
        state.check_records()
    makes = digest is not None and not dry_run
    info, _ = await state.session(ctx, session, "make" if makes else "look")
    is_plain_wish = digest is None and span is None and target_percent is None and not dry_run
    is_hooked = state.events.has_heard_of(info.host_session)
    if is_plain_wish and is_hooked and not state.mod.is_at_work(info.host_session):
        return await _prepare(ctx, info, session)
    began = time.monotonic()
    outcome = await run_compaction(ctx, info, ask)
    if isinstance(outcome, InputRequiredResult):
        return outcome
    text = outcome_text(outcome, state.mode(ctx, info), info.name)
    meta = receipt_meta(outcome, "agent", time.monotonic() - began)
    if isinstance(outcome, Compaction):
        state.mod.note_change(info)
        held = await (await state.compactor()).checks.held(info)
        text = "\n".join([text, *map(str, held)])
    if isinstance(outcome, Compaction) and outcome.receipt.kind == "compress":
        meta |= await directive_of(state, info, outcome, preserve_markers)
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


async def run_compaction(ctx: Ctx, info: SessionInfo, ask: Ask) -> Outcome | InputRequiredResult:
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
        return await worker.compress(state.settings, compactor, info, ask, report)
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
    ref: arguments.CompactionRef,
    force: arguments.ForceRestore = False,
    session: arguments.Session = None,
) -> CallToolResult:
    """Answer a call of the tool: show the view before a compaction."""
    state = state_of(ctx)
    compactor = await state.compactor()
    info, _ = await state.session(ctx, session, "look")
    outcome = await compactor.restore(info, ref, force)
    text = outcome_text(outcome, state.mode(ctx, info), info.name)
    if not isinstance(outcome, Compaction):
        return await reply(ctx, info, text, asked=session)
    state.mod.note_change(info)
    meta = await directive_of(state, info, outcome)
    return await reply(ctx, info, text, meta, asked=session)

"""Parts that the tools share: the lines around an answer, and the directive for a program."""

from __future__ import annotations

from typing import Any

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult, TextContent

from mcp_compaction.compactor import Compactor
from mcp_compaction.core.log.pinned import pinned_block
from mcp_compaction.core.wording import kilo
from mcp_compaction.formats.thinking import may_be_bound
from mcp_compaction.model import Compaction, JsonObject, Mode, Session, SessionInfo
from mcp_compaction.server.state import State, state_of
from mcp_compaction.tools import answers
from mcp_compaction.tools.directive import (
    directive,
    receipt_meta,
    without_thinking_of,
    words_of_layout,
)
from mcp_compaction.tools.hooked_answers import HookedChat
from mcp_compaction.tools.system_answers import relief_text

Ctx = Context[State]


async def reply(
    ctx: Ctx,
    info: SessionInfo | None,
    text: str,
    meta: dict[str, Any] | None = None,
    *,
    asked: str | None,
    shows_pins: bool = False,
    facts: dict[str, Any] | None = None,
) -> CallToolResult:
    """A text with what belongs around it; its last line the fill where that is known.

    What came of relieving the session meanwhile is told in the first answer after its end.

    `asked`: the session as it was named. `shows_pins`: where the window is not the caller's own,
    the pins come first. `facts`: for a page beside the text.
    """
    state = state_of(ctx)
    compactor = await state.compactor()
    lines: list[str] = []
    if shows_pins and (info is None or state.mode(ctx, info) != "own"):
        lines += await _pins_first(state, compactor, info)
    lines.append(text)
    relief = state.relieving.take(info) if info is not None else None
    if info is not None and relief is not None:
        lines.append(relief_text(relief, info.name, by_agent=state.by_agent))
        if isinstance(relief, Compaction) and "compaction_directive" not in (meta or {}):
            told = receipt_meta(relief, "auto") | await directive_of(state, info, relief)
            meta = (meta or {}) | told
    lines += answers.new_pin_lines(await state.take_new_pins(info), "\n".join(lines))
    is_guessed = asked is None and info is not None and not state.host(ctx).has_session
    if is_guessed and info is not None and state.told_session != info.id:
        lines.append(answers.only_session_line(info))
        state.told_session = info.id
    if info is not None:
        lines += await _fill_last(state, compactor, info, state.mode(ctx, info))
    whole = {**(meta or {}), **(facts or {})} or None
    return CallToolResult(content=[TextContent(type="text", text="\n".join(lines))], _meta=whole)


async def _fill_last(
    state: State, compactor: Compactor, info: SessionInfo, mode: Mode
) -> list[str]:
    """The line that tells the fill: of a window of ours, or as the host reports it."""
    fill = await compactor.fill_shown(info)
    if fill is None:
        return []
    if mode == "own":
        return [answers.fill_line(fill)]
    hooked = await hooked_chat(state, compactor, info, fill.tokens)
    is_told = hooked is not None and hooked.is_fill_reported
    return [hooked.describe_fill(fill.tokens)] if hooked is not None and is_told else []


async def hooked_chat(
    state: State, compactor: Compactor, info: SessionInfo, tokens: int
) -> HookedChat | None:
    """What is known of a chat of which its host tells; None where no host does."""
    is_reported = (await compactor.load_window(info)).calibration.reported > 0
    served = state.mod.limit_of(info.host_session)
    if served is not None:
        where = f"at {kilo(served)} the host compacts on its own"
        return HookedChat(info.host, is_reported, served, where)
    if not state.events.has_heard_of(info.host_session):
        return None
    limit = await state.events.find_limit(compactor, info, tokens)
    if limit is None:
        return HookedChat(info.host, is_reported, None)
    return HookedChat(info.host, is_reported, limit.tokens, limit.describe())


async def _pins_first(state: State, compactor: Compactor, info: SessionInfo | None) -> list[str]:
    if info is None or info.project != state.project:
        pins = await compactor.project_pins(state.project)
    else:
        pins = await compactor.pins(info)
    block = pinned_block(pin for pin in pins if pin.kind != "note")
    return [block] if block else []


async def reply_without_session(ctx: Ctx, text: str) -> CallToolResult:
    """A text where no session is meant yet, with what the project's earlier ones left."""
    state = state_of(ctx)
    compactor = await state.compactor()
    left = await compactor.project_pins(state.project)
    told = f"{pinned_block(left)}\n{text}" if left else text
    news = answers.new_pin_lines(await state.take_new_pins(None), told)
    return CallToolResult(content=[TextContent(type="text", text="\n".join([told, *news]))])


async def directive_of(
    state: State, info: SessionInfo, compaction: Compaction | None, preserve_markers: bool = True
) -> JsonObject:
    """The directive for a program, with all that was said since a compaction or another change."""
    compactor = await state.compactor()
    now = await compactor.load(info)
    terms = compactor.index_terms(now)
    receipt = compaction.receipt if compaction is not None else None
    told = await state.threads.run(directive, now, receipt, preserve_markers, *terms)
    if compaction is None or not has_bound_thinking(now):  # a kit looks after it by itself
        return told
    had = await compactor.load_as_before(info, now.view)
    before = await state.threads.run(directive, had, None, preserve_markers, *terms)
    words = words_of_layout(told), words_of_layout(before)
    return without_thinking_of(told, await compactor.list_thinking_left_out(now, *words))


def has_bound_thinking(session: Session) -> bool:
    """Whether a session's model may have bound some of the thinking that its view shows."""
    return may_be_bound(session.info.traits.model or "", "anthropic") and any(
        message.role == "assistant" and "thinking" in message.raw for message in session.messages
    )

"""The tools that pin and release; where only the user may decide, the user is asked."""

from __future__ import annotations

from typing import Annotated

import anyio
from mcp.server.mcpserver import AcceptedElicitation, Elicit, ElicitationResult, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult
from pydantic import BaseModel, Field

from mcp_compaction.compactor import PinWish
from mcp_compaction.core.log.pinned import shown_text
from mcp_compaction.core.pins import check_question
from mcp_compaction.errors import CompactionError
from mcp_compaction.model import Author, PinKind, PinScope
from mcp_compaction.server.state import errors_as, state_of
from mcp_compaction.server.tools.replying import Ctx, reply, session_if_any
from mcp_compaction.tools import answers, arguments
from mcp_compaction.tools.reading import parse_time

_ENTRY = "CLAUDE_CODE_ENTRYPOINT"


class Sure(BaseModel):
    """A user's yes or no."""

    sure: bool = Field(default=True, description="Really do this?")  # to accept is to agree


class Unanswered(Sure):
    """The answer of a user who was asked and said nothing in time."""

    sure: bool = False


class Unasked(Sure):
    """What stands for an answer where there was no question."""

    sure: bool = False


async def _ask(ctx: Ctx, question: str) -> Elicit[Sure] | Sure:
    """Ask the user; where this process waits for the answer itself, not for ever."""
    if not ctx.session.can_send_request:
        return Elicit(question, Sure)  # the host asks, and calls again with the answer
    with anyio.move_on_after(state_of(ctx).settings.ask_timeout_seconds):
        try:
            answer = await ctx.elicit(question, Sure)
        except ValueError:  # what came is no answer to this question
            return Sure(sure=False)
        return answer.data if isinstance(answer, AcceptedElicitation) else Sure(sure=False)
    return Unanswered()


async def _ask_for_pin(
    ctx: Ctx,
    text: str,
    kind: PinKind,
    scope: PinScope | None,
    supersedes: str | None,
    expires: str | None,
    session: str | None,
) -> Elicit[Sure] | Sure:
    """Asks only where the answer matters: to bind other sessions, or to change a user's pin."""
    if not _can_ask(ctx):
        return Sure(sure=False)
    state = state_of(ctx)
    try:
        wish = PinWish(text, "agent", kind, scope, supersedes, parse_time(expires))
        info = await session_if_any(ctx, session)
        compactor = await state.compactor()
        if info is not None:
            await state.hear_words(info, text)
        question = await compactor.pin_question(state.project, info, wish)
    except CompactionError:  # the tool itself will say what is wrong
        return Sure(sure=False)
    return await _ask(ctx, question.text) if question is not None else Sure(sure=False)


async def _ask_for_check(
    ctx: Ctx,
    allowed: Annotated[ElicitationResult[Sure], Resolve(_ask_for_pin)],
    text: str,
    kind: PinKind,
    scope: PinScope | None,
    supersedes: str | None,
    expires: str | None,
    session: str | None,
) -> Elicit[Sure] | Sure:
    """Asks whether the check offered for a rule shall hold calls; once for each rule, and not
    where the pin itself was refused."""
    state = state_of(ctx)
    if not state.settings.checks_dialog or not _can_ask(ctx) or kind != "constraint":
        return Unasked()  # a dialog amid a turn stops the agent's work
    try:
        wish = PinWish(text, _author_of(allowed), kind, scope, supersedes, parse_time(expires))
        info = await session_if_any(ctx, session)
        compactor = await state.compactor()
        is_refused = await compactor.pin_question(state.project, info, wish) is not None
        is_known = info is not None and text in {pin.text for pin in await compactor.pins(info)}
        if is_refused or is_known:
            return Unasked()
        question = await compactor.checks.question_for(info, state.project, text)
    except CompactionError:  # the tool itself will say what is wrong
        return Unasked()
    return await _ask(ctx, question) if question else Unasked()


@errors_as(ToolError)
async def pin_constraint(
    ctx: Ctx,
    allowed: Annotated[ElicitationResult[Sure], Resolve(_ask_for_pin)],
    checked: Annotated[ElicitationResult[Sure], Resolve(_ask_for_check)],
    text: arguments.PinText,
    kind: arguments.Kind = "constraint",
    scope: arguments.Reach = None,
    supersedes: arguments.Supersedes = None,
    expires: arguments.Expires = None,
    session: arguments.Session = None,
) -> CallToolResult:
    """Answer a call of the tool: pin, and say where the pin will be seen."""
    state = state_of(ctx)
    state.check_records()
    by, until = _author_of(allowed), parse_time(expires)
    compactor = await state.compactor()
    wider = scope if _is_unanswered(allowed) else None
    scope = None if wider else scope
    wish = PinWish(text, by, kind, scope, supersedes, until)
    if by == "agent" and await session_if_any(ctx, session) is None:
        with state.asking_user(None):  # what is refused begins no session
            check_question(await compactor.pin_question(state.project, None, wish))
    info, is_new = await state.session(ctx, session, "make")
    if by == "agent":
        await state.hear_words(info, text)
    with state.asking_user(info):
        done = await compactor.pin(
            info,
            text,
            by=by,
            kind=kind,
            scope=scope,
            supersedes=supersedes,
            expires=until,
            channel="dialog" if by == "user" else None,
        )
    state.own_pins.add(done.pin.number)
    said = answers.pin_text(done, state.mode(ctx, info), info.traits.pins_put_back)
    if wider is not None:
        told = answers.unanswered_line(done.pin, wider)
        said = f"{said}\n{state.complete_commands(told, info)}"
    if _author_of(checked) == "user":
        checks = await compactor.checks.accept_offer(info, done.pin)
        said = f"{said}\nits check, which the user took: {'; '.join(map(str, checks))}"
    elif _is_open(checked) and (offered := await compactor.checks.describe_offer(info, done.pin)):
        said = f"{said}\n{state.complete_commands(offered, info)}"
    if is_new:
        said = f"{said}\n{await state.describe_new_session(ctx, info)}"
    return await reply(ctx, info, said, asked=info.name if is_new else session)


async def _ask_for_release(ctx: Ctx, ref: str, session: str | None) -> Elicit[Sure] | Sure:
    info = await session_if_any(ctx, session) if _can_ask(ctx) else None
    if info is None:
        return Sure(sure=False)
    compactor = await state_of(ctx).compactor()
    pin = next((pin for pin in await compactor.pins(info) if pin.ref == ref), None)
    if pin is None or await compactor.owner_of(info, pin) != "user":
        return Sure(sure=False)
    return await _ask(ctx, f"The agent wants to release your pin {pin.ref}: {shown_text(pin.text)}")


@errors_as(ToolError)
async def unpin_constraint(
    ctx: Ctx,
    allowed: Annotated[ElicitationResult[Sure], Resolve(_ask_for_release)],
    ref: arguments.PinRef,
    session: arguments.Session = None,
) -> CallToolResult:
    """Answer a call of the tool: release a pin, where the caller may."""
    state = state_of(ctx)
    compactor = await state.compactor()
    info, _ = await state.session(ctx, session, "look")
    with state.asking_user(info):
        pin = await compactor.unpin(info, ref, by=_author_of(allowed))
    return await reply(ctx, info, answers.release_text(pin), asked=session)


def _can_ask(ctx: Ctx) -> bool:
    """Whether a person can be asked; a program that drives Claude Code would wait for ever."""
    if state_of(ctx).environ.get(_ENTRY, "").startswith("sdk"):
        return False
    capabilities = ctx.client_capabilities
    return capabilities is not None and capabilities.elicitation is not None


def _is_unanswered(answer: ElicitationResult[Sure]) -> bool:
    return isinstance(answer, AcceptedElicitation) and isinstance(answer.data, Unanswered)


def _is_open(answer: ElicitationResult[Sure]) -> bool:
    """Whether the user has yet to decide: nobody asked, or nobody answered."""
    return isinstance(answer, AcceptedElicitation) and isinstance(answer.data, Unasked | Unanswered)


def _author_of(answer: ElicitationResult[Sure]) -> Author:
    said_yes = isinstance(answer, AcceptedElicitation) and answer.data.sure
    return "user" if said_yes else "agent"

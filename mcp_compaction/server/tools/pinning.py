"""The tools that pin and release, as the server offers them: the user is asked by a dialog."""

from __future__ import annotations

from typing import Annotated

import anyio
from mcp.server.mcpserver import AcceptedElicitation, Elicit, ElicitationResult, Resolve
from mcp.types import CallToolResult
from pydantic import BaseModel, Field

from mcp_compaction.errors import CompactionError
from mcp_compaction.server.state import state_of
from mcp_compaction.server.tools.calling import ServerPlace, takes
from mcp_compaction.server.tools.replying import Ctx
from mcp_compaction.tools import pinning
from mcp_compaction.tools.arguments import PinConstraint, UnpinConstraint

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


async def _ask(ctx: Ctx, question: str | None) -> Elicit[Sure] | Sure:
    """Ask the user; where this process waits for the answer itself, not for ever."""
    if question is None:
        return Unasked()
    if not ctx.session.can_send_request:
        return Elicit(question, Sure)  # the host asks, and calls again with the answer
    with anyio.move_on_after(state_of(ctx).settings.ask_timeout_seconds):
        try:
            answer = await ctx.elicit(question, Sure)
        except ValueError:  # what came is no answer to this question
            return Sure(sure=False)
        return answer.data if isinstance(answer, AcceptedElicitation) else Sure(sure=False)
    return Unanswered()


@takes(PinConstraint)
async def _ask_for_pin(place: ServerPlace, asked: PinConstraint) -> Elicit[Sure] | Sure:
    """Asks only where the answer matters: to bind other sessions, or to change a user's pin."""
    if not _can_ask(place.ctx):
        return Unasked()
    try:
        question = await pinning.question_for_pin(place, asked)
    except CompactionError:  # the tool itself will say what is wrong
        return Unasked()
    return await _ask(place.ctx, question)


@takes(PinConstraint)
async def _ask_for_check(
    place: ServerPlace,
    asked: PinConstraint,
    allowed: Annotated[ElicitationResult[Sure], Resolve(_ask_for_pin)],
) -> Elicit[Sure] | Sure:
    """Asks whether the check offered for a rule shall hold calls."""
    if not _can_ask(place.ctx):
        return Unasked()
    try:
        question = await pinning.question_for_check(place, asked, _word_of(allowed))
    except CompactionError:  # the tool itself will say what is wrong
        return Unasked()
    return await _ask(place.ctx, question)


@takes(PinConstraint)
async def pin_constraint(
    place: ServerPlace,
    asked: PinConstraint,
    allowed: Annotated[ElicitationResult[Sure], Resolve(_ask_for_pin)],
    checked: Annotated[ElicitationResult[Sure], Resolve(_ask_for_check)],
) -> CallToolResult:
    """Answer a call of the tool; a new session is named, with what it has from earlier ones."""
    answer = await pinning.pin_constraint(place, asked, _word_of(allowed), _word_of(checked))
    place.state.own_pins.add(answer.done.pin.number)
    if answer.is_new and answer.info is not None:
        named = await place.state.describe_new_session(place.ctx, answer.info)
        answer = answer._replace(text=f"{answer.text}\n{named}")
    return await place.reply(answer)


@takes(UnpinConstraint)
async def _ask_for_release(place: ServerPlace, asked: UnpinConstraint) -> Elicit[Sure] | Sure:
    """Asks before an agent releases a user's pin."""
    if not _can_ask(place.ctx):
        return Unasked()
    return await _ask(place.ctx, await pinning.question_for_release(place, asked))


@takes(UnpinConstraint)
async def unpin_constraint(
    place: ServerPlace,
    asked: UnpinConstraint,
    allowed: Annotated[ElicitationResult[Sure], Resolve(_ask_for_release)],
) -> CallToolResult:
    """Answer a call of the tool: release a pin, where the caller may."""
    return await place.reply(await pinning.unpin_constraint(place, asked, _word_of(allowed)))


def _can_ask(ctx: Ctx) -> bool:
    """Whether a person can be asked; a program that drives Claude Code would wait for ever."""
    if state_of(ctx).environ.get(_ENTRY, "").startswith("sdk"):
        return False
    capabilities = ctx.client_capabilities
    return capabilities is not None and capabilities.elicitation is not None


def _word_of(answer: ElicitationResult[Sure]) -> pinning.UserWord:
    """The user's word in an answer to a dialog."""
    match answer:
        case AcceptedElicitation(data=Unanswered()):
            return "unanswered"
        case AcceptedElicitation(data=Unasked()):
            return "unasked"
        case AcceptedElicitation(data=Sure(sure=True)):
            return "yes"
        case _:
            return "no"

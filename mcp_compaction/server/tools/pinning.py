"""The tools that pin and release, as the server offers them: the user is asked by a dialog."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated

import anyio
from mcp.server.mcpserver import AcceptedElicitation, Elicit, ElicitationResult, Resolve
from mcp.types import CallToolResult
from pydantic import BaseModel, Field

from mcp_compaction.errors import CompactionError
from mcp_compaction.hosts.known import is_driven
from mcp_compaction.server.tools.calling import ServerPlace, takes
from mcp_compaction.server.tools.replying import reply
from mcp_compaction.tools import pinning
from mcp_compaction.tools.arguments import PinConstraint, UnpinConstraint


class Sure(BaseModel):
    """A user's yes or no."""

    sure: bool = Field(default=True, description="Really do this?")  # to accept is to agree


class Unanswered(Sure):
    """The answer of a user who was asked and said nothing in time."""

    sure: bool = False


class Unasked(Sure):
    """What stands for an answer where there was no question."""

    sure: bool = False


Answered = ElicitationResult[Sure]


async def _ask(
    place: ServerPlace, find_question: Callable[[], Awaitable[str | None]]
) -> Elicit[Sure] | Sure:
    """Ask the user where there is a question; who waits for the answer here, not for ever."""
    ctx = place.ctx
    try:
        question = await find_question() if _can_ask(place) else None
    except CompactionError:  # the tool itself will say what is wrong
        question = None
    if question is None:
        return Unasked()
    if not ctx.session.can_send_request:
        return Elicit(question, Sure)  # the host asks, and calls again with the answer
    with anyio.move_on_after(place.settings.ask_timeout_seconds):
        try:
            answer = await ctx.elicit(question, Sure)
        except ValueError:  # what came is no answer to this question
            return Sure(sure=False)
        return answer.data if isinstance(answer, AcceptedElicitation) else Sure(sure=False)
    return Unanswered()


def _can_ask(place: ServerPlace) -> bool:
    """Whether a person can be asked; a program that drives the host would wait for ever."""
    if is_driven(place.environ):
        return False
    capabilities = place.ctx.client_capabilities
    return capabilities is not None and capabilities.elicitation is not None


def _word_of(answer: Answered) -> pinning.UserWord:
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


@takes(PinConstraint)
async def _ask_for_pin(place: ServerPlace, asked: PinConstraint) -> Elicit[Sure] | Sure:
    return await _ask(place, partial(pinning.question_for_pin, place, asked))


@takes(PinConstraint)
async def _ask_for_check(
    place: ServerPlace, asked: PinConstraint, allowed: Annotated[Answered, Resolve(_ask_for_pin)]
) -> Elicit[Sure] | Sure:
    return await _ask(place, partial(pinning.question_for_check, place, asked, _word_of(allowed)))


@takes(PinConstraint)
async def pin_constraint(
    place: ServerPlace,
    asked: PinConstraint,
    allowed: Annotated[Answered, Resolve(_ask_for_pin)],
    checked: Annotated[Answered, Resolve(_ask_for_check)],
) -> CallToolResult:
    """Answer a call of the tool: pin, and say where the pin will be seen."""
    answer = await pinning.pin_constraint(place, asked, _word_of(allowed), _word_of(checked))
    place.state.own_pins.add(answer.done.pin.number)
    return await reply(place, answer)


@takes(UnpinConstraint)
async def _ask_for_release(place: ServerPlace, asked: UnpinConstraint) -> Elicit[Sure] | Sure:
    return await _ask(place, partial(pinning.question_for_release, place, asked))


@takes(UnpinConstraint)
async def unpin_constraint(
    place: ServerPlace,
    asked: UnpinConstraint,
    allowed: Annotated[Answered, Resolve(_ask_for_release)],
) -> CallToolResult:
    """Answer a call of the tool: release a pin, where the caller may."""
    return await reply(place, await pinning.unpin_constraint(place, asked, _word_of(allowed)))

"""The seven tools and the one for hooks, as they are published; `tools/` has their bodies. For a
pin the user is asked here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache, partial
from typing import Annotated, Any, NamedTuple

import anyio
from mcp.server.mcpserver import AcceptedElicitation, Elicit, ElicitationResult, Resolve
from mcp.server.mcpserver.tools import Tool as PublishedTool
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import BaseModel, Field

from mcp_compaction.errors import CompactionError
from mcp_compaction.hosts.known import is_driven
from mcp_compaction.server.resources import URI
from mcp_compaction.server.tools.recording import ToldByHook, host_event, record_messages
from mcp_compaction.server.tools.replying import Body, ServerPlace, answer_call, reply, takes
from mcp_compaction.tools import compressing, pinning, recalling
from mcp_compaction.tools.answers import SYSTEM_COMPACTS
from mcp_compaction.tools.arguments import (
    Arguments,
    CompressContext,
    ContextStats,
    PinConstraint,
    RecallArchived,
    RecordMessages,
    RestoreContext,
    UnpinConstraint,
    description_of,
    name_of,
)


class Sure(BaseModel):
    """A user's yes or no."""

    sure: bool = Field(default=True, description="Really do this?")  # to accept is to agree


class Unanswered(Sure):
    """The answer of a user who was asked and said nothing in time."""

    sure: bool = False


ASK_SECONDS = 45  # for a user who is asked; then the agent decides


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
    with anyio.move_on_after(ASK_SECONDS):
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
async def pin_constraint(
    place: ServerPlace,
    asked: PinConstraint,
    allowed: Annotated[Answered, Resolve(_ask_for_pin)],
) -> CallToolResult:
    """Answer a call of the tool: pin, and say where the pin will be seen."""
    answer = await pinning.pin_constraint(place, asked, _word_of(allowed))
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


class Tool(NamedTuple):
    """A tool as it is published."""

    function: Callable[..., Awaitable[Any]]
    described_by: type[Arguments]
    title: str
    is_core: bool = False
    is_read_only: bool = False
    is_destructive: bool = False
    is_idempotent: bool = False
    is_listed: bool = True  # False: only hooks of a host call it, by its name

    @property
    def name(self) -> str:
        """The name by which a client calls it."""
        return self.function.__name__

    @property
    def arguments(self) -> frozenset[str]:
        """The names of the arguments that a caller may pass."""
        return frozenset(publish(self).parameters["properties"])


def _serve(model: type[Arguments], body: Body) -> Callable[..., Awaitable[Any]]:
    """The function of a tool of which the server adds nothing to what its body does."""

    async def call(place: ServerPlace, asked: Arguments) -> CallToolResult:
        return await answer_call(place, body, asked)

    call.__name__ = name_of(model)
    return takes(model)(call)


_ALL = (
    Tool(
        _serve(CompressContext, compressing.compress_context),
        CompressContext,
        "Compress context",
        is_core=True,
    ),
    Tool(pin_constraint, PinConstraint, "Pin a constraint", is_core=True),
    Tool(
        _serve(RecallArchived, recalling.recall_archived),
        RecallArchived,
        "Recall from the archive",
        is_core=True,
        is_read_only=True,
    ),
    Tool(
        _serve(ContextStats, compressing.context_stats),
        ContextStats,
        "Context statistics",
        is_core=True,
        is_read_only=True,
    ),
    Tool(unpin_constraint, UnpinConstraint, "Release a pin", is_destructive=True),
    Tool(_serve(RestoreContext, compressing.restore_context), RestoreContext, "Undo a compaction"),
    Tool(record_messages, RecordMessages, "Record messages", is_idempotent=True),
    Tool(host_event, ToldByHook, "Host event", is_core=True, is_listed=False),
)


def list_tools(only_core: bool = False, by_agent: bool = True) -> tuple[Tool, ...]:
    """The tools: the four core ones, or all seven; compress_context where the agent decides."""
    tools = _ALL if by_agent else tuple(t for t in _ALL if t.described_by is not CompressContext)
    return tuple(tool for tool in tools if tool.is_core or not only_core)


def list_withheld(by_agent: bool) -> dict[str, str]:
    """The tools that are not offered, each with the answer to one who calls it all the same."""
    return {} if by_agent else {name_of(CompressContext): SYSTEM_COMPACTS}


def _meta_of(tool: Tool) -> dict[str, Any] | None:
    """What hosts are told of a tool beside its description."""
    meta: dict[str, Any] = {"anthropic/alwaysLoad": True} if tool.is_core and tool.is_listed else {}
    if tool.described_by is ContextStats:
        meta["ui"] = {"resourceUri": URI}
    return meta or None


@cache  # its schema takes a while, and is the same for every server of a process
def publish(tool: Tool) -> PublishedTool:
    """A tool as the SDK offers it."""
    annotations = ToolAnnotations(
        read_only_hint=tool.is_read_only,
        destructive_hint=tool.is_destructive,
        idempotent_hint=tool.is_idempotent or tool.is_read_only,
        open_world_hint=False,
    )
    return PublishedTool.from_function(
        tool.function,
        title=tool.title,
        description=description_of(tool.described_by),
        annotations=annotations,
        meta=_meta_of(tool),
        structured_output=False,
    )

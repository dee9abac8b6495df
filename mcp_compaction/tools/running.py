"""Runs calls of the tools on a session of the API, without a server in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from mcp_compaction.api.handles import OpenSession
from mcp_compaction.errors import CompactionError, NeedsUser
from mcp_compaction.model import Compaction
from mcp_compaction.tools import arguments, compressing, pinning, recalling
from mcp_compaction.tools.answers import SYSTEM_COMPACTS, fill_line
from mcp_compaction.tools.arguments import (
    Arguments,
    CompressContext,
    complain_of_faults,
    complain_of_unknown,
    name_of,
)
from mcp_compaction.tools.place import CallAnswer, CallPlace


class ToolAnswer(NamedTuple):
    """What a tool answered, and whether the window has to be replaced for it."""

    text: str
    is_error: bool = False
    changes_view: bool = False


_TOOLS: dict[type[Arguments], Callable[[CallPlace, Any], Awaitable[CallAnswer]]] = {
    CompressContext: compressing.compress_context,
    arguments.PinConstraint: pinning.pin_constraint,
    arguments.RecallArchived: recalling.recall_archived,
    arguments.ContextStats: compressing.context_stats,
    arguments.UnpinConstraint: pinning.unpin_constraint,
    arguments.RestoreContext: compressing.restore_context,
}


async def run_tool(session: OpenSession, name: str, given: Mapping[str, Any]) -> ToolAnswer:
    """Answer one call of a tool; whatever was wrong with it is an answer with the next step."""
    place, known = CallPlace(session), {name_of(tool): tool for tool in _TOOLS}
    if name == name_of(CompressContext) and not place.by_agent:
        return ToolAnswer(SYSTEM_COMPACTS, is_error=True)
    tool = known.get(name)
    if tool is None:
        return ToolAnswer(f"no tool {name!r}; there are: {', '.join(known)}.", is_error=True)
    complaint = complain_of_unknown(given, tool.model_fields)
    if complaint is not None:
        return ToolAnswer(complaint, is_error=True)
    try:
        answer = await _TOOLS[tool](place, tool.model_validate(given))
    except ValidationError as error:
        faults = ((str(f["loc"][0]), f["msg"], f["type"]) for f in error.errors())
        return ToolAnswer(complain_of_faults(faults), is_error=True)
    except NeedsUser as error:  # its command is complete
        return ToolAnswer(str(error), is_error=True)
    except CompactionError as error:
        return ToolAnswer(place.complete_commands(str(error), session.info), is_error=True)
    fill, done = (await session.store.workspace.read_window(session.info)).fill_shown, answer.done
    text = answer.text if fill is None else f"{answer.text}\n{fill_line(fill)}"
    changes_view = isinstance(done, Compaction) and done.receipt.kind != "digest"
    return ToolAnswer(text, changes_view=changes_view)


def list_tools(*, by_agent: bool = True) -> tuple[type[Arguments], ...]:
    """The tools for an agent in a loop; compress_context where the agent decides when."""
    return tuple(tool for tool in _TOOLS if by_agent or tool is not CompressContext)

"""Runs calls of the tools on a session of the API, without a server in between."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from mcp_compaction.api.handles import OpenSession, check_records
from mcp_compaction.compactor import Compactor
from mcp_compaction.errors import CompactionError, NeedsUser
from mcp_compaction.model import Compaction, SessionInfo
from mcp_compaction.threads import Threads
from mcp_compaction.tools.answers import fill_line
from mcp_compaction.tools.arguments import (
    Arguments,
    CompressContext,
    ContextStats,
    PinConstraint,
    RecallArchived,
    RestoreContext,
    UnpinConstraint,
    name_of,
)
from mcp_compaction.tools.compressing import compress_context, restore_context
from mcp_compaction.tools.pinning import pin_constraint, unpin_constraint
from mcp_compaction.tools.place import Answer, Place, Purpose
from mcp_compaction.tools.recalling import recall_archived
from mcp_compaction.tools.schemas import complain_of_faults, complain_of_unknown
from mcp_compaction.tools.stats import context_stats
from mcp_compaction.tools.system_answers import SYSTEM_COMPACTS


class ToolAnswer(NamedTuple):
    """What a tool answered, and whether the window has to be replaced for it."""

    text: str
    is_error: bool = False
    changes_view: bool = False


class LoopPlace(Place):
    """The call of a loop in this process, whose session is open."""

    def __init__(self, session: OpenSession) -> None:
        self._session = session
        self.settings, self.project = session.store.settings, session.store.project
        self.environ, self.threads = os.environ, Threads()

    async def compactor(self) -> Compactor:
        """The compactor of the store that is open."""
        return self._session.store.compactor

    async def session(self, purpose: Purpose) -> tuple[SessionInfo, bool]:
        """The session that is open."""
        return self._session.info, False

    def check_records(self) -> None:
        """Refuse to keep what the user asked not to have kept."""
        check_records(self._session.store)

    async def hear_words(self, info: SessionInfo, text: str) -> None:
        """Nothing: the loop has recorded them before it asked its model."""


async def run_tool(session: OpenSession, name: str, given: Mapping[str, Any]) -> ToolAnswer:
    """Answer one call of a tool; whatever was wrong with it is an answer with the next step."""
    place = LoopPlace(session)
    if name == name_of(CompressContext) and not place.by_agent:
        return ToolAnswer(SYSTEM_COMPACTS, is_error=True)
    known = _TOOLS.get(name)
    if known is None:
        return ToolAnswer(f"no tool {name!r}; there are: {', '.join(_TOOLS)}.", is_error=True)
    taken, answer = known
    complaint = complain_of_unknown(given, taken.model_fields)
    if complaint is not None:
        return ToolAnswer(complaint, is_error=True)
    try:
        text, _, done, *_ = await answer(place, taken.model_validate(given))
    except ValidationError as error:
        faults = ((str(f["loc"][0]), f["msg"], f["type"]) for f in error.errors())
        return ToolAnswer(complain_of_faults(faults), is_error=True)
    except NeedsUser as error:  # its command is complete
        return ToolAnswer(str(error), is_error=True)
    except CompactionError as error:
        return ToolAnswer(place.complete_commands(str(error), session.info), is_error=True)
    fill = await session.store.compactor.fill_shown(session.info)
    changes_view = isinstance(done, Compaction) and done.receipt.kind != "digest"
    text = text if fill is None else f"{text}\n{fill_line(fill)}"
    return ToolAnswer(text, changes_view=changes_view)


_TOOLS: dict[str, tuple[type[Arguments], Callable[[Place, Any], Awaitable[Answer]]]] = {
    name_of(arguments): (arguments, answer)
    for arguments, answer in (
        (CompressContext, compress_context),
        (PinConstraint, pin_constraint),
        (RecallArchived, recall_archived),
        (ContextStats, context_stats),
        (UnpinConstraint, unpin_constraint),
        (RestoreContext, restore_context),
    )
}


def list_tools(*, by_agent: bool = True) -> tuple[type[Arguments], ...]:
    """The tools for an agent in a loop; compress_context where the agent decides when."""
    tools = (arguments for arguments, _ in _TOOLS.values())
    return tuple(one for one in tools if by_agent or one is not CompressContext)

"""Runs calls of the tools on a session of the API, without a server in between."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from mcp_compaction.api.handles import OpenSession
from mcp_compaction.core.compaction.receipt.text import outcome_text
from mcp_compaction.core.log.outline import find_boundary_cues, outline_of
from mcp_compaction.errors import CompactionError, InputError
from mcp_compaction.model import Compaction, Outcome
from mcp_compaction.program import complete, typed_command
from mcp_compaction.tools import answers, recall_answers
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
from mcp_compaction.tools.reading import page_size, parse_cursor, parse_time
from mcp_compaction.tools.schemas import complain_of_faults, complain_of_unknown
from mcp_compaction.tools.system_answers import SYSTEM_COMPACTS


class ToolAnswer(NamedTuple):
    """What a tool answered, and whether the window has to be replaced for it."""

    text: str
    is_error: bool = False
    changes_view: bool = False


async def run_tool(session: OpenSession, name: str, given: Mapping[str, Any]) -> ToolAnswer:
    """Answer one call of a tool; whatever was wrong with it is an answer with the next step."""
    if name == name_of(CompressContext) and not _is_by_agent(session):
        return ToolAnswer(SYSTEM_COMPACTS, is_error=True)
    known = _TOOLS.get(name)
    if known is None:
        return ToolAnswer(f"no tool {name!r}; there are: {', '.join(_TOOLS)}.", is_error=True)
    taken, answer = known
    complaint = complain_of_unknown(given, taken.model_fields)
    if complaint is not None:
        return ToolAnswer(complaint, is_error=True)
    try:
        done = await answer(session, taken.model_validate(given))
    except ValidationError as error:
        faults = ((str(f["loc"][0]), f["msg"], f["type"]) for f in error.errors())
        return ToolAnswer(complain_of_faults(faults), is_error=True)
    except CompactionError as error:
        place = {"--project": session.info.project, "--session": session.name}
        text = complete(str(error), typed_command(os.environ.get("PATH")), place)
        return ToolAnswer(text, is_error=True)
    fill = await session.store.compactor.fill_shown(session.info)
    return done if fill is None else done._replace(text=f"{done.text}\n{answers.fill_line(fill)}")


async def _compress(session: OpenSession, asked: CompressContext) -> ToolAnswer:
    return _answer_with(await session.compress(**dict(asked)), session)


async def _restore(session: OpenSession, asked: RestoreContext) -> ToolAnswer:
    return _answer_with(await session.restore(asked.ref, force=asked.force), session)


def _answer_with(outcome: Outcome, session: OpenSession) -> ToolAnswer:
    is_done = isinstance(outcome, Compaction) and outcome.receipt.kind != "digest"
    return ToolAnswer(outcome_text(outcome, "own", session.name), changes_view=is_done)


async def _pin(session: OpenSession, asked: PinConstraint) -> ToolAnswer:
    done = await session.pin(
        asked.text,
        kind=asked.kind,
        scope=asked.scope,
        supersedes=asked.supersedes,
        expires=parse_time(asked.expires),
    )
    return ToolAnswer(answers.pin_text(done, "own"))


async def _unpin(session: OpenSession, asked: UnpinConstraint) -> ToolAnswer:
    return ToolAnswer(answers.release_text(await session.unpin(asked.ref)))


async def _recall(session: OpenSession, asked: RecallArchived) -> ToolAnswer:
    compactor, info, project = session.store.compactor, session.info, session.store.project
    nonce, skip = recall_answers.new_nonce(), parse_cursor(asked.cursor)
    if asked.query is not None and asked.refs is not None:
        raise InputError("pass query to look for words, or refs to read what they name; not both.")
    if asked.keep and asked.refs is None:
        raise InputError('keep puts messages back by their refs; pass them too, as refs="m42".')
    if asked.query is not None:
        hits = await session.recall(
            asked.query, scope=asked.scope, max_tokens=asked.max_tokens, skip=skip
        )
        place = recall_answers.AnswerPlace(project, info.name, info.updated.year)
        return ToolAnswer(recall_answers.recall_text(hits, place, asked.query, nonce, skip))
    if asked.refs is not None:
        kept = await session.page_in(asked.refs) if asked.keep and not skip else None
        if isinstance(kept, Compaction):
            return _answer_with(kept, session)
        # Who turns a page recalls nothing new.
        found = await (compactor.quote if skip else compactor.recall_refs)(info, asked.refs)
        size = page_size(found, asked.max_tokens, skip)
        text = recall_answers.quote_text(found, info, project, nonce, size, skip)
        return ToolAnswer(text if kept is None else f"{outcome_text(kept)}\n{text}")
    return ToolAnswer(recall_answers.brief_text(await compactor.brief(info), nonce, project))


async def _stats(session: OpenSession, asked: ContextStats) -> ToolAnswer:
    loaded = await session.store.compactor.load_newest(session.info)
    found = await session.store.compactor.stats_of(loaded)
    passages = outline_of(loaded.messages) if asked.detail == "full" else ()
    cues = find_boundary_cues(loaded.messages)
    by_agent = _is_by_agent(session)
    return ToolAnswer(answers.stats_text(found, "own", cues, passages, by_agent=by_agent))


def _is_by_agent(session: OpenSession) -> bool:
    return session.store.settings.policy.agent_controlled


_Answering = Callable[[OpenSession, Any], Awaitable[ToolAnswer]]
_TOOLS: dict[str, tuple[type[Arguments], _Answering]] = {
    name_of(arguments): (arguments, answer)
    for arguments, answer in (
        (CompressContext, _compress),
        (PinConstraint, _pin),
        (RecallArchived, _recall),
        (ContextStats, _stats),
        (UnpinConstraint, _unpin),
        (RestoreContext, _restore),
    )
}


def list_tools(*, by_agent: bool = True) -> tuple[type[Arguments], ...]:
    """The tools for an agent in a loop; compress_context where the agent decides when."""
    tools = (arguments for arguments, _ in _TOOLS.values())
    return tuple(one for one in tools if by_agent or one is not CompressContext)

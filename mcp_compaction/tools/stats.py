"""The tool that tells how full the window is: context_stats."""

from __future__ import annotations

from mcp_compaction import compactor
from mcp_compaction.core.log.outline import find_boundary_cues, outline_of
from mcp_compaction.tools import answers
from mcp_compaction.tools.arguments import ContextStats
from mcp_compaction.tools.place import CallAnswer, CallPlace


async def context_stats(place: CallPlace, asked: ContextStats) -> CallAnswer:
    """The fill, the pins, and what compressing would free."""
    work = await place.workspace()
    info, _ = await place.session("look")
    session, past, reading = await compactor.load_newest(work, info)
    found = await compactor.stats_of(work, session, past, reading)
    is_full = asked.detail == "full"
    passages = await place.threads.run(outline_of, session.messages) if is_full else ()
    cues = await place.threads.run(find_boundary_cues, session.messages)
    hooked = await place.hooked(info, found.fill.tokens)
    text = answers.stats_text(
        found, place.mode(info), cues, passages, by_agent=place.by_agent, hooked=hooked
    )
    return CallAnswer(text, info, found)

"""The tools that change a window, and the compaction that a provider's refusal calls for."""

from __future__ import annotations

from mcp_compaction import compactor
from mcp_compaction.compactor.results import Prepared, make_ask
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.compaction.receipt import outcome_text
from mcp_compaction.core.log.outline import find_boundary_cues, outline_of
from mcp_compaction.model import Ask, Compaction, NothingToDo, SessionInfo, Traits
from mcp_compaction.tools import answers
from mcp_compaction.tools.answers import ALREADY_PREPARED, prepared_text
from mcp_compaction.tools.arguments import CompressContext, ContextStats, RestoreContext
from mcp_compaction.tools.place import CallAnswer, CallPlace

_SHARE = 0.6  # of the fill that was too much, or of the whole window where that is less
_LEAST_WINDOW = 1_000  # tokens; a provider that names fewer means something else
_REASON = "the provider refused the request: too large for the window"


async def compress_context(place: CallPlace, asked: CompressContext) -> CallAnswer:
    """Compact, and give the receipt."""
    ask = make_ask(**dict(asked))
    if ask.digest is not None:
        place.check_records()
    makes = ask.digest is not None and not ask.dry_run
    info, _ = await place.session("make" if makes else "look")
    work = await place.workspace()
    if _is_plain(ask) and place.is_prepared(info):
        return CallAnswer(await _prepare(work, info), info)
    outcome = await place.compress(info, ask)
    lines = [outcome_text(outcome, place.mode(info), info.name)]
    if isinstance(outcome, Compaction):
        lines += map(str, await compactor.held_calls(work, info))
    return CallAnswer("\n".join(lines), info, outcome)


def _is_plain(ask: Ask) -> bool:
    """Whether no more is wished than a smaller window."""
    wished = (ask.digest, ask.span, ask.target_percent, ask.room_tokens)
    return not ask.dry_run and all(one is None for one in wished)


async def _prepare(work: Workspace, info: SessionInfo) -> str:
    """Prepare for the host's own compaction, after which its hooks put back what is prepared."""
    done = await compactor.prepare(work, info)
    if isinstance(done, Prepared):
        pins = [pin for pin in await work.pins(info) if pin.kind != "note"]
        return prepared_text(done, len(pins))
    if isinstance(done, NothingToDo) and done.reason == "already_prepared":
        return ALREADY_PREPARED
    return outcome_text(done, "hooks", info.name)


async def restore_context(place: CallPlace, asked: RestoreContext) -> CallAnswer:
    """Show the view before a compaction."""
    work = await place.workspace()
    info, _ = await place.session("look")
    outcome = await compactor.restore(work, info, asked.ref, asked.force)
    return CallAnswer(outcome_text(outcome, place.mode(info), info.name), info, outcome)


async def plan_after_overflow(
    work: Workspace, info: SessionInfo, limit: int | None
) -> tuple[SessionInfo, Ask]:
    """The compaction after an overflow; a window that is smaller than we took it for is learned.

    `limit`: the tokens that the provider said are allowed.
    """
    fill = (await work.read_window(info)).fill
    if limit is not None and _LEAST_WINDOW <= limit < fill.window:
        info = await work.store.set_traits(info.id, Traits(window_tokens=limit))
        fill = (await work.read_window(info)).fill
    target = _SHARE * min(100.0, fill.percent)
    return info, Ask(reason=_REASON, target_percent=max(0.1, target), force=True)


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

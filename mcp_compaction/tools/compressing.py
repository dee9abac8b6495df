"""The tools that change a window: compress_context and its undo, restore_context."""

from __future__ import annotations

from mcp_compaction.compactor import Compactor, Prepared
from mcp_compaction.compactor.asking import make_ask
from mcp_compaction.core.compaction.receipt.text import outcome_text
from mcp_compaction.model import Ask, Compaction, NothingToDo, SessionInfo
from mcp_compaction.tools.arguments import CompressContext, RestoreContext
from mcp_compaction.tools.hooked_answers import ALREADY_PREPARED, prepared_text
from mcp_compaction.tools.place import Answer, Place


async def compress_context(place: Place, asked: CompressContext) -> Answer:
    """Compact, and give the receipt."""
    ask = make_ask(**dict(asked))
    if ask.digest is not None:
        place.check_records()
    makes = ask.digest is not None and not ask.dry_run
    info, _ = await place.session("make" if makes else "look")
    compactor = await place.compactor()
    if _is_plain(ask) and place.is_prepared(info):
        return Answer(await _prepare(compactor, info), info)
    outcome = await place.compress(info, ask)
    lines = [outcome_text(outcome, place.mode(info), info.name)]
    if isinstance(outcome, Compaction):
        lines += map(str, await compactor.checks.held(info))
    return Answer("\n".join(lines), info, outcome)


def _is_plain(ask: Ask) -> bool:
    """Whether no more is wished than a smaller window."""
    return (
        ask.digest is None and ask.span is None and ask.target_percent is None and not ask.dry_run
    )


async def _prepare(compactor: Compactor, info: SessionInfo) -> str:
    """Prepare for the host's own compaction, after which its hooks put back what is prepared."""
    done = await compactor.prepare(info)
    if isinstance(done, Prepared):
        pins = [pin for pin in await compactor.pins(info) if pin.kind != "note"]
        return prepared_text(done, len(pins))
    if isinstance(done, NothingToDo) and done.reason == "already_prepared":
        return ALREADY_PREPARED
    return outcome_text(done, "hooks", info.name)


async def restore_context(place: Place, asked: RestoreContext) -> Answer:
    """Show the view before a compaction."""
    compactor = await place.compactor()
    info, _ = await place.session("look")
    outcome = await compactor.restore(info, asked.ref, asked.force)
    return Answer(outcome_text(outcome, place.mode(info), info.name), info, outcome)

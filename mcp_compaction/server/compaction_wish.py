"""What a compaction of a chat in Claude Code is asked for, and what it would leave."""

from __future__ import annotations

import re

from mcp_compaction import compactor
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.compaction.receipt import outcome_text
from mcp_compaction.core.text.refs import join_refs
from mcp_compaction.core.window.render import entries_of
from mcp_compaction.hosts.limits import room_beside_host
from mcp_compaction.model import Ask, Digested, Projection, SessionInfo

_REASONS = {
    "manual": "the user asked for it",
    "auto": "the host's limit is near",
    "plugin": "a plugin asked for it",
}
_UP_TO = re.compile(r"\s*up to m(\d+)\b[\s,;:.]*", re.IGNORECASE)


async def make_ask(work: Workspace, info: SessionInfo, trigger: str, words: object) -> Ask:
    """The wish of a person or of the host; `words`: what was typed behind /compact, which begins
    with `up to m120` where all that is newer is to stay whole."""
    said = words if isinstance(words, str) else ""
    until = _UP_TO.match(said)
    focus = said[until.end() :] if until else said
    ask = Ask(reason=_REASONS.get(trigger, trigger), focus=focus.strip() or None, force=True)
    if until:
        return ask.model_copy(update={"span": (1, int(until[1]))})
    fill = (await work.read_window(info)).fill
    seen = fill.scaled(fill.counted_by_us)
    window = await work.load_window(info)
    is_taken = not all(one.told for one in window.view.taken)
    left = room_beside_host(seen, is_taken=is_taken)
    # The host's own prompt and tools stay, whatever is taken out: they are no part of the room.
    target = 100 * (fill.scaled(fill.unseen) + left) / fill.window
    return ask.model_copy(update={"target_percent": min(99.0, max(0.001, target))})


async def preview(work: Workspace, info: SessionInfo, words: str) -> str:
    """What /compact with these words would free now, and what would stay; nothing is changed."""
    ask = await make_ask(work, info, "manual", words)
    outcome = await compactor.compress(work, info, ask.model_copy(update={"dry_run": True}))
    lines = [outcome_text(outcome, "plain", info.name)]
    if isinstance(outcome, Projection):
        session = await work.load(info)
        entries = entries_of(session.view, session.messages)
        shown = [entry.seq for entry in entries if not isinstance(entry, Digested)]
        stays = [n for n in shown if not any(a <= n <= b for a, b in outcome.spans)]
        lines.append(f"would stay: {join_refs(stays)}")
    pins = [pin.ref for pin in await work.pins(info) if pin.kind != "note"]
    lines += [f"pins stay word for word: {', '.join(pins)}"] if pins else []
    return "\n".join(lines)

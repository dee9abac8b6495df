"""The rung for duplicates: what stands there twice, or is overtaken, is shown once."""

from __future__ import annotations

from collections.abc import Mapping

from mcp_compaction.core.compaction.blocks import StepBlock, WindowPlan, cuts_of
from mcp_compaction.core.limits import SHORTEST_PREVIEW
from mcp_compaction.core.log.content import calls_by_id, compact_json
from mcp_compaction.core.log.tool_calls import action_of, is_plan
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.model import Cut, CutReason, Part, ToolCall, ToolResult

_Met = dict[tuple[str, ...], str]
"""What newer messages show, each with the ref of the newest."""


def deduplicate(window: WindowPlan, goal: int, policy: Policy, count: CountTokens) -> WindowPlan:
    """Stubs replace repeated results, superseded reads and plans, and our own recall answers."""
    met: _Met = {}
    cuts: dict[int, dict[int, list[Cut]]] = {}
    for number, block in reversed(list(enumerate(window.blocks))):
        if not isinstance(block, StepBlock):
            continue
        calls = calls_by_id(block.step.messages)
        shown = list(zip(block.step.messages, block.entries, strict=True))
        for message, entry in reversed(shown):
            done = {cut.part for cut in cuts_of(entry)}
            is_free = block.guard in (None, "loop") and message.seq not in block.unread
            for place, part in reversed(list(enumerate(message.parts))):
                stub = _find_stub(part, calls, message.ref, met)
                if stub and is_free and place not in done:
                    cut = Cut(part=place, shown=stub[0], why=stub[1])
                    cuts.setdefault(number, {}).setdefault(message.seq, []).append(cut)
    return window.trimmed("deduplicate", cuts, count)


def _find_stub(
    part: Part, calls: Mapping[str, ToolCall], ref: str, met: _Met
) -> tuple[Part, CutReason] | None:
    """What may stand for a part of a message, and why; None where nothing newer shows the same."""
    if isinstance(part, ToolCall) and is_plan(part):
        newest = met.setdefault(("plan",), ref)
        if newest == ref or len(compact_json(part.arguments)) <= SHORTEST_PREVIEW:
            return None
        return part.model_copy(update={"arguments": {"superseded_by": newest}}), "superseded"
    if not isinstance(part, ToolResult) or part.call not in calls:
        return None
    found = _find_newer(part, calls[part.call], ref, met)
    if found is None or len(part.text) <= SHORTEST_PREVIEW:
        return None
    return part.model_copy(update={"text": found[0], "has_media": False}), found[1]


def _find_newer(
    result: ToolResult, call: ToolCall, ref: str, met: _Met
) -> tuple[str, CutReason] | None:
    done = action_of(call)
    if done.kind == "recall":
        return "[an earlier recall answer; ask recall_archived again]", "recalled"
    same = met.setdefault(("same", call.name, result.text), ref)
    if done.kind == "read" and done.target and not result.is_error:
        whole = met.get(("read", done.target, ""))
        newer = whole or met.setdefault(("read", done.target, done.detail), ref)
    else:
        newer = ref
    if same != ref:
        return f"[the same as in {same}]", "duplicate"
    if newer != ref:
        return f"[{done.target} was read again in {newer}; that is the newer text]", "superseded"
    return None

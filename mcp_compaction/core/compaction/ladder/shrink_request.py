"""The rung for a first request over its limit: a preview that keeps its rules and names its ref."""

from __future__ import annotations

from mcp_compaction.core.compaction.blocks import WindowPlan, cuts_of, entry_tokens, trim_entry
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.text.rules import find_rules
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.window.preview import preview
from mcp_compaction.model import Cut, Text


def shrink_request(window: WindowPlan, goal: int, policy: Policy, count: CountTokens) -> WindowPlan:
    """The first request over its limit is shown as a preview; its rules stay in sight."""
    if not window.head:
        return window
    message, entry = window.head_messages[-1], window.head[-1]
    if (
        not message.is_request
        or cuts_of(entry)
        or message.tokens <= policy.head_preview_over_tokens
    ):
        return window
    chars, rules = 2 * policy.head_preview_over_tokens, find_rules(message.text)
    cuts = [
        Cut(
            part=number,
            shown=Text(text=preview(part.text, message.ref, chars, rules)),
            why="preview",
        )
        for number, part in enumerate(message.parts)
        if isinstance(part, Text) and len(part.text) > chars
    ]
    shorter = trim_entry(message, entry, cuts, count) if cuts else entry
    saved = entry_tokens(message, entry) - entry_tokens(message, shorter)
    head = (*window.head[:-1], shorter)
    return window.after("shrink_request", head=head, head_tokens=window.head_tokens - saved)

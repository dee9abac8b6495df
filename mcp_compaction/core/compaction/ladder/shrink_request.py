"""The rung for a first request over its limit: a preview that keeps its rules and names its ref."""

from __future__ import annotations

from mcp_compaction.core.compaction.blocks import WindowPlan, cuts_of, entry_tokens, trim_entry
from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.text.rules import find_rules
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.window.preview import preview
from mcp_compaction.model import Cut, Message, MessageEntry, Text


def shrink_request(window: WindowPlan, goal: int, policy: Policy, count: CountTokens) -> WindowPlan:
    """The first request over its limit is shown as a preview; its rules stay in sight. What a host
    put before it in messages of their own is shortened alike."""
    saved = 0
    head: list[MessageEntry] = []
    for message, entry in zip(window.head_messages, window.head, strict=True):
        is_long = message.is_request and message.tokens > policy.head_preview_over_tokens
        cuts = _cuts_of_long_texts(message, policy) if is_long and not cuts_of(entry) else []
        shorter = trim_entry(message, entry, cuts, count) if cuts else entry
        saved += entry_tokens(message, entry) - entry_tokens(message, shorter)
        head.append(shorter)
    return window.after("shrink_request", head=tuple(head), head_tokens=window.head_tokens - saved)


def _cuts_of_long_texts(message: Message, policy: Policy) -> list[Cut]:
    chars = 2 * policy.head_preview_over_tokens
    rules = tuple(rule for said in conversation_of([message]) for rule in find_rules(said.text))
    return [
        Cut(
            part=number,
            shown=Text(text=preview(part.text, message.ref, chars, rules)),
            why="preview",
        )
        for number, part in enumerate(message.parts)
        if isinstance(part, Text) and len(part.text) > chars
    ]

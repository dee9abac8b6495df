"""The rung for requests over their limit: their start, their end and their rules."""

from __future__ import annotations

from mcp_compaction.core.compaction.blocks import (
    Block,
    StepBlock,
    WindowPlan,
    entry_tokens,
    trim,
    trim_entry,
)
from mcp_compaction.core.compaction.budget import (
    first_request_limit,
    keeps_all_rules,
    newest_request_limit,
)
from mcp_compaction.core.limits import LEAST_TOKENS
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.window.preview import shorten_request
from mcp_compaction.model import Cut, Message, MessageEntry


def shrink_request(window: WindowPlan, goal: int, policy: Policy, count: CountTokens) -> WindowPlan:
    """The first request takes its share of the room at most, and the newest two fifths; over that
    they are shown as previews, in which their rules, questions and commands stay in sight; of a
    long request's rules a small view shows its share. What a host put before the first in messages
    of their own is shortened alike."""
    room = window.room_in(goal)
    window = _shrink_head(window, room, policy, count)
    newest = newest_request_limit(room)
    blocks = tuple(_shrink_newest(b, room, newest, policy, count) for b in window.blocks)
    return window.after("shrink_request", blocks=blocks)


def _shrink_head(window: WindowPlan, room: int, policy: Policy, count: CountTokens) -> WindowPlan:
    limit, saved = first_request_limit(room, policy), 0
    head: list[MessageEntry] = []
    for message, entry in zip(window.head_messages, window.head, strict=True):
        is_hosts = message.speaker == "host"
        keeps_all = not is_hosts and keeps_all_rules(message, room, policy, count)
        most = LEAST_TOKENS if is_hosts else limit
        is_users = message.role == "user"
        shorter = _shorten(message, entry, most, count, keeps_all) if is_users else entry
        saved += entry_tokens(message, entry) - entry_tokens(message, shorter)
        head.append(shorter)
    return window.after("shrink_request", head=tuple(head), head_tokens=window.head_tokens - saved)


def _shrink_newest(
    block: Block, room: int, limit: int, policy: Policy, count: CountTokens
) -> Block:
    if not isinstance(block, StepBlock) or block.guard != "request" or block.tokens <= limit:
        return block
    shown = zip(block.step.messages, block.entries, strict=True)
    long = (m for m, entry in shown if entry_tokens(m, entry) > limit)
    cuts = {
        m.seq: _cuts_within(m, limit, count, keeps_all_rules(m, room, policy, count)) for m in long
    }
    return trim(block, cuts, count)


def _shorten(
    message: Message, entry: MessageEntry, limit: int, count: CountTokens, keeps_all: bool
) -> MessageEntry:
    """The longest preview of a message that its limit holds, or the shortest there is."""
    if entry_tokens(message, entry) <= limit:
        return entry
    return trim_entry(message, entry, _cuts_within(message, limit, count, keeps_all), count)


def _cuts_within(message: Message, limit: int, count: CountTokens, keeps_all: bool) -> list[Cut]:
    shorter = shorten_request(message, limit, count, keeps_all=keeps_all)
    return [cut.model_copy(update={"why": "preview"}) for cut in shorter.cuts]

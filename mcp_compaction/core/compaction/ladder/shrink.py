"""The second rung: large old tool results and arguments become previews that name their ref."""

from __future__ import annotations

from collections.abc import Iterable

from mcp_compaction.core.compaction.blocks import (
    Sheet,
    StepBlock,
    cuts_of,
    entry_tokens,
    trim,
    trim_entry,
)
from mcp_compaction.core.log.content import Count, string_arguments
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.text.rules import find_rules
from mcp_compaction.core.window.preview import is_large, preview, preview_chars
from mcp_compaction.model import Cut, JsonObject, Message, Part, Text, ToolCall, ToolResult


def shrink(sheet: Sheet, goal: int, policy: Policy, count: Count) -> Sheet:
    """Outside the tail, oldest first, until the goal is met; in the tail where it is too large."""
    blocks = list(sheet.blocks)
    total = sheet.tokens
    tail = sum(b.tokens for b in blocks if isinstance(b, StepBlock) and b.guard == "tail")
    for number, block in enumerate(blocks):
        if total <= goal:
            break
        if not isinstance(block, StepBlock) or block.guard in ("open", "request"):
            continue
        if block.guard == "tail" and (tail <= policy.tail_limit or number == len(blocks) - 1):
            continue
        shorter = trim(block, dict(_cuts(block, policy, count)), count)
        saved = block.tokens - shorter.tokens
        total -= saved
        tail -= saved if block.guard == "tail" else 0
        blocks[number] = shorter
    changed = sheet.after("shrink", blocks=tuple(blocks))
    return _shrink_head(changed, policy, count) if total > goal else changed


def _cuts(block: StepBlock, policy: Policy, count: Count) -> Iterable[tuple[int, list[Cut]]]:
    for message, entry in zip(block.step.messages, block.entries, strict=True):
        done = {cut.part for cut in cuts_of(entry)}
        cuts = [
            Cut(part=number, shown=shorter, why="preview")
            for number, part in enumerate(message.parts)
            if number not in done and (shorter := _shorter(message, part, policy, count))
        ]
        if cuts:
            yield message.seq, cuts


def _shorter(message: Message, part: Part, policy: Policy, count: Count) -> Part | None:
    if isinstance(part, ToolResult) and is_large(part.text, policy, count):
        return part.model_copy(
            update={"text": preview(part.text, message.ref, preview_chars(policy))}
        )
    if isinstance(part, ToolCall):
        arguments = _clipped(part.arguments, message.ref, policy, count)
        if arguments != part.arguments:
            return part.model_copy(update={"arguments": arguments})
    return None


def _clipped(arguments: JsonObject, ref: str, policy: Policy, count: Count) -> JsonObject:
    clipped = dict(arguments)
    for name, value in string_arguments(arguments):
        if is_large(value, policy, count):
            clipped[name] = preview(value, ref, preview_chars(policy))
    return clipped


def _shrink_head(sheet: Sheet, policy: Policy, count: Count) -> Sheet:
    """The first request over its limit is shown as a preview; the whole stays behind its ref."""
    if not sheet.head:
        return sheet
    message, entry = sheet.head_messages[-1], sheet.head[-1]
    if (
        not message.is_request
        or cuts_of(entry)
        or message.tokens <= policy.head_preview_over_tokens
    ):
        return sheet
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
    head = (*sheet.head[:-1], shorter)
    return sheet.after("shrink", head=head, head_tokens=sheet.head_tokens - saved)

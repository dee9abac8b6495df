"""Offloads a large result when it comes: a preview stands for it, with the ref of the whole."""

from __future__ import annotations

from mcp_compaction.core.log.content import part_tokens, shown_parts, tokens_of
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.window.matching import preview_within
from mcp_compaction.model import Cut, Message, ToolResult, Trimmed

_SHARE = 10  # a preview takes this part of the limit


def offload(message: Message, over: int, asked: str, count: CountTokens) -> Trimmed | None:
    """The message with previews for its results of more tokens than `over`; None without any.

    A preview shows the start, the end, and what matches the words that were asked.
    """
    cuts = tuple(
        Cut(
            part=number,
            shown=part.model_copy(
                update={
                    "text": preview_within(part.text, message.ref, over // _SHARE, asked, count)
                }
            ),
            why="offloaded",
        )
        for number, part in enumerate(message.parts)
        if isinstance(part, ToolResult) and part_tokens(part, count) > over
    )
    if not cuts:
        return None
    tokens = tokens_of(shown_parts(message, cuts), count)
    return Trimmed(seq=message.seq, cuts=cuts, tokens=tokens)

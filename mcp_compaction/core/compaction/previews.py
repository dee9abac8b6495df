"""Previews for what is large in a step: its old results, the arguments of its calls, and unread
results, which tools answered and the model has not seen yet, in the room they have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from mcp_compaction.core.compaction.blocks import StepBlock, WindowPlan, cuts_of, find_unread, trim
from mcp_compaction.core.compaction.budget import unread_limit
from mcp_compaction.core.limits import LEAST_TOKENS
from mcp_compaction.core.log.content import MEDIA_TOKENS, part_tokens, string_arguments
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.window.preview import is_large, preview, preview_chars, preview_within
from mcp_compaction.model import (
    Cut,
    Entry,
    Kept,
    Message,
    Part,
    Session,
    ToolCall,
    ToolResult,
    Trimmed,
)

_Shorten = Callable[[str, str, str], str]  # a text, what is shown of it now, and its ref


def shrink_step(block: StepBlock, policy: Policy, count: CountTokens) -> StepBlock:
    """A step with previews for what is large in it, but for unread results."""
    chars = preview_chars(policy)

    def shorten(text: str, now: str, ref: str) -> str:
        return preview(text, ref, chars) if is_large(now, policy, count) else now

    return _trim_parts(block, (ToolResult, ToolCall), shorten, count)


def fit_step(block: StepBlock, most: int, count: CountTokens) -> StepBlock:
    """A step in so many tokens beside its unread results, as far as previews can do it: its
    results give way before what its calls were given."""
    over = 0

    def shorten(text: str, now: str, ref: str) -> str:
        nonlocal over
        size = count(now)
        if over <= 0 or size <= LEAST_TOKENS:
            return now
        shown = preview_within(text, ref, max(LEAST_TOKENS, size - over), count)
        over -= size - count(shown)
        return shown

    for kind in (ToolResult, ToolCall):
        over = block.tokens_beside_unread - most
        block = _trim_parts(block, (kind,), shorten, count)
    return block


def _trim_parts(
    block: StepBlock,
    kinds: tuple[type[ToolResult] | type[ToolCall], ...],
    shorten: _Shorten,
    count: CountTokens,
) -> StepBlock:
    """A step with its results, or the arguments of its calls, shown shorter."""
    cuts: dict[int, list[Cut]] = {}
    for message, entry in zip(block.step.messages, block.entries, strict=True):
        known = {cut.part: cut for cut in cuts_of(entry)}
        for number, part in enumerate(message.parts):
            now = known.get(number)
            is_stub = now is not None and now.why != "preview"
            if message.seq in block.unread or is_stub or not isinstance(part, kinds):
                continue
            shown = _shorten_part(part, now.shown if now else part, message.ref, shorten)
            if shown != part:
                cut = Cut(part=number, shown=shown, why="preview")
                cuts.setdefault(message.seq, []).append(cut)
    return trim(block, cuts, count)


def _shorten_part(part: Part, now: Part, ref: str, shorten: _Shorten) -> Part:
    if isinstance(part, ToolResult) and isinstance(now, ToolResult):
        return part.model_copy(update={"text": shorten(part.text, now.text, ref)})
    if isinstance(part, ToolCall) and isinstance(now, ToolCall):
        named, shown = (dict(string_arguments(one.arguments)) for one in (part, now))
        longest_first = sorted(named, key=lambda one: -len(named[one]))
        texts = {name: shorten(named[name], shown[name], ref) for name in longest_first}
        return part.model_copy(update={"arguments": {**part.arguments, **texts}})
    return part


class _Unread(NamedTuple):
    """An unread result, and where it stands."""

    block: int
    message: Message
    part: int
    result: ToolResult
    tokens: int  # as it is shown now


def cut_unread(window: WindowPlan, most: int, count: CountTokens) -> WindowPlan:
    """The window with its unread results in so many tokens at most: the small ones whole, the
    others as their start and their end."""
    unread = list(_find_unread(window, count))
    if sum(one.tokens for one in unread) <= most:
        return window
    cuts: dict[int, dict[int, list[Cut]]] = {}
    for one, share in _share_out(unread, most):
        tokens = share - (MEDIA_TOKENS if one.result.has_media else 0)
        text = preview_within(one.result.text, one.message.ref, tokens, count)
        shown = one.result.model_copy(update={"text": text})
        cut = Cut(part=one.part, shown=shown, why="preview")
        cuts.setdefault(one.block, {}).setdefault(one.message.seq, []).append(cut)
    return window.trimmed("shrink_unread", cuts, count)


def unread_tokens(window: WindowPlan, count: CountTokens) -> int:
    """The tokens that unread results take of a window."""
    return sum(one.tokens for one in _find_unread(window, count))


def give_up_excess(window: WindowPlan, goal: int, count: CountTokens) -> WindowPlan:
    """The window with unread results cut to their share, or to all that the rest leaves."""
    taken = unread_tokens(window, count)
    if not taken:
        return window
    share = unread_limit(window.room_in(goal), window.fixed - window.sections)
    return cut_unread(window, max(share, goal - window.tokens + taken), count)


def show_unread_whole(session: Session) -> Session:
    """The session with its unread results whole; itself, where none of them is cut.

    What was offloaded when it came stays a preview.
    """
    unread = find_unread(session)
    body: tuple[Entry, ...] = tuple(
        Kept(seq=entry.seq)
        if isinstance(entry, Trimmed)
        and entry.seq in unread
        and all(cut.why != "offloaded" for cut in entry.cuts)
        else entry
        for entry in session.view.body
    )
    if body == session.view.body:
        return session
    view = session.view.model_copy(update={"body": body})
    return session.model_copy(update={"view": view})


def _find_unread(window: WindowPlan, count: CountTokens) -> Iterable[_Unread]:
    for number, block in enumerate(window.blocks):
        if not isinstance(block, StepBlock) or not block.unread:
            continue
        for message, entry in zip(block.step.messages, block.entries, strict=True):
            if message.seq not in block.unread:
                continue
            shown = {cut.part: cut.shown for cut in cuts_of(entry)}
            for part, result in enumerate(message.parts):
                if isinstance(result, ToolResult):
                    tokens = part_tokens(shown.get(part, result), count)
                    yield _Unread(number, message, part, result, tokens)


def _share_out(unread: Sequence[_Unread], most: int) -> Iterable[tuple[_Unread, int]]:
    """The results that are cut, with the tokens of each: what a small one leaves is for others."""
    smallest_first = sorted(unread, key=lambda one: one.tokens)
    for number, one in enumerate(smallest_first):
        share = most // (len(smallest_first) - number)
        if one.tokens > share:
            yield one, share
        most -= min(one.tokens, share)

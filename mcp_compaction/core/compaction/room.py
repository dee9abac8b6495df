"""Fills the room below the target: with names, with unread results, then with excerpts."""

from __future__ import annotations

from mcp_compaction.core.compaction.blocks import StepBlock, blocks_of
from mcp_compaction.core.compaction.budget import (
    excerpts_limit,
    index_beside_names,
    users_limit,
)
from mcp_compaction.core.compaction.progress import Inputs, Progress
from mcp_compaction.core.compaction.unread import cut_unread, show_unread_whole, unread_tokens
from mcp_compaction.core.compaction.verify import text_of_shown
from mcp_compaction.core.digest.names import (
    choose_names,
    names_of_digests,
    with_names,
    without_names,
)
from mcp_compaction.core.excerpts.choose import (
    Sources,
    choose_excerpts,
    excerpts_of_digests,
)
from mcp_compaction.core.excerpts.paging import quote_message, wanted_excerpts
from mcp_compaction.core.log.conversation import Conversation
from mcp_compaction.core.log.used_names import used_names
from mcp_compaction.core.window.render import lay_out
from mcp_compaction.model import Digested, Message, Session


def fit_steps(progress: Progress, inputs: Inputs) -> Progress:
    """The names, the index and what is unread, in the room that digests left."""
    progress = _list_names(fit_index(progress, inputs), inputs)
    return fit_unread(progress, inputs)


def add_excerpts(before: Session, progress: Progress, inputs: Inputs) -> Progress:
    """The room left below the target, filled with the excerpts that say most."""
    if progress.plan.goal is None:  # only a span gives way: what was asked for again stays
        return progress.change_view(promoted=wanted_excerpts(before.view.promoted))
    room = _room_for_excerpts(progress, progress.plan.goal, inputs)
    if room <= 0:
        return progress
    shown = _text_of_view(progress.session, inputs)
    sources = _sources_of_excerpts(before, progress.session, inputs)
    chosen = choose_excerpts(sources, shown, room, inputs.count)
    return progress.change_view(promoted=chosen)


def fit_index(progress: Progress, inputs: Inputs) -> Progress:
    """The index takes no more of the goal than the rest leaves."""
    goal = progress.plan.goal
    fill = inputs.measure(progress.session)
    if goal is None or fill.counted <= goal:
        return progress
    over = fill.counted - goal + inputs.given_policy.overhead_per_message
    return progress.change_view(index_most=max(0, dict(fill.parts)["index"] - over))


def _list_names(progress: Progress, inputs: Inputs) -> Progress:
    """The newest digest lists the names that the agent used and that nothing but the index shows;
    the index gives way to them."""
    goal, count = progress.plan.goal, inputs.count
    new = {digest.number: digest for digest in progress.digests}
    shown = [e.digest for e in progress.session.view.body if isinstance(e, Digested)]
    written = [new[number] for number in shown if number in new]
    if goal is None or not written or inputs.ask.strategy == "archive":
        return progress
    for digest in written:
        progress = progress.replace_digest(without_names(digest, count))
    without_index = progress.change_view(index_most=0).session
    used = used_names(inputs.said, inputs.found, names_of_digests(inputs.digests))
    shown_now = _text_of_view(without_index, inputs)
    bare = without_names(written[-1], count)
    left = goal - inputs.measure(without_index).counted
    room = min(progress.plan.budget.names, left)
    if inputs.ask.target_percent is None:  # what an explicit target leaves is all to be used
        room = min(room, inputs.policy.digest_limit - bare.tokens)
    names = choose_names(used, shown_now, room, count)
    full = with_names(bare, names, count)
    progress = progress.replace_digest(full)
    if names:
        room = progress.plan.window.room_in(goal)
        most = index_beside_names(room, full.tokens - bare.tokens)
        now = progress.session.view.index_most
        progress = progress.change_view(index_most=most if now is None else min(now, most))
    return fit_index(progress, inputs)


def fit_unread(progress: Progress, inputs: Inputs) -> Progress:
    """Unread results that were cut take what room there is now: a plan only estimates digests."""
    goal, count = progress.plan.goal, inputs.count
    whole = show_unread_whole(progress.session)
    if goal is None or whole is progress.session:
        return progress
    window = blocks_of(whole, inputs.policy)
    over = inputs.measure(whole).counted - goal + _room_for_users(progress, goal, inputs)
    window = cut_unread(window, unread_tokens(window, count) - over, count)
    steps = (block for block in window.blocks if isinstance(block, StepBlock))
    shown = {entry.seq: entry for block in steps for entry in block.entries}
    body = (e if isinstance(e, Digested) else shown[e.seq] for e in whole.view.body)
    return progress.change_view(body=tuple(body))


def _room_for_users(progress: Progress, goal: int, inputs: Inputs) -> int:
    """The tokens that an unread result leaves to what users said; without an explicit target it
    has all that there are."""
    if inputs.ask.target_percent is None:
        return 0
    gone = _messages_gone(progress.session, inputs)
    said = sum(m.tokens for m in gone if m.is_request and not m.results)
    return users_limit(progress.plan.window.room_in(goal), said)


def _messages_gone(session: Session, inputs: Inputs) -> list[Message]:
    """The messages, as they were said, that a session no longer holds."""
    kept = {message.seq for message in session.messages}
    return [message for message in inputs.said if message.seq not in kept]


def _sources_of_excerpts(before: Session, session: Session, inputs: Inputs) -> Sources:
    """What excerpts are chosen from, where a session no longer holds all messages of before."""
    kept = {message.seq for message in session.messages}
    recalled = [message for message in before.recalled if message.seq not in kept]
    by_itself = {message.seq for message in recalled}
    return Sources(
        gone=Conversation(_messages_gone(session, inputs)),
        earlier=(
            *excerpts_of_digests(before.digests),
            *(e for e in before.view.promoted if e.by != "wanted" or e.seq not in by_itself),
        ),
        recalled=tuple(map(quote_message, recalled)),
        markers=inputs.given_policy.marker_threshold if inputs.ask.preserve_markers else None,
    )


def _room_for_excerpts(progress: Progress, goal: int, inputs: Inputs) -> int:
    """The tokens that excerpts may take."""
    policy = inputs.policy
    if not progress.session.digests or not policy.promoted_max_percent:
        return 0
    now = inputs.measure(progress.session).counted
    return excerpts_limit(
        goal - now - policy.overhead_per_message,
        inputs.fill.counted - now,
        policy,
        inputs.ask,
    )


def _text_of_view(session: Session, inputs: Inputs) -> str:
    """All that a view says."""
    shown = lay_out(session, inputs.given_policy.index_limit, inputs.count)
    return "\n".join(map(text_of_shown, shown))

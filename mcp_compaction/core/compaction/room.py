"""Fills the room below the target: with names, with unread results, then with excerpts."""

from __future__ import annotations

from collections.abc import Iterable

from mcp_compaction.core.account.fit import fit_account
from mcp_compaction.core.compaction.blocks import StepBlock, blocks_of
from mcp_compaction.core.compaction.budget import (
    excerpts_limit,
    index_beside_names,
    keeps_talk,
    order_limit,
    users_limit,
)
from mcp_compaction.core.compaction.previews import cut_unread, show_unread_whole, unread_tokens
from mcp_compaction.core.compaction.progress import Inputs, Progress
from mcp_compaction.core.compaction.verify import text_of_shown
from mcp_compaction.core.digest.fit import measure_digest
from mcp_compaction.core.digest.names import choose_names, with_names, without_names
from mcp_compaction.core.excerpts.choose import choose_excerpts
from mcp_compaction.core.excerpts.render import (
    ACCOUNT_LABEL,
    keep_whole,
    quote_message,
    wanted_excerpts,
)
from mcp_compaction.core.log.conversation import Conversation
from mcp_compaction.core.text.injection import END
from mcp_compaction.core.window.render import lay_out, places_behind
from mcp_compaction.model import Digested, Excerpt, Message, Session


def fit_steps(before: Session, progress: Progress, inputs: Inputs) -> Progress:
    """The account, the names that it does not show, the index and what is unread, in the room that
    digests left."""
    progress = fit_index(progress, inputs)
    if progress.plan.goal is not None and inputs.ask.strategy != "archive":
        progress = add_account(before, progress, inputs, progress.plan.budget.names)
        progress = list_names(progress, inputs)
    return fit_unread(progress, inputs)


def add_account(before: Session, progress: Progress, inputs: Inputs, beside: int = 0) -> Progress:
    """The room left below the target, but for so many tokens, filled with the account of what left
    the window."""
    goal = progress.plan.goal
    # Where a span alone gives way, or others fill the window: what was asked for again stays.
    if goal is None or inputs.ask.for_others:
        return progress.change_view(promoted=wanted_excerpts(before.view.promoted))
    progress = progress.change_view(promoted=())
    room = _room_for_excerpts(progress, goal, inputs)
    room -= min(beside, 3 * room // 5)
    account = _account_of(before, progress, room, inputs) if room > 0 else ()
    return progress.change_view(promoted=account)


def name_what_left(progress: Progress, inputs: Inputs) -> Progress:
    """Where neither a digest nor an excerpt tells that messages left the window, the digest is one
    line of refs."""
    if progress.session.view.promoted or any(one.sections for one in progress.session.digests):
        return progress
    named = progress
    for digest in progress.digests:
        by_refs = digest.model_copy(update={"author": "archive"})
        named = named.replace_digest(measure_digest(by_refs, inputs.count))
    over = inputs.measure(named.session).counted - progress.plan.budget.target
    return progress if inputs.ask.target_percent is not None and over > 0 else named


def _account_of(
    before: Session, progress: Progress, room: int, inputs: Inputs
) -> tuple[Excerpt, ...]:
    """What a room holds of what left the window: messages that were asked for again, those
    recalled again and again in a share of the room; of talk the pieces that say most, of work what
    was said and a line for each call."""
    session, count = progress.session, inputs.count
    kept = {message.seq for message in session.messages}
    recalled = [message for message in before.recalled if message.seq not in kept]
    by_itself = {message.seq for message in recalled}
    earlier = [e for e in before.view.promoted if e.by != "wanted" or e.seq not in by_itself]
    wanted, cost = keep_whole(earlier, map(quote_message, recalled), room, count)
    shown = [_text_of_view(session, inputs), *(text for one in wanted for text in one.pieces)]
    gone = Conversation(_messages_gone(session, inputs))
    earlier = [one for one in earlier if one.by != "wanted"]
    left = room - cost
    has_steps = any(m.calls for m in gone) or any(one.by == "step" for one in earlier)
    if not has_steps:
        told = choose_excerpts(gone, earlier, "\n".join(shown), left, count, inputs.markers)
        return (*wanted, *told)
    left_window = frozenset(message.seq for message in gone)
    left -= _cost_of_labels(session, {*left_window, *(one.seq for one in earlier)}, inputs)
    lines = inputs.account.of(left_window, earlier, "\n".join(shown))
    talk = sum(count(one.pieces[0]) for line in lines if line.is_talk for one in line.whole)
    in_view = progress.plan.window.room_in(progress.plan.budget.target)
    whole = talk <= left and keeps_talk(talk, in_view)
    account = fit_account(lines, left, count, keeps_talk=whole, of_order=order_limit(in_view))
    return (*wanted, *account)


def _cost_of_labels(session: Session, told: Iterable[int], inputs: Inputs) -> int:
    """What it costs that an account of these messages stands in several places: a label each."""
    places = {*places_behind(session.view.body, told)}
    label = inputs.count(f"{ACCOUNT_LABEL}\n{END}\n") + inputs.given_policy.overhead_per_message + 1
    return (len(places) - 1) * label


def fit_index(progress: Progress, inputs: Inputs) -> Progress:
    """The index takes no more of the goal than the rest leaves."""
    goal = progress.plan.goal
    fill = inputs.measure(progress.session)
    if goal is None or fill.counted <= goal:
        return progress
    over = fill.counted - goal + inputs.given_policy.overhead_per_message
    return progress.change_view(index_most=max(0, dict(fill.parts)["index"] - over))


def list_names(progress: Progress, inputs: Inputs) -> Progress:
    """The newest digest lists the ids that calls made and the names that the agent used, where
    nothing else shows them."""
    goal, count = progress.plan.goal, inputs.count
    new = {digest.number: digest for digest in progress.digests}
    shown = [e.digest for e in progress.session.view.body if isinstance(e, Digested)]
    written = [new[number] for number in shown if number in new]
    if goal is None or not written:
        return progress
    for digest in written:
        progress = progress.replace_digest(without_names(digest, count))
    without_index = progress.change_view(index_most=0).session
    bare = without_names(written[-1], count)
    room = min(progress.plan.budget.names, goal - inputs.measure(without_index).counted)
    names = choose_names(inputs.names, _text_of_view(without_index, inputs), room, count)
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


def _room_for_excerpts(progress: Progress, goal: int, inputs: Inputs) -> int:
    """The tokens that excerpts may take."""
    policy = inputs.policy
    if not progress.session.digests or not policy.promoted_max_percent:
        return 0
    now = inputs.measure(progress.session).counted
    left = goal - now - policy.overhead_per_message
    return excerpts_limit(left, inputs.fill.counted - now, inputs.ask)


def _text_of_view(session: Session, inputs: Inputs) -> str:
    """All that a view says."""
    shown = lay_out(session, inputs.given_policy.index_limit, inputs.count)
    return "\n".join(map(text_of_shown, shown))

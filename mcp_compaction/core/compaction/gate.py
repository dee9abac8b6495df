"""Whether compressing now is worth it at all; a refusal says what holds the window, and when."""

from __future__ import annotations

from mcp_compaction.core.compaction.blocks import window_of
from mcp_compaction.core.compaction.budget import Held, held_by
from mcp_compaction.core.compaction.receipt.reasons import (
    explain_below_release,
    explain_few_messages,
    explain_no_progress,
    explain_prepared,
    explain_target_met,
    explain_too_soon,
)
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.window.fill import Fill, in_counted_tokens
from mcp_compaction.model import Ask, NothingToDo, Receipt, Refusal, Session


def gate(
    session: Session, policy: Policy, ask: Ask, fill: Fill, count: CountTokens
) -> Refusal | NothingToDo | None:
    """Why compressing is not worth planning now; None where it is, as always above the trigger."""
    if ask.force:
        return None
    if ask.span is None and ask.target_percent is not None:
        if fill.percent > ask.target_percent:
            return _refuse_few_messages(session, policy, fill, count)
        return _refuse_prepared(session, policy, fill) or NothingToDo(
            reason="target_met", text=explain_target_met(fill, ask.target_percent)
        )
    if fill.percent >= policy.trigger_percent:
        return None
    if ask.span is not None:
        return _refuse_few_messages(session, policy, fill, count)
    return (
        _refuse_prepared(session, policy, fill)
        or _refuse_few_messages(session, policy, fill, count)
        or _refuse_below_release(session, policy, fill, count)
        or _refuse_too_soon(session, policy, fill, count)
    )


def _held_now(session: Session, policy: Policy, fill: Fill, count: CountTokens) -> Held:
    pinned = dict(fill.parts)["pinned"]
    return held_by(window_of(session, in_counted_tokens(policy, fill), fill, pinned, count))


def _refuse_few_messages(
    session: Session, policy: Policy, fill: Fill, count: CountTokens
) -> Refusal | None:
    number, least = len(session.messages), policy.min_messages_to_compact
    if number >= least or fill.percent >= policy.trigger_percent:
        return None
    held = _held_now(session, policy, fill, count)
    return Refusal(
        reason="few_messages",
        held_by=held.tokens_by_holder(fill),
        text=explain_few_messages(number, least, fill, held),
    )


def _refuse_below_release(
    session: Session, policy: Policy, fill: Fill, count: CountTokens
) -> Refusal | None:
    if fill.percent > policy.release_percent:
        return None
    worth = min(policy.release_percent + policy.min_gain_percent, policy.trigger_percent)
    held = _held_now(session, policy, fill, count)
    return Refusal(
        reason="below_release",
        held_by=held.tokens_by_holder(fill),
        worth_from_tokens=policy.share(worth),
        text=explain_below_release(worth, policy, fill, held),
    )


def _refuse_prepared(session: Session, policy: Policy, fill: Fill) -> NothingToDo | None:
    """Where the window is the host's, a view that is ready frees nothing by being made again."""
    last = _last_compaction(session)
    if last is None or session.info.traits.owns_window:
        return None
    since = _tokens_since(session, policy, fill)
    if since >= policy.min_gain_tokens and fill.percent > policy.release_percent:
        return None
    return NothingToDo(reason="already_prepared", text=explain_prepared(last, since))


def _refuse_too_soon(
    session: Session, policy: Policy, fill: Fill, count: CountTokens
) -> Refusal | None:
    """The cool-down, and the stop where the last compaction could not reach the same goal."""
    last = _last_compaction(session)
    if last is None or last.target is None or last.target > policy.release_tokens:
        return None  # it was not meant to go as far as this one would
    since = _tokens_since(session, policy, fill)
    missing = policy.min_gain_tokens - since
    if missing <= 0:
        return None
    number = len(session.said_since)
    has_freed = last.before - last.after >= policy.min_gain_tokens
    if last.is_enough and number >= policy.min_messages_to_compact and has_freed:
        return None
    held = _held_now(session, policy, fill, count)
    if last.is_enough:
        text = explain_too_soon(last, number, since, policy, fill, held)
    else:
        text = explain_no_progress(last, since, policy, fill, held)
    return Refusal(
        reason="too_soon" if last.is_enough else "no_progress",
        held_by=held.tokens_by_holder(fill),
        worth_from_tokens=min(fill.tokens + missing, policy.share(policy.trigger_percent)),
        text=text,
    )


def _last_compaction(session: Session) -> Receipt | None:
    """The compaction whose view still stands; one that was undone counts for nothing."""
    last = session.last_compaction
    return last if last is not None and last.kind == "compress" else None


def _tokens_since(session: Session, policy: Policy, fill: Fill) -> int:
    overhead = policy.overhead_per_message
    return fill.scaled(sum(message.tokens + overhead for message in session.said_since))

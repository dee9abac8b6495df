"""Whether compressing now is worth it at all; a refusal says what holds the window, and when."""

from __future__ import annotations

from mcp_compaction.core.compaction.blocks import window_of
from mcp_compaction.core.compaction.budget import Held, held_by
from mcp_compaction.core.compaction.receipt import describe_fill, describe_held
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.window.fill import Fill, in_counted_tokens
from mcp_compaction.core.wording import kilo, plural
from mcp_compaction.model import Ask, NothingToDo, Receipt, Refusal, RefusalReason, Session


def gate(session: Session, policy: Policy, ask: Ask, fill: Fill) -> Refusal | NothingToDo | None:
    """Why compressing is not worth planning now; None where it is, as always above the trigger."""
    target = ask.target_percent if ask.span is None else None
    if ask.force:
        return None
    if target is not None and fill.percent <= target:
        return _find_prepared(session, policy, fill) or NothingToDo(
            reason="target_met",
            text=f"nothing to do: {describe_fill(fill)} of the window, already within "
            f"{target:.3g} %. Go on, or name a lower target.",
        )
    if fill.percent >= policy.trigger_percent:
        return None
    is_exact = ask.span is not None or target is not None  # it was said what is to give way
    if not is_exact and (prepared := _find_prepared(session, policy, fill)):
        return prepared
    found = _find_few_messages(session, policy) or (
        None
        if is_exact
        else _find_below_release(policy, fill) or _find_too_soon(session, policy, fill)
    )
    if found is None:
        return None
    reason, why, worth, next_step = found
    held = _find_held(session, policy, fill)
    return Refusal(
        reason=reason,
        held_by=held.tokens_by_holder(fill),
        worth_from_tokens=worth,
        text=f"not compressed: {why}; {describe_fill(fill)}, held by {describe_held(held, fill)}. "
        f"{next_step}",
    )


def explain_stuck(session: Session, policy: Policy, fill: Fill) -> str:
    """What fills a window that compactions no longer make smaller."""
    held = describe_held(_find_held(session, policy, fill), fill)
    return f"{kilo(fill.tokens)} tokens are held by {held}"


def _find_held(session: Session, policy: Policy, fill: Fill) -> Held:
    pinned = dict(fill.parts)["pinned"]
    return held_by(window_of(session, in_counted_tokens(policy, fill), fill, pinned))


# Why, in a word and in words; the tokens from which on it is worth it; what to do instead.
_Found = tuple[RefusalReason, str, int | None, str]


def _find_few_messages(session: Session, policy: Policy) -> _Found | None:
    number, least = len(session.messages), policy.min_messages_to_compact
    if number >= least:
        return None
    why = f"{plural(number, 'message')} in the window, fewer than {least}"
    return "few_messages", why, None, "Nothing to gain yet; go on."


def _find_below_release(policy: Policy, fill: Fill) -> _Found | None:
    release = policy.release_percent
    if fill.percent > release:
        return None
    percent = min(release + policy.min_gain_percent, policy.trigger_percent)
    worth = policy.share(percent)
    where = "at" if round(fill.percent) >= release else "below"
    why = f"the window is {where} the {release:.3g} % a compaction goes down to"
    from_here = f"Worth it from about {percent:.3g} % ({kilo(worth)})."
    advice = "Before a large input pass room_tokens; force=true compresses all the same."
    return "below_release", why, worth, f"{from_here} Go on. {advice}"


def _find_too_soon(session: Session, policy: Policy, fill: Fill) -> _Found | None:
    """The cool-down, and the stop where the last compaction could not reach the same goal."""
    last = _last_compaction(session)
    if last is None or last.target is None or last.target > policy.release_tokens:
        return None  # it was not meant to go as far as this one would
    since = tokens_since(session, policy, fill)
    missing = policy.min_gain_tokens - since
    if missing <= 0:
        return None
    number, freed = len(session.said_since), last.before - last.after
    has_freed = freed >= policy.min_gain_tokens
    if last.is_enough and number >= policy.min_messages_to_compact and has_freed:
        return None
    worth = min(fill.tokens + missing, policy.share(policy.trigger_percent))
    wait = f"Worth it when {kilo(missing)} more are said, or at {policy.trigger_percent:.3g} %."
    if last.is_enough:
        why = f"{last.ref} freed {kilo(freed)} tokens {number} messages ago"
        next_step = "Go on; force=true compresses all the same."
    else:
        why = f"{last.ref} ended at {kilo(last.after)}, above its target of {kilo(last.target)}"
        next_step = (
            "To get lower, release pins that are done, shorten the system prompt or the tools, or "
            "set a larger window; otherwise go on."
        )
    reason: RefusalReason = "too_soon" if last.is_enough else "no_progress"
    return reason, f"{why}, with {kilo(since)} tokens said since", worth, f"{wait} {next_step}"


def _find_prepared(session: Session, policy: Policy, fill: Fill) -> NothingToDo | None:
    """Where the window is the host's, a view that is ready frees nothing by being made again."""
    last = _last_compaction(session)
    if last is None or session.info.traits.owns_window:
        return None
    since = tokens_since(session, policy, fill)
    if since >= policy.min_gain_tokens and fill.percent > policy.release_percent:
        return None
    return NothingToDo(
        reason="already_prepared",
        text=f"already prepared: {last.ref} {kilo(last.before)} -> {kilo(last.after)} of "
        f"{kilo(last.window)} tokens, {kilo(since)} said since. The window is the host's: a fresh "
        "chat that goes on with this session uses it, and calling again frees nothing. Go on.",
    )


def _last_compaction(session: Session) -> Receipt | None:
    """The compaction whose view still stands; one that was undone counts for nothing."""
    last = session.last_compaction
    return last if last is not None and last.kind == "compress" else None


def tokens_since(session: Session, policy: Policy, fill: Fill) -> int:
    """What was said since the last compaction, in tokens."""
    overhead = policy.overhead_per_message
    return fill.scaled(sum(message.tokens + overhead for message in session.said_since))

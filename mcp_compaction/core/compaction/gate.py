"""Whether compressing now is worth it at all; a refusal says what holds the window, and when."""

from __future__ import annotations

from mcp_compaction.core.compaction.blocks import StepBlock, WindowPlan, blocks_of
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.window.fill import Fill, in_counted_tokens
from mcp_compaction.core.wording import kilo
from mcp_compaction.model import Ask, NothingToDo, Receipt, Refusal, Session


def gate(
    session: Session, policy: Policy, ask: Ask, fill: Fill, count: CountTokens
) -> Refusal | NothingToDo | None:
    """None where it is worth planning; over the trigger it always is."""
    if ask.force:
        return None
    if ask.span is None and ask.target_percent is not None:
        if fill.percent > ask.target_percent:
            return _few(session, policy, fill, count)
        return _prepared(session, policy, fill) or _met(fill, ask.target_percent)
    if fill.percent >= policy.trigger_percent:
        return None
    if ask.span is not None:
        return _few(session, policy, fill, count)
    return (
        _prepared(session, policy, fill)
        or _few(session, policy, fill, count)
        or _below_release(session, policy, fill, count)
        or _too_soon(session, policy, fill, count)
    )


def held_by(sheet: WindowPlan, fill: Fill) -> str:
    """What a window is held by, each with its tokens."""
    system = _system(fill)
    tokens = {
        "system and tools": system,
        "pins": sheet.fixed - system,
        "the first request": sheet.head_tokens,
        "recent steps": _steps(sheet, are_recent=True),
        "older steps": _steps(sheet, are_recent=False),
        "digests": sheet.tokens
        - sheet.fixed
        - sheet.head_tokens
        - sum(block.tokens for block in sheet.blocks if isinstance(block, StepBlock)),
    }
    return ", ".join(f"{name} {kilo(fill.scaled(n))}" for name, n in tokens.items() if n)


def _system(fill: Fill) -> int:
    parts = dict(fill.parts)
    return parts["system and tools"] + parts["memory"] + parts["unseen"]


def _steps(sheet: WindowPlan, *, are_recent: bool) -> int:
    blocks = (block for block in sheet.blocks if isinstance(block, StepBlock))
    return sum(block.tokens for block in blocks if (block.guard is not None) == are_recent)


def _held(session: Session, policy: Policy, fill: Fill, count: CountTokens) -> str:
    parts = dict(fill.parts)
    fixed = _system(fill) + parts["pinned"]
    sheet = blocks_of(session, in_counted_tokens(policy, fill), fixed, parts["index"], count)
    return held_by(sheet.model_copy(update={"promoted": parts["promoted"]}), fill)


def _filled(fill: Fill) -> str:
    return f"{kilo(fill.tokens)} of {kilo(fill.window)} tokens is {fill.percent:.0f} %"


def _met(fill: Fill, target: float) -> NothingToDo:
    return NothingToDo(
        text=f"nothing to do: {_filled(fill)}, already within {target:g} %. Go on, or name a lower "
        "target."
    )


def _few(session: Session, policy: Policy, fill: Fill, count: CountTokens) -> Refusal | None:
    number = len(session.messages)
    if number >= policy.min_messages_to_compact or fill.percent >= policy.trigger_percent:
        return None
    return Refusal(
        text=f"not compressed: {number} messages in the window, fewer than "
        f"{policy.min_messages_to_compact}; {_filled(fill)}, held by "
        f"{_held(session, policy, fill, count)}. Nothing to gain yet; go on."
    )


def _below_release(
    session: Session, policy: Policy, fill: Fill, count: CountTokens
) -> Refusal | None:
    if fill.percent > policy.release_percent:
        return None
    worth = min(policy.release_percent + policy.min_gain_percent, policy.trigger_percent)
    where = "at" if round(fill.percent) >= policy.release_percent else "below"
    return Refusal(
        text=f"not compressed: {_filled(fill)}, {where} the {policy.release_percent:g} % a "
        f"compaction goes down to; held by {_held(session, policy, fill, count)}. Worth it from "
        f"about {worth:g} % ({kilo(policy.share(worth))}). Go on; force=true compresses all the "
        "same."
    )


def _prepared(session: Session, policy: Policy, fill: Fill) -> NothingToDo | None:
    """Where the window is the host's, a view that is ready frees nothing by being made again."""
    last = _last_compaction(session)
    if last is None or session.info.traits.owns_window:
        return None
    since = _since(session, policy, fill)
    if since >= policy.min_gain_tokens and fill.percent > policy.release_percent:
        return None
    return NothingToDo(
        text=f"already prepared: {last.ref} {kilo(last.before)} -> {kilo(last.after)} of "
        f"{kilo(last.window)} tokens, {kilo(since)} said since. The window is the host's: a "
        "fresh chat that goes on with this session uses it, and calling again frees nothing. Go on."
    )


def _too_soon(session: Session, policy: Policy, fill: Fill, count: CountTokens) -> Refusal | None:
    """The cool-down, and the stop where the last compaction could not reach the same goal."""
    last = _last_compaction(session)
    if last is None or last.target is None or last.target > policy.release_tokens:
        return None  # it was not meant to go as far as this one would
    least = policy.min_gain_tokens
    since = _since(session, policy, fill)
    if since >= least:
        return None
    later = f"Worth it when {kilo(least - since)} more are said, or at {policy.trigger_percent:g} %"
    now = f"{_filled(fill)}, held by {_held(session, policy, fill, count)}"
    if last.shortfall is not None:
        return Refusal(
            text=f"not compressed: {last.ref} ended at {kilo(last.after)}, above its target of "
            f"{kilo(last.target)}, with {kilo(since)} tokens said since. {now}. {later}. To get "
            "lower, release pins that are done, shorten the system prompt or the tools, or set a "
            "larger window; otherwise go on."
        )
    number, freed = len(_said(session)), last.before - last.after
    if number >= policy.min_messages_to_compact and freed >= least:
        return None
    return Refusal(
        text=f"not compressed: {last.ref} freed {kilo(freed)} tokens {number} messages ago, with "
        f"{kilo(since)} tokens said since. {now}. {later}. Go on; force=true compresses all the "
        "same."
    )


def _last_compaction(session: Session) -> Receipt | None:
    """The compaction whose view still stands; one that was undone counts for nothing."""
    last = session.last_compaction
    return last if last is not None and last.kind == "compress" else None


def _said(session: Session) -> list[int]:
    """The tokens of each message since the last view."""
    return [message.tokens for message in session.messages if message.seq > session.view.upto]


def _since(session: Session, policy: Policy, fill: Fill) -> int:
    return fill.scaled(sum(tokens + policy.overhead_per_message for tokens in _said(session)))

"""The reasons why nothing was done or the goal was missed, with the numbers and the next step."""

from __future__ import annotations

from mcp_compaction.core.compaction.budget import Held, Shortfall
from mcp_compaction.core.compaction.ladder.summarize import LEAST_TOKENS
from mcp_compaction.core.compaction.plan import Plan
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.window.fill import Fill
from mcp_compaction.core.wording import kilo, plural
from mcp_compaction.model import Receipt

DIGEST_AS_LARGE = "nothing to do: the digest would be as large as what it stands for. Go on."
SHOWN_ALREADY = "nothing to do: the window shows all of that whole. Go on."
WINDOW_OF_HOST = (
    "not paged in: this window is the host's, and only the host can show more in it. Read the "
    "messages with recall_archived instead."
)
NOTHING_TO_PREPARE = "nothing to prepare: nothing was said since the last time. Go on."
RESTORE_OVERTAKEN = "not restored: the view changed meanwhile. Call again."
PAGING_OVERTAKEN = "not paged in: the view changed meanwhile. Call again."
PROCESS_ENDED = (
    "not compressed: the process that did it ended before it was done; nothing is half done, and "
    "context_stats tells what stands. Call again."
)

# By whether there are sections and whether there are pins: what they are, what may be shortened.
_FIXED = {
    (True, True): ("system, tools and pins", "the system prompt, the tools or the pins"),
    (True, False): ("system and tools", "the system prompt or the tools"),
    (False, True): ("pins", "the pins"),
    (False, False): ("nothing fixed", "nothing"),  # it takes no tokens, so it is never told
}


def describe_shortfall(shortfall: Shortfall, fill: Fill) -> str:
    """What keeps the window above the goal, with the numbers."""
    held = shortfall.held
    fixed, long = _FIXED[bool(held.system), bool(held.pins)]
    names = _list_tokens(
        fill,
        (fixed, held.fixed),
        ("the first request", held.first_request),
        ("recent steps", held.recent_steps + held.older_steps),
        ("digests", held.digests),
        ("excerpts", held.excerpts),
    )
    reached, wanted = (kilo(fill.scaled(n)) for n in (shortfall.after, shortfall.goal))
    text = f"{reached} is above the target of {wanted}: held by {names}"
    if shortfall.is_fixed:
        text += (
            f". The fixed sections alone take {kilo(fill.scaled(held.fixed))} of "
            f"{kilo(fill.window)}: shorten {long}"
        )
    return text


def _describe_held(held: Held, fill: Fill) -> str:
    return _list_tokens(
        fill,
        ("system and tools", held.system),
        ("pins", held.pins),
        ("the first request", held.first_request),
        ("recent steps", held.recent_steps),
        ("older steps", held.older_steps),
        ("digests", held.digests + held.excerpts),
    )


def _list_tokens(fill: Fill, *held: tuple[str, int]) -> str:
    return ", ".join(f"{name} {kilo(fill.scaled(tokens))}" for name, tokens in held if tokens)


def _describe_fill(fill: Fill) -> str:
    return f"{kilo(fill.tokens)} of {kilo(fill.window)} tokens is {fill.percent:.0f} %"


def explain_target_met(fill: Fill, target: float) -> str:
    """The window is within its target already."""
    return (
        f"nothing to do: {_describe_fill(fill)} of the window, already within {target:.3g} %. Go "
        "on, or name a lower target."
    )


def explain_prepared(last: Receipt, since: int) -> str:
    """The view that a fresh chat starts from is ready already."""
    return (
        f"already prepared: {last.ref} {kilo(last.before)} -> {kilo(last.after)} of "
        f"{kilo(last.window)} tokens, {kilo(since)} said since. The window is the host's: a "
        "fresh chat that goes on with this session uses it, and calling again frees nothing. Go on."
    )


def explain_all_needed(held: Held, shortfall: Shortfall | None, fill: Fill, policy: Policy) -> str:
    """Nothing in the window can give way."""
    if shortfall is None:
        return (
            f"nothing to do: {kilo(fill.tokens)} of {kilo(fill.window)} tokens is all recent or "
            "needed. Go on; a target_percent below that, or a span, takes in recent steps too."
        )
    reason = describe_shortfall(shortfall, fill)
    less = ["pin less"] * bool(held.pins) + ["shorten the fixed sections"] * bool(held.system)
    if held.older_steps and not shortfall.is_fixed:
        reason += (
            f". A digest of the older {kilo(fill.scaled(held.older_steps))} would free too little"
        )
        if held.older_steps < LEAST_TOKENS:
            reason += f": it pays from {LEAST_TOKENS} tokens on, and they stay until they are that"
            less += ["raise compaction_ratio"] * (policy.compaction_ratio is not None)
    go_on = f"Go on, or {' and '.join(less)}." if less else "Go on."
    return f"nothing to do: {reason}. {go_on}"


def explain_few_messages(number: int, least: int, fill: Fill, held: Held) -> str:
    """The window has too few messages."""
    return (
        f"not compressed: {plural(number, 'message')} in the window, fewer than {least}; "
        f"{_describe_fill(fill)}, held by {_describe_held(held, fill)}. Nothing to gain yet; go on."
    )


def explain_below_release(worth: float, policy: Policy, fill: Fill, held: Held) -> str:
    """The window is not above what a compaction goes down to; it pays from `worth` percent on."""
    where = "at" if round(fill.percent) >= policy.release_percent else "below"
    return (
        f"not compressed: {_describe_fill(fill)}, {where} the {policy.release_percent:.3g} % a "
        f"compaction goes down to; held by {_describe_held(held, fill)}. Worth it from "
        f"about {worth:.3g} % ({kilo(policy.share(worth))}). Go on; force=true compresses all the "
        "same."
    )


def explain_no_progress(last: Receipt, since: int, policy: Policy, fill: Fill, held: Held) -> str:
    """The last compaction could not reach the same goal, and little was said since."""
    return (
        f"not compressed: {last.ref} ended at {kilo(last.after)}, above its target of "
        f"{kilo(last.target or 0)}, with {_wait(since, policy, fill, held)} To get lower, release "
        "pins that are done, shorten the system prompt or the tools, or set a larger window; "
        "otherwise go on."
    )


def explain_too_soon(
    last: Receipt, messages: int, since: int, policy: Policy, fill: Fill, held: Held
) -> str:
    """The last compaction was a short while ago, and little was said since."""
    return (
        f"not compressed: {last.ref} freed {kilo(last.before - last.after)} tokens {messages} "
        f"messages ago, with {_wait(since, policy, fill, held)} Go on; force=true compresses all "
        "the same."
    )


def _wait(since: int, policy: Policy, fill: Fill, held: Held) -> str:
    return (
        f"{kilo(since)} tokens said since. {_describe_fill(fill)}, held by "
        f"{_describe_held(held, fill)}. Worth it when {kilo(policy.min_gain_tokens - since)} more "
        f"are said, or at {policy.trigger_percent:.3g} %."
    )


def explain_too_little(plan: Plan, fill: Fill, policy: Policy) -> str:
    """The plan would free too little."""
    least = round(fill.window * policy.min_gain_percent / 100)
    goal = f"{100 * (plan.goal or 0) / policy.window_tokens:.3g}"
    shortfall = plan.shortfall()
    if shortfall is None:
        doing = f"getting down to {goal} %"
        left = f"the rest is held by {_describe_held(plan.held, fill)}"
    else:
        doing, left = "it", describe_shortfall(shortfall, fill)
    # Where a target was asked for and is out of reach, a lower one does not help.
    is_lowest = shortfall is not None and plan.goes_on
    lower = "" if is_lowest else f"pass target_percent below {goal} for more, "
    return (
        f"not compressed: {doing} would free about {kilo(fill.scaled(plan.gain))} of "
        f"{kilo(fill.window)} tokens, less than {policy.min_gain_percent:.3g} % ({kilo(least)}), "
        f"from which on it is worth it; the fill is {fill.percent:.0f} %, {left}. "
        f"Go on until more steps are done, {lower}or pass force=true."
    )


def explain_being_compacted(name: str, waited: float) -> str:
    """Another compacts the same session, and `waited` seconds were not enough for it to end."""
    return (
        f"not compressed: another compaction of {name} has been under way for over {waited:g} s, "
        "and its view will count. Go on; context_stats tells when it is there."
    )


def explain_no_window_changed(ref: str) -> str:
    """A compaction that only kept a digest cannot be undone."""
    return (
        f"nothing to restore: {ref} only kept your digest and changed no window. Write a better "
        "one with compress_context; where they disagree the later stands."
    )


def explain_undone(ref: str) -> str:
    """The window is what it was before a compaction."""
    return f"nothing to restore: {ref} is already undone; nothing was changed."


def explain_no_room_to_restore(after: Fill) -> str:
    """The window is too small for the view before a compaction."""
    return (
        f"not restored: the window would hold {kilo(after.tokens)} of {kilo(after.window)} tokens. "
        "Pass force=true if the host has room for it."
    )


def explain_no_room_for_paging(refs: str, after: Fill) -> str:
    """The window is too small for messages that were to be shown again."""
    return (
        f"not paged in: with {refs} the window would hold {kilo(after.tokens)} of "
        f"{kilo(after.window)} tokens. Ask for less, or make room first."
    )


# Why it came to nothing


def explain_error(error: str) -> str:
    """A compaction that was asked for ended in an error that nobody foresaw."""
    return (
        f"not compressed: {error} while planning; the session is as it was. Go on, and report this "
        "with the log."
    )


def explain_relief_error(reason: str) -> str:
    """A compaction that nobody asked for ended in an error."""
    return f"not compressed: {reason} The session is as it was; go on."


def explain_overtaken(name: str, times: int) -> str:
    """Others changed the view each time a compaction of it was to be saved."""
    return (
        f"not compressed: the view of {name} changed {times} times meanwhile; the session is as it "
        "was. Call again."
    )

"""The sentences about a compaction that a caller reads: receipts, refusals, shortfalls, notes.

Why a draft was refused or stripped stands in `digest/check`, which lies below.
"""

from __future__ import annotations

from mcp_compaction.core.compaction.held import Held, Shortfall
from mcp_compaction.core.compaction.ladder import shown_as
from mcp_compaction.core.compaction.plan import Plan
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.text.injection import defuse
from mcp_compaction.core.window.fill import Fill
from mcp_compaction.core.wording import kilo, plural
from mcp_compaction.model import (
    NO_DIGEST,
    OWN_AUTHORS,
    Candidate,
    Mode,
    Offer,
    Outcome,
    Projection,
    Receipt,
    Spent,
    Tally,
)

_MOST_QUOTED = 120
_NO_MODEL = (*OWN_AUTHORS, NO_DIGEST)
_VERBS = {"restore": "restored", "page_in": "paged in"}

NO_ROOM_FOR_PROSE = "the model's prose said nothing new or had no room, and was left out"
DIGEST_AS_LARGE = "nothing to do: the digest would be as large as what it stands for. Go on."


def outcome_text(outcome: Outcome, mode: Mode = "own", session: str = "") -> str:
    """What a caller is told; `session`: the name by which a fresh chat goes on."""
    match outcome.kind:
        case "compaction":
            return receipt_text(outcome.receipt, mode, session)
        case "projection":
            return projection_text(outcome)
        case _:
            return outcome.text


def would_not_pay(outcome: Outcome) -> str:
    """Why compressing now frees nothing, to one who only asked how things stand."""
    reason = outcome_text(outcome).removeprefix("not compressed: ").removeprefix("nothing to do: ")
    return f"compressing now would not pay: {reason}"


def receipt_text(receipt: Receipt, mode: Mode = "own", session: str = "") -> str:
    """A receipt in short lines."""
    if receipt.kind == "digest":
        return _own_digest_text(receipt, session)
    spans = ", ".join(f"m{r.first}..m{r.last} is now d{r.digest}" for r in receipt.replaced)
    verb = _VERBS.get(receipt.kind, "done")
    size = f"{kilo(receipt.before)} -> {kilo(receipt.after)} of {kilo(receipt.window)} tokens"
    lines = [
        f"{receipt.ref} {verb}: {size} ({receipt.precision}).{' ' + spans + '.' if spans else ''}"
    ]
    if receipt.freed:
        lines.append("freed: " + _freed_text(receipt.freed))
    models = [name for name in receipt.author.split(", ") if name not in _NO_MODEL]
    if models:
        lines.append(f"prose by {defuse(', '.join(models))}, laid onto what was extracted")
    lines += _checked_lines(receipt.tallies)
    if receipt.shortfall:
        lines.append(f"shortfall: {receipt.shortfall}")
    lines += [f"note: {defuse(note)}" for note in receipt.notes]
    lines += offer_lines(receipt.offer)
    lines.append(_window_line(receipt, mode, session))
    return "\n".join(lines)


def offer_lines(offer: Offer) -> list[str]:
    """Rules a user stated and nobody has pinned, and how to; none where there are none."""
    if not offer.candidates:
        return []
    more = f"; {offer.more} more after these" if offer.more else ""
    return [
        *(f"rule not pinned? {_quotation_of(candidate)}" for candidate in offer.candidates),
        f"to keep one in sight: pin_constraint with its exact words{more}",
    ]


def spent_line(spent: Spent) -> str:
    """What summarizers took for a session, apart from what the agent itself takes: `system`."""
    calls = plural(spent.calls, "model call")
    failed = f" ({spent.failed:,} failed)" if spent.failed else ""
    cached = f" ({kilo(spent.cached_tokens)} cached)" if spent.cached_tokens else ""
    tokens = f"{kilo(spent.input_tokens)} tokens in{cached}, {kilo(spent.output_tokens)} out"
    cost = f", ${spent.cost:.4f}" if spent.cost else ""
    return f"system: {calls}{failed}, {tokens}{cost}, {spent.seconds:.1f} s"


def projection_text(projection: Projection) -> str:
    """What a dry run found."""
    spans = ", ".join(f"m{first}..m{last}" for first, last in projection.spans)
    lines = [
        f"dry run: {kilo(projection.before)} -> at most {kilo(projection.after)} of "
        f"{kilo(projection.window)} tokens ({projection.precision}). Nothing was changed."
    ]
    if projection.freed:
        lines.append("would free: " + _freed_text(projection.freed))
    if spans:
        lines.append(f"would become a digest: {spans}")
    if projection.shortfall:
        lines.append(f"shortfall: {projection.shortfall}")
    return "\n".join(lines)


def _quotation_of(candidate: Candidate) -> str:
    ref, text = candidate.ref, defuse(candidate.text)
    who = f"{ref} user, as the agent told it" if candidate.is_told else f"{ref} user"
    if len(text) > _MOST_QUOTED:
        text = f"{text[: _MOST_QUOTED + 1].rsplit(maxsplit=1)[0][:_MOST_QUOTED]} …"
    shown = f'{who}: "{text}"'
    return shown if text == candidate.text else f"{shown}; pin it word for word from {ref}"


def _freed_text(freed: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{shown_as(rung)} {kilo(tokens)}" for rung, tokens in freed if tokens > 0)


def _checked_lines(tallies: tuple[Tally, ...]) -> list[str]:
    if not tallies:
        return []
    lines = [t for t in tallies if t.kind in ("rules", "open tasks")]
    things = [t for t in tallies if t not in lines]
    found = [f"{t.kind} {t.retained}/{t.total} in view" for t in lines]
    found += [f"{t.kind} {t.retained} in view, {t.recoverable} by recall" for t in things]
    return [f"checked: {'; '.join(found)}; lost {sum(t.lost for t in tallies)}"]


def _window_line(receipt: Receipt, mode: Mode, session: str) -> str:
    undo = f"undo: restore_context {receipt.ref}"
    if mode != "own":
        what = "as it was" if receipt.kind == "restore" else "smaller"
        return (
            f"window: the host's, and unchanged; {what} is the view that a fresh chat starts from."
            f"{_fresh_chat_text(session)}\n{undo}"
        )
    if receipt.kind == "restore":
        return f"window: as it was, with everything said since.\nnext: go on. {undo}"
    size = "larger" if receipt.kind == "page_in" else "smaller"
    return f"window: {size} from your next step. {undo}"


def _own_digest_text(receipt: Receipt, session: str) -> str:
    name = f' as "{session}"' if session else ""
    return (
        f"{receipt.ref} saved{name}: your digest is kept as d{receipt.replaced[0].digest}. It "
        f"stands for nothing that was recorded, so it is unchecked.{_fresh_chat_text(session)}"
    )


def _fresh_chat_text(session: str) -> str:
    if not session:
        return ""
    return f' Tell the user: "For a fresh window open a new chat and write: continue {session}"'


# Notes


def note_of_additions(rules: int, tasks: int) -> tuple[str, ...]:
    """The note on lines that an agent's own digest left out; none where it left out none."""
    added = [plural(n, noun) for n, noun in ((rules, "rule"), (tasks, "open task")) if n]
    return (f"your digest did not name {' and '.join(added)}: added",) if added else ()


def note_of_restore(undone: str) -> str:
    """The note on a step back to an earlier view."""
    return f"undone: {undone}"


def note_of_paging(refs: str) -> str:
    """The note on messages that the window shows again."""
    return f"shown whole again: {refs}"


# What holds the window

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


# Why nothing is done


def explain_target_met(fill: Fill, target: float) -> str:
    """The window is within its target already."""
    return (
        f"nothing to do: {_describe_fill(fill)}, already within {target:g} %. Go on, or name a "
        "lower target."
    )


def explain_prepared(last: Receipt, since: int) -> str:
    """The view that a fresh chat starts from is ready already."""
    return (
        f"already prepared: {last.ref} {kilo(last.before)} -> {kilo(last.after)} of "
        f"{kilo(last.window)} tokens, {kilo(since)} said since. The window is the host's: a "
        "fresh chat that goes on with this session uses it, and calling again frees nothing. Go on."
    )


def explain_all_needed(held: Held, shortfall: Shortfall | None, fill: Fill) -> str:
    """Nothing in the window can give way."""
    reason = f"{kilo(fill.tokens)} of {kilo(fill.window)} tokens is all recent or needed"
    if shortfall is not None:
        reason = describe_shortfall(shortfall, fill)
    less = ["pin less"] * bool(held.pins) + ["shorten the fixed sections"] * bool(held.system)
    go_on = f"Go on, or {' and '.join(less)}." if less else "Go on."
    return f"nothing to do: {reason}. {go_on}"


def explain_few_messages(number: int, least: int, fill: Fill, held: Held) -> str:
    """The window has too few messages."""
    return (
        f"not compressed: {number} messages in the window, fewer than {least}; "
        f"{_describe_fill(fill)}, held by {_describe_held(held, fill)}. Nothing to gain yet; go on."
    )


def explain_below_release(worth: float, policy: Policy, fill: Fill, held: Held) -> str:
    """The window is not above what a compaction goes down to; it pays from `worth` percent on."""
    where = "at" if round(fill.percent) >= policy.release_percent else "below"
    return (
        f"not compressed: {_describe_fill(fill)}, {where} the {policy.release_percent:g} % a "
        f"compaction goes down to; held by {_describe_held(held, fill)}. Worth it from "
        f"about {worth:g} % ({kilo(policy.share(worth))}). Go on; force=true compresses all the "
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
        f"are said, or at {policy.trigger_percent:g} %."
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
        f"{kilo(fill.window)} tokens, less than {policy.min_gain_percent:g} % ({kilo(least)}), "
        f"from which on it is worth it; the fill is {fill.percent:.0f} %, {left}. "
        f"Go on until more steps are done, {lower}or pass force=true."
    )

"""Builds outcomes: the compaction with its receipt, the projection of a dry run, the refusals."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from mcp_compaction.core.compaction.blocks import (
    Freed,
    SpanBlock,
    StepBlock,
    window_of,
)
from mcp_compaction.core.compaction.budget import (
    excerpts_limit,
    held_by,
    in_model_tokens,
)
from mcp_compaction.core.compaction.plan import Plan
from mcp_compaction.core.compaction.progress import Inputs, Progress
from mcp_compaction.core.compaction.receipt import describe_held, describe_shortfall
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.window.fill import Fill
from mcp_compaction.core.wording import kilo
from mcp_compaction.model import (
    NO_DIGEST,
    Ask,
    Compaction,
    Digested,
    NothingToDo,
    Projection,
    Receipt,
    Refusal,
    Replaced,
    Session,
    Tally,
    View,
)

_CHANGES = {"restore": ("undo", "undone"), "page_in": ("page in", "shown whole again")}


def compaction_of(
    before: Session, progress: Progress, inputs: Inputs, after: Fill, checked: tuple[Tally, ...]
) -> Compaction:
    """The finished compaction; `after`: the fill of its view."""
    number, fill, goal = before.next_compaction, inputs.fill, progress.plan.wanted
    view = progress.session.view.model_copy(
        update={"version": before.view.version + 1, "compaction": number}
    )
    window = window_of(progress.session, inputs.policy, after, dict(after.parts)["pinned"])
    shortfall = progress.plan.shortfall(after.counted, held_by(window))
    gain, excerpts = fill.counted - after.counted, dict(after.parts)["promoted"]
    receipt = Receipt(
        compaction=number,
        reason=inputs.ask.reason,
        at=inputs.now,
        strategy=inputs.ask.strategy,
        before=fill.tokens,
        after=fill.scaled(after.counted),
        window=fill.window,
        precision=fill.precision,
        freed=freed_by_rung(progress.freed, fill, gain, excerpts),
        replaced=_replaced_spans(view, progress),
        pins=len(before.pins),
        tallies=checked,
        target=None if goal is None else fill.scaled(goal),
        shortfall=shortfall and describe_shortfall(shortfall, fill),
        held_by=shortfall.held.tokens_by_holder(fill) if shortfall else (),
        author=", ".join(dict.fromkeys(d.author for d in progress.digests)) or NO_DIGEST,
        notes=tuple(dict.fromkeys(progress.notes)),
    )
    return Compaction(
        base_version=before.view.version,
        view=view,
        digests=progress.digests,
        receipt=receipt,
        running=inputs.running,
    )


def _replaced_spans(view: View, progress: Progress) -> tuple[Replaced, ...]:
    new = {digest.number: digest for digest in progress.digests}
    return tuple(
        Replaced(first=new[e.digest].first, last=new[e.digest].last, digest=e.digest)
        for e in view.body
        if isinstance(e, Digested) and e.digest in new
    )


def freed_by_rung(freed: Freed, fill: Fill, total: int, excerpts: int = 0) -> Freed:
    """What each rung freed, in the model's tokens; what a digest saves beyond the plan counts too.

    Excerpts of the new view are taken off what dropping the old ones freed: they came back.
    """
    by_rung: dict[str, int] = {}
    for rung, tokens in freed:
        by_rung[rung] = by_rung.get(rung, 0) + tokens
    if "drop_excerpts" in by_rung:
        by_rung["drop_excerpts"] = max(0, by_rung["drop_excerpts"] - excerpts)
    newest: str = "merge" if "merge" in by_rung else "summarize"
    if newest not in by_rung:
        newest = freed[-1][0]
    by_rung[newest] += total - sum(by_rung.values())
    return tuple((rung, fill.scaled(tokens)) for rung, tokens in by_rung.items())


def change_of_view(
    session: Session,
    view: View,
    kind: Literal["restore", "page_in"],
    refs: str,
    fills: tuple[Fill, Fill],
    now: datetime,
) -> Compaction:
    """A view that no compaction made, with a receipt of its own by which it can be undone: the step
    back to an earlier one, or one that shows messages again."""
    before, after = fills
    number, version = session.next_compaction, session.view.version + 1
    reason, note = _CHANGES[kind]
    receipt = Receipt(
        compaction=number,
        kind=kind,
        reason=f"{reason} {refs}",
        at=now,
        before=before.tokens,
        after=after.tokens,
        window=after.window,
        precision=after.precision,
        pins=len(session.pins),
        notes=(f"{note}: {refs}",),
    )
    return Compaction(
        base_version=session.view.version,
        view=view.model_copy(update={"version": version, "compaction": number}),
        digests=(),
        receipt=receipt,
    )


def projection(plan: Plan, ask: Ask, fill: Fill) -> Projection:
    """What a dry run found, in a window with all that fills the room below the goal; lines that
    must stay, such as rules, may lift it a little above."""
    blocks = plan.window.blocks
    spans = tuple((b.steps[0].first, b.steps[-1].last) for b in blocks if isinstance(b, SpanBlock))
    has_room = plan.goal is not None and not all(isinstance(block, StepBlock) for block in blocks)
    left = max(0, plan.budget.target - plan.window.tokens) if has_room else 0
    excerpts = excerpts_limit(left, plan.gain, ask)
    filled = min(left, excerpts + plan.budget.names)
    budget = plan.budget.model_copy(update={"excerpts": excerpts})
    most = min(fill.counted - 1, plan.window.tokens + filled)
    shortfall = plan.shortfall()
    return Projection(
        before=fill.tokens,
        after=fill.scaled(most),
        window=fill.window,
        precision=fill.precision,
        freed=freed_by_rung(plan.window.freed, fill, fill.counted - most),
        spans=spans,
        shortfall=shortfall and describe_shortfall(shortfall, fill),
        held_by=shortfall.held.tokens_by_holder(fill) if shortfall else (),
        budget=None if plan.goal is None else in_model_tokens(budget, fill),
    )


def nothing_to_do(plan: Plan, fill: Fill) -> NothingToDo:
    """The outcome of a plan that frees nothing."""
    held, shortfall = plan.held, plan.shortfall(fill.counted)
    if shortfall is None:
        reason = f"{kilo(fill.tokens)} of {kilo(fill.window)} tokens is all recent or needed"
        next_step = "Go on; a target_percent below that, or a span, takes in recent steps too."
    else:
        reason = describe_shortfall(shortfall, fill)
        less = ["pin less"] * bool(held.pins) + ["shorten the fixed sections"] * bool(held.system)
        if held.older_steps and not shortfall.is_fixed:
            older = kilo(fill.scaled(held.older_steps))
            reason += f". A digest of the older {older} would free too little"
        next_step = f"Go on, or {' and '.join(less)}." if less else "Go on."
    return NothingToDo(
        reason="all_needed",
        held_by=held.tokens_by_holder(fill),
        text=f"nothing to do: {reason}. {next_step}",
    )


def too_little_gain(plan: Plan, fill: Fill, policy: Policy) -> Refusal:
    """The outcome of a plan that frees less than it must."""
    least = round(fill.window * policy.min_gain_percent / 100)
    goal = f"{100 * (plan.goal or 0) / policy.window_tokens:.3g}"
    shortfall = plan.shortfall()
    if shortfall is None:
        doing = f"getting down to {goal} %"
        left = f"the rest is held by {describe_held(plan.held, fill)}"
    else:
        doing, left = "it", describe_shortfall(shortfall, fill)
    # Where a target was asked for and is out of reach, a lower one does not help.
    is_lowest = shortfall is not None and plan.goes_on
    lower = "" if is_lowest else f"pass target_percent below {goal} for more, "
    return Refusal(
        reason="too_little_gain",
        held_by=plan.held.tokens_by_holder(fill),
        text=f"not compressed: {doing} would free about {kilo(fill.scaled(plan.gain))} of "
        f"{kilo(fill.window)} tokens, less than {policy.min_gain_percent:.3g} % ({kilo(least)}), "
        f"from which on it is worth it; the fill is {fill.percent:.0f} %, {left}. "
        f"Go on until more steps are done, {lower}or pass force=true.",
    )

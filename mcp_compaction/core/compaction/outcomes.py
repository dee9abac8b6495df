"""Builds outcomes: the compaction with its receipt, the projection of a dry run, the refusals."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from mcp_compaction.core.compaction.blocks import (
    Freed,
    SpanBlock,
    StepBlock,
    find_unread,
    window_of,
)
from mcp_compaction.core.compaction.budget import (
    Shortfall,
    excerpts_limit,
    held_by,
    in_model_tokens,
)
from mcp_compaction.core.compaction.ladder.summarize import LEAST_TO_DIGEST
from mcp_compaction.core.compaction.plan import Plan
from mcp_compaction.core.compaction.progress import Inputs, Progress
from mcp_compaction.core.compaction.receipt.notes import PartShown, note_of_unread
from mcp_compaction.core.compaction.receipt.reasons import describe_held, describe_shortfall
from mcp_compaction.core.log.content import calls_by_id, text_of
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.window.fill import Fill
from mcp_compaction.core.wording import kilo
from mcp_compaction.model import (
    NO_DIGEST,
    Ask,
    Budget,
    Compaction,
    Digested,
    NothingToDo,
    Projection,
    Receipt,
    Refusal,
    Replaced,
    Session,
    Tally,
    ToolResult,
    Trimmed,
    View,
)


def compaction_of(
    before: Session, progress: Progress, inputs: Inputs, after: Fill, checked: tuple[Tally, ...]
) -> Compaction:
    """The finished compaction; `after`: the fill of its view."""
    number, fill, goal = before.next_compaction, inputs.fill, progress.plan.goal
    view = progress.session.view.model_copy(
        update={"version": before.view.version + 1, "compaction": number}
    )
    shortfall = _shortfall_of(progress, inputs, after)
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
        notes=tuple(dict.fromkeys((*progress.notes, *note_of_unread(_parts_shown(before, view))))),
    )
    return Compaction(
        base_version=before.view.version, view=view, digests=progress.digests, receipt=receipt
    )


def _shortfall_of(progress: Progress, inputs: Inputs, after: Fill) -> Shortfall | None:
    """What keeps the finished view above its goal; None where the goal is reached."""
    goal = progress.plan.goal
    if goal is None or after.counted <= goal:
        return None
    pinned = dict(after.parts)["pinned"]
    window = window_of(progress.session, inputs.policy, after, pinned, inputs.count)
    return Shortfall(after=after.counted, goal=goal, held=held_by(window))


def _parts_shown(before: Session, view: View) -> list[PartShown]:
    """The unread results that a view shows in part."""
    calls, unread = calls_by_id(before.messages), find_unread(before)
    messages = {message.seq: message for message in before.messages if message.seq in unread}
    return [
        PartShown(
            ref=messages[entry.seq].ref,
            tool=calls[cut.shown.call].name if cut.shown.call in calls else "result",
            shown=len(cut.shown.text),
            whole=len(text_of(messages[entry.seq].parts[cut.part])),
        )
        for entry in view.body
        if isinstance(entry, Trimmed) and entry.seq in messages
        for cut in entry.cuts
        if isinstance(cut.shown, ToolResult)
    ]


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


def restoration(
    session: Session, view: View, undone: tuple[str, ...], fills: tuple[Fill, Fill], now: datetime
) -> Compaction:
    """The step back to an earlier view, as a view and a receipt of its own."""
    what = ", ".join(undone)
    words = (f"undo {what}", f"undone: {what}")
    return _change_of_view(session, view, "restore", words, fills, now)


def paging_in(
    session: Session, view: View, refs: str, fills: tuple[Fill, Fill], now: datetime
) -> Compaction:
    """A view that shows messages again, with a receipt of its own by which it can be undone."""
    words = (f"page in {refs}", f"shown whole again: {refs}")
    return _change_of_view(session, view, "page_in", words, fills, now)


def _change_of_view(
    session: Session,
    view: View,
    kind: Literal["restore", "page_in"],
    words: tuple[str, str],  # the reason, and the note
    fills: tuple[Fill, Fill],
    now: datetime,
) -> Compaction:
    """A view that no compaction made, with its receipt."""
    before, after = fills
    number, version = session.next_compaction, session.view.version + 1
    receipt = Receipt(
        compaction=number,
        kind=kind,
        reason=words[0],
        at=now,
        before=before.tokens,
        after=after.tokens,
        window=after.window,
        precision=after.precision,
        pins=len(session.pins),
        notes=words[1:],
    )
    return Compaction(
        base_version=session.view.version,
        view=view.model_copy(update={"version": version, "compaction": number}),
        digests=(),
        receipt=receipt,
    )


def projection(plan: Plan, ask: Ask, policy: Policy, fill: Fill) -> Projection:
    """What a dry run found, in a window with all that fills the room below the goal."""
    blocks = plan.window.blocks
    spans = tuple((b.steps[0].first, b.steps[-1].last) for b in blocks if isinstance(b, SpanBlock))
    left, freed = max(0, plan.budget.target - plan.window.tokens), plan.gain
    excerpts = excerpts_limit(left, freed, policy, ask)
    budget = plan.budget.model_copy(update={"excerpts": excerpts})
    most = plan.window.tokens + _room_to_fill(plan, budget)
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


def _room_to_fill(plan: Plan, budget: Budget) -> int:
    """About the most tokens that a view takes beyond its plan; lines that must stay, such as rules,
    may lift it a little above its goal."""
    left, blocks = max(0, budget.target - plan.window.tokens), plan.window.blocks
    steps = [block for block in blocks if isinstance(block, StepBlock)]
    if plan.goal is None:
        return 0
    if any(
        isinstance(e, Trimmed) and e.seq in block.unread for block in steps for e in block.entries
    ):
        return left
    has_digests = len(steps) < len(blocks)
    return min(left, budget.excerpts + min(budget.names, plan.gain // 2)) if has_digests else 0


def nothing_to_do(plan: Plan, fill: Fill, policy: Policy) -> NothingToDo:
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
        if 0 < held.older_steps < LEAST_TO_DIGEST:
            reason += (
                f": it pays from {LEAST_TO_DIGEST} tokens on, and they stay until they are that"
            )
            less += ["raise compaction_ratio"] * (policy.compaction_ratio is not None)
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

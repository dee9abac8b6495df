"""Puts an outcome into words and numbers: the receipt, the projection, the refusals."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, NamedTuple

from mcp_compaction.core.compaction.blocks import SpanBlock
from mcp_compaction.core.compaction.gate import held_by
from mcp_compaction.core.compaction.plan import Plan, fixed_by, shortfall
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.window.fill import Fill
from mcp_compaction.core.wording import kilo
from mcp_compaction.model import Compaction, Projection, Receipt, Session, View

Freed = tuple[tuple[str, int], ...]


def freed_by_rung(freed: Freed, fill: Fill, total: int) -> Freed:
    """What each rung freed, as the model counts; a digest shorter than foreseen frees more."""
    by_rung: dict[str, int] = {}
    for rung, tokens in freed:
        by_rung[rung] = by_rung.get(rung, 0) + tokens
    newest: str = "merge" if "merge" in by_rung else "summarize"
    if newest not in by_rung:
        newest = freed[-1][0]
    by_rung[newest] += total - sum(by_rung.values())
    return tuple((rung, fill.scaled(tokens)) for rung, tokens in by_rung.items())


def restoration(
    session: Session,
    view: View,
    undone: tuple[str, ...],
    fills: tuple[Fill, Fill],
    now: datetime,
) -> Compaction:
    """The step back to an earlier view, as a view and a receipt of its own."""
    what = ", ".join(undone) or "a restore"
    words = _Words("restore", f"undo {what}", f"undone: {what}")
    return _other_view(session, view, words, fills, now)


def paging_in(
    session: Session, view: View, refs: str, fills: tuple[Fill, Fill], now: datetime
) -> Compaction:
    """A view that shows messages again, with a receipt of its own by which it can be undone."""
    words = _Words("page_in", f"page in {refs}", f"shown whole again: {refs}")
    return _other_view(session, view, words, fills, now)


class _Words(NamedTuple):
    """What a receipt says of a view that no compaction made."""

    kind: Literal["restore", "page_in"]
    reason: str
    note: str


def _other_view(
    session: Session, view: View, words: _Words, fills: tuple[Fill, Fill], now: datetime
) -> Compaction:
    before, after = fills
    number, version = session.next_compaction, session.view.version + 1
    receipt = Receipt(
        compaction=number,
        kind=words.kind,
        reason=words.reason,
        at=now,
        before=before.tokens,
        after=after.tokens,
        window=after.window,
        precision=after.precision,
        pins=len(session.pins),
        notes=(words.note,),
    )
    return Compaction(
        base_version=session.view.version,
        view=view.model_copy(update={"version": version, "compaction": number}),
        digests=(),
        receipt=receipt,
    )


def projection(plan: Plan, fill: Fill) -> Projection:
    """What a dry run says."""
    spans = tuple(
        (block.steps[0].first, block.steps[-1].last)
        for block in plan.sheet.blocks
        if isinstance(block, SpanBlock)
    )
    return Projection(
        before=fill.tokens,
        after=fill.scaled(plan.sheet.tokens),
        window=fill.window,
        precision=fill.precision,
        freed=tuple((rung, fill.scaled(tokens)) for rung, tokens in plan.sheet.freed),
        spans=spans,
        shortfall=shortfall(plan, plan.sheet.tokens, fill),
    )


def nothing(plan: Plan, fill: Fill) -> str:
    """Why there is nothing to do."""
    held = shortfall(plan, fill.counted, fill)
    reason = held or f"{kilo(fill.tokens)} of {kilo(fill.window)} tokens is all recent or needed"
    has_sections, has_pins = fixed_by(plan.sheet, fill)
    less = ["pin less"] * has_pins + ["shorten the fixed sections"] * has_sections
    go_on = f"Go on, or {' and '.join(less)}." if less else "Go on."
    return f"nothing to do: {reason}. {go_on}"


def too_little(plan: Plan, fill: Fill, policy: Policy) -> str:
    """Why it would not pay, and from when it would."""
    gain = fill.scaled(plan.before - plan.sheet.tokens)
    least = round(fill.window * policy.min_gain_percent / 100)
    held = shortfall(plan, plan.sheet.tokens, fill)
    left = held or f"the rest is held by {held_by(plan.sheet, fill)}"
    goal = f"{100 * (plan.goal or 0) / policy.window_tokens:.3g}"
    doing = "it" if held else f"getting down to {goal} %"
    # Where a target was asked for and is out of reach, a lower one does not help.
    is_lowest = held is not None and plan.goes_on
    lower = "" if is_lowest else f"pass target_percent below {goal} for more, "
    return (
        f"not compressed: {doing} would free about {kilo(gain)} of {kilo(fill.window)} tokens, "
        f"less than {policy.min_gain_percent:g} % ({kilo(least)}), "
        f"from which on it is worth it; the fill is {fill.percent:.0f} %, {left}. "
        f"Go on until more steps are done, {lower}or pass force=true."
    )

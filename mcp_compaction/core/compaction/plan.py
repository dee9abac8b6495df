"""Chooses what to do: how far down, and by which rungs."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_compaction.core.compaction.blocks import (
    DigestBlock,
    Guard,
    StepBlock,
    WindowPlan,
    window_of,
    with_guards,
)
from mcp_compaction.core.compaction.budget import (
    Held,
    Shortfall,
    held_by,
    reachable_goal,
    reachable_target,
    share_out,
    tail_limit,
)
from mcp_compaction.core.compaction.ladder import LADDER, Rung
from mcp_compaction.core.compaction.ladder.drop_excerpts import drop_excerpts
from mcp_compaction.core.compaction.ladder.merge import merge_all
from mcp_compaction.core.compaction.ladder.shrink import shrink_newest
from mcp_compaction.core.compaction.ladder.shrink_request import shrink_request
from mcp_compaction.core.compaction.ladder.summarize import summarize_all
from mcp_compaction.core.compaction.previews import give_up_excess
from mcp_compaction.core.log.pinned import pinned_block
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.window.fill import Fill
from mcp_compaction.model import Ask, Budget, Session, Value

_SHORTENING = tuple(rung for rung in LADDER if rung.phase == "shorten")
_DIGESTING = tuple(rung for rung in LADDER if rung.phase == "digest")


class Plan(Value):
    """The window as it shall become, and what the plan was made for; all in counted tokens."""

    window: WindowPlan
    before: int
    goal: int | None  # None: only the span that was asked for
    budget: Budget
    wanted: int | None  # the goal, or what a caller named, be it below what can be reached
    goes_on: bool = False  # also below the goal, as long as there is something to do

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing left to do."""
        return not self.window.freed

    @property
    def gain(self) -> int:
        """The tokens it frees."""
        return self.before - self.window.tokens

    @property
    def held(self) -> Held:
        """What holds the window as it shall become."""
        return held_by(self.window)

    def shortfall(self, after: int | None = None, held: Held | None = None) -> Shortfall | None:
        """What keeps a window of `after` tokens above what is wanted; None where nothing does."""
        reached = self.window.tokens if after is None else after
        if self.wanted is None or reached <= self.wanted:
            return None
        return Shortfall(after=reached, goal=self.wanted, held=held or self.held)


def make_plan(
    session: Session,
    policy: Policy,
    ask: Ask,
    fill: Fill,
    count: CountTokens,
    budget: Budget | None = None,
) -> Plan:
    """The edits that reach the goal, gentlest first; the policy's window is in counted tokens.

    A plan that follows another is given the budget that the first one was made for.
    """
    window = _window_before(session, policy, fill, count)
    named = None if ask.target_percent is None else policy.share(ask.target_percent)
    target = None if named is None else reachable_target(named, fill)
    follows = budget is not None
    if budget is None:
        reachable = reachable_goal(policy, fill) if target is None else target
        budget = share_out(window, session, policy, reachable)
    goal = budget.target
    window = window.model_copy(update={"index_most": budget.index})
    if policy.compaction_ratio is None or target is not None:  # a share is one of messages
        window = _with_tail(window, budget.tail, policy)
    wanted = policy.release_tokens if named is None else named
    plan = Plan(window=window, before=fill.counted, goal=goal, wanted=wanted, budget=budget)
    if ask.span is not None:
        window = summarize_all(window, policy, _steps_inside(window, *ask.span))
        return plan.model_copy(update={"window": window, "goal": None, "wanted": None})
    is_thorough = ask.force and target is None  # all outside the tail, whatever the goal needs
    if policy.compaction_ratio is not None and target is None:
        window = _digest_oldest_share(window, session, goal, policy, count)
        return plan.model_copy(update={"window": window})
    if is_thorough or policy.preserve_recent_messages or ask.digest is not None:
        window = summarize_all(window, policy, _steps_outside_tail(window))
    if window.tokens > goal:
        window = drop_excerpts(window, goal, policy, count)
    goes_on = is_thorough or target is not None
    if follows or window.tokens > goal:  # what is within its target already stays as it is
        window = _make_room(window, budget, policy, count, shortens=not goes_on)
    if window.tokens > goal and window.has_new_digests:  # lest a plan promises too little
        window = give_up_excess(window, goal, count)
    elif window.tokens > goal:  # a digest is better than a missed goal
        window = summarize_all(window, policy, _unread_outside_tail(window))
    return plan.model_copy(update={"window": window, "goes_on": goes_on})


def _window_before(session: Session, policy: Policy, fill: Fill, count: CountTokens) -> WindowPlan:
    """The window before any rung, with all pins: also those that its view does not show yet."""
    block = pinned_block(session.pins)
    pinned = count(block) + policy.overhead_per_message if block else 0
    return window_of(session, policy, fill, pinned)


def _with_tail(window: WindowPlan, most: int, policy: Policy) -> WindowPlan:
    """The window whose newest steps take no more than that."""
    blocks = with_guards(window.blocks, policy, most)
    return window.model_copy(update={"tail_most": most, "blocks": blocks})


def _make_room(
    window: WindowPlan, budget: Budget, policy: Policy, count: CountTokens, *, shortens: bool
) -> WindowPlan:
    """All old steps in one digest, whatever the goal needs: the rest is for what users said and
    for the newest steps. `shortens`: where shorter results alone reach the goal, nothing else gives
    way; a compaction that somebody asked for tells more by its account than by their beginnings."""
    goal = budget.target
    window = window.shorten_index("summarize", goal, budget.index)
    if window.tokens > goal:
        window = shrink_request(window, goal, policy, count)
        digests = sum(block.tokens for block in window.blocks if isinstance(block, DigestBlock))
        window = _with_tail(window, tail_limit(window, budget, digests), policy)
        window = shrink_newest(window, policy, count)
    shorter = _climb(window, _SHORTENING, goal, policy, count) if shortens else window
    window = shorter if shorter.tokens <= goal else window  # else digests are needed all the same
    tight = policy.model_copy(update={"digest_max_tokens": budget.digest})
    has_digests = any(isinstance(block, DigestBlock) for block in window.blocks)
    if window.tokens > goal or has_digests:
        window = summarize_all(window, tight, _steps_outside_tail(window))
    if not window.has_new_digests:
        window = merge_all(window, tight, count)
    return _climb(window, _DIGESTING, goal, tight, count)


def _climb(
    window: WindowPlan, rungs: Sequence[Rung], goal: int, policy: Policy, count: CountTokens
) -> WindowPlan:
    for rung in rungs:
        # A planned digest is only bounded from above: what more is needed is seen when it stands.
        if window.tokens <= goal or window.has_new_digests:
            break
        window = rung.run(window, goal, policy, count)
    return window


def _digest_oldest_share(
    window: WindowPlan, session: Session, goal: int, policy: Policy, count: CountTokens
) -> WindowPlan:
    """The window with its oldest share digested; what is not of that share stays as it is.

    An index with which hardly anything is freed is left out. Digests become one where there is no
    share to take and the goal is not reached: a window that lives long would fill with them.
    """
    # Where nothing new was said there is no share, or each call would take another one.
    share = _steps_outside_tail(window) if session.said_since else []
    if not share:
        return merge_all(window, policy, count) if window.tokens > goal else window
    planned = summarize_all(window, policy, share)
    if window.tokens - planned.tokens >= policy.min_gain_tokens:
        return planned
    return summarize_all(window.model_copy(update={"index_most": 0}), policy, share)


def _steps_outside_tail(window: WindowPlan) -> list[int]:
    return [n for n, b in enumerate(window.blocks) if isinstance(b, StepBlock) and b.gives_way()]


def _unread_outside_tail(window: WindowPlan) -> list[int]:
    """The steps of unread results that no tail holds."""
    return [
        number
        for number, block in enumerate(window.blocks)
        if isinstance(block, StepBlock) and block.unread and block.guard in (None, "loop")
    ]


def _steps_inside(window: WindowPlan, first: int, last: int) -> list[int]:
    never: tuple[Guard, ...] = ("open", "request")
    return [
        number
        for number, block in enumerate(window.blocks)
        if isinstance(block, StepBlock)
        and block.guard not in never
        and first <= block.step.first
        and block.step.last <= last
    ]

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
from mcp_compaction.core.compaction.held import Held, Shortfall, held_by
from mcp_compaction.core.compaction.ladder import LADDER, Rung
from mcp_compaction.core.compaction.ladder.drop_excerpts import drop_excerpts
from mcp_compaction.core.compaction.ladder.merge import merge_all
from mcp_compaction.core.compaction.ladder.shrink import shrink_newest
from mcp_compaction.core.compaction.ladder.shrink_request import shrink_request
from mcp_compaction.core.compaction.ladder.summarize import summarize_all
from mcp_compaction.core.compaction.previews import shrink_step
from mcp_compaction.core.compaction.shares import (
    LEAST_FOR_DIGEST,
    RoomForTarget,
    room_for_records,
    share_out,
)
from mcp_compaction.core.compaction.unread import give_up_excess, share_of_unread
from mcp_compaction.core.log.pinned import pinned_block
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.window.fill import Fill
from mcp_compaction.model import Ask, Session, Value

_DIGEST_SHARE = 15  # percent of an explicit target
_FAR_ABOVE_GOAL = 3  # times
_LEAST_TAIL = 8  # percent of an explicit target

_SHORTENING = tuple(rung for rung in LADDER if rung.phase == "shorten")
_DIGESTING = tuple(rung for rung in LADDER if rung.phase == "digest")


class Plan(Value):
    """The window as it shall become, and what the plan was made for; all in counted tokens."""

    window: WindowPlan
    before: int
    goal: int | None  # None: only the span that was asked for
    is_thorough: bool = False  # forced: everything outside the tail, not only what the goal needs
    goes_on: bool = False  # also below the goal, as long as there is something to do
    room: RoomForTarget | None = None  # of an explicit target

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

    def shortfall(self, after: int | None = None) -> Shortfall | None:
        """What keeps a window of `after` tokens above the goal; None where the goal is reached."""
        reached = self.window.tokens if after is None else after
        if self.goal is None or reached <= self.goal:
            return None
        return Shortfall(after=reached, goal=self.goal, held=self.held)


def make_plan(
    session: Session,
    policy: Policy,
    ask: Ask,
    fill: Fill,
    count: CountTokens,
    room: RoomForTarget | None = None,
) -> Plan:
    """The edits that reach the goal, gentlest first; the policy's window is in counted tokens.

    A plan that follows another is given the room that the first one found for a target.
    """
    target = ask.target_percent
    goal = policy.share(policy.release_percent if target is None else target)
    follows = room is not None
    if target is not None and room is None:
        room = share_out(session, fill, goal)
    window = _window_before(session, policy, room, fill, count)
    if ask.span is not None:
        window = summarize_all(window, policy, _steps_inside(window, *ask.span))
        return Plan(window=window, before=fill.counted, goal=None)
    is_thorough = ask.force and target is None
    if policy.compaction_ratio is not None and target is None:
        window = _digest_oldest_share(window, session, goal, policy)
        return Plan(window=window, before=fill.counted, goal=goal)
    if is_thorough or policy.preserve_recent_messages or ask.digest is not None:
        window = summarize_all(window, policy, _steps_outside_tail(window, policy))
    if window.tokens > goal:
        window = drop_excerpts(window, goal, policy, count)
    if room is None:
        window = _climb(window, LADDER, goal, _with_small_digests(policy, goal), count)
    elif follows or window.tokens > goal:  # what is within its target already stays as it is
        window = _make_room(window, goal, room, policy, count)
    if window.tokens > goal and window.has_new_digests:
        window = _foresee_cuts(window, goal, policy, count)
    elif window.tokens > goal:  # a digest is better than a missed goal
        window = summarize_all(window, policy, _unread_outside_tail(window))
    return Plan(
        window=window,
        before=fill.counted,
        goal=goal,
        is_thorough=is_thorough,
        goes_on=is_thorough or target is not None,
        room=room,
    )


def _window_before(
    session: Session, policy: Policy, room: RoomForTarget | None, fill: Fill, count: CountTokens
) -> WindowPlan:
    """The window before any rung; an explicit target limits its tail and its index."""
    block = pinned_block(session.pins)
    pinned = count(block) + policy.overhead_per_message if block else 0
    if room is None:
        return window_of(session, policy, fill, pinned, count)
    window = window_of(session, policy, fill, pinned, count, room.tail)
    return window.model_copy(update={"index_most": room.index})


def _make_room(
    window: WindowPlan, goal: int, room: RoomForTarget, policy: Policy, count: CountTokens
) -> WindowPlan:
    """All old steps in one digest, whatever the goal needs: the rest is for what users said and
    for the newest steps."""
    window = window.shorten_index("summarize", goal, room.least_index)
    if window.tokens > goal:
        window = shrink_request(window, goal, policy, count)
        window = shrink_newest(_limit_tail(window, goal, room, policy), policy, count)
    if goal * _FAR_ABOVE_GOAL > window.tokens:  # else only digests are small enough
        window = _climb(window, _SHORTENING, goal, policy, count)
    tight = _with_small_digests(policy, goal)
    has_digests = any(isinstance(block, DigestBlock) for block in window.blocks)
    if window.tokens > goal or has_digests:
        window = summarize_all(window, tight, _steps_outside_tail(window, policy))
    if not window.has_new_digests:
        window = merge_all(window, tight)
    return _climb(window, _DIGESTING, goal, tight, count)


def _with_small_digests(policy: Policy, goal: int) -> Policy:
    """The policy by which a digest leaves most of the goal to the newest steps."""
    most = max(1, min(policy.digest_max_tokens, goal * _DIGEST_SHARE // 100))
    return policy.model_copy(update={"digest_max_tokens": most})


def _limit_tail(window: WindowPlan, goal: int, room: RoomForTarget, policy: Policy) -> WindowPlan:
    """The window whose newest steps take no more than the rest of the goal leaves."""
    digests = sum(block.tokens for block in window.blocks if isinstance(block, DigestBlock))
    records = room_for_records(goal, max(digests, LEAST_FOR_DIGEST), policy.digest_max_tokens)
    left = goal - window.fixed - records - _room_for_unread(window, goal)
    left = max(left, goal * _LEAST_TAIL // 100)
    most = max(0, min(room.tail, left))
    blocks = with_guards(window.blocks, policy, most)
    return window.model_copy(update={"tail_most": most, "blocks": blocks})


def _room_for_unread(window: WindowPlan, goal: int) -> int:
    """The tokens of unread results that stand before the newest steps."""
    steps = [block for block in window.blocks if isinstance(block, StepBlock)]
    taken = sum(block.tokens - block.tokens_beside_unread for block in steps)
    return min(taken, share_of_unread(window, goal))


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
    window: WindowPlan, session: Session, goal: int, policy: Policy
) -> WindowPlan:
    """The window with its oldest share digested; what is not of that share stays as it is.

    An index with which hardly anything is freed is left out. Digests become one where there is no
    share to take and the goal is not reached: a window that lives long would fill with them.
    """
    share = _oldest_share(window, session)
    if not share:
        return merge_all(window, policy) if window.tokens > goal else window
    planned = summarize_all(window, policy, share)
    if window.tokens - planned.tokens >= policy.min_gain_tokens:
        return planned
    return summarize_all(window.model_copy(update={"index_most": 0}), policy, share)


def _oldest_share(window: WindowPlan, session: Session) -> list[int]:
    """The steps outside the tail; none if nothing new was said, or each call would take another
    share."""
    if all(message.seq <= session.view.upto for message in session.messages):
        return []
    return [n for n, b in enumerate(window.blocks) if isinstance(b, StepBlock) and b.gives_way()]


def _steps_outside_tail(window: WindowPlan, policy: Policy) -> set[int]:
    """The steps outside the tail, also of the tail that is left when they are gone."""
    free: set[int] = set()
    while True:
        left = [n for n in range(len(window.blocks)) if n not in free]
        blocks = with_guards([window.blocks[n] for n in left], policy, window.tail_most)
        more = {
            n
            for n, block in zip(left, blocks, strict=True)
            if isinstance(block, StepBlock) and block.gives_way()
        }
        if not more:
            return free
        free |= more


def _foresee_cuts(window: WindowPlan, goal: int, policy: Policy, count: CountTokens) -> WindowPlan:
    """What unread results, and calls outside the tail, will have to give up, lest a plan promises
    too little; the results get back what digests leave."""
    window = give_up_excess(window, "shrink_unread", goal, count)
    outside = _unread_outside_tail(window) if window.tokens > goal else []
    blocks = (
        shrink_step(block, policy, count)
        if isinstance(block, StepBlock) and number in outside
        else block
        for number, block in enumerate(window.blocks)
    )
    return window.after("shrink", blocks=tuple(blocks))


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

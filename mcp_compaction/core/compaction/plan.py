"""Chooses what to do: how far down, and by which rungs."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_compaction.core.compaction.blocks import (
    DigestBlock,
    Guard,
    StepBlock,
    WindowPlan,
    blocks_of,
    guarded,
)
from mcp_compaction.core.compaction.ladder import LADDER, Rung
from mcp_compaction.core.compaction.ladder.drop_excerpts import drop_excerpts
from mcp_compaction.core.compaction.ladder.merge import merge_all
from mcp_compaction.core.compaction.ladder.summarize import summarize_all
from mcp_compaction.core.log.pinned import pinned_block
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.window.fill import Fill
from mcp_compaction.core.wording import kilo
from mcp_compaction.model import Ask, Session, Value

# Percent of an explicit target; the rest is for passages, word for word.
_DIGEST_SHARE = 15
_TAIL_SHARE = 12
_INDEX_SHARE = 40
_FAR = 3  # times the goal

# By whether there are sections and whether there are pins: what they are, what may be shortened.
_FIXED = {
    (True, True): ("system, tools and pins", "the system prompt, the tools or the pins"),
    (True, False): ("system and tools", "the system prompt or the tools"),
    (False, True): ("pins", "the pins"),
    (False, False): ("nothing fixed", "nothing"),  # it takes no tokens, so it is never told
}

_BEFORE_DIGESTS = tuple(rung for rung in LADDER if rung.before == "digests")
_DIGESTS_ON = tuple(rung for rung in LADDER if rung.before != "digests")


class Plan(Value):
    """The sheet as it shall become, and what it was made for; all in counted tokens."""

    sheet: WindowPlan
    before: int
    goal: int | None  # None: only the span that was asked for
    is_thorough: bool = False  # forced: everything outside the tail, not only what the goal needs
    goes_on: bool = False  # also below the goal, as long as there is something to do

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing left to do."""
        return not self.sheet.freed


def make_plan(session: Session, policy: Policy, ask: Ask, fill: Fill, count: CountTokens) -> Plan:
    """The edits that reach the goal, gentlest first; the policy's window is in counted tokens."""
    pinned = pinned_block(session.pins)
    parts = dict(fill.parts)
    fixed = parts["system and tools"] + parts["memory"] + parts["unseen"]
    fixed += count(pinned) + policy.overhead_per_message if pinned else 0
    wanted = policy.release_percent if ask.target_percent is None else ask.target_percent
    goal = policy.share(wanted)
    tail_most = None if ask.target_percent is None else goal * _TAIL_SHARE // 100
    sheet = blocks_of(session, policy, fixed, parts["index"], count, tail_most)
    index_most = None if ask.target_percent is None else goal * _INDEX_SHARE // 100
    sheet = sheet.model_copy(update={"promoted": parts["promoted"], "index_most": index_most})
    if ask.span is not None:
        sheet = summarize_all(sheet, policy, _inside(sheet, *ask.span))
        return Plan(sheet=sheet, before=fill.counted, goal=None)
    is_thorough = ask.force and ask.target_percent is None
    if policy.compaction_ratio is not None and ask.target_percent is None:
        sheet = summarize_all(sheet, policy, _oldest_share(sheet, session))
        return Plan(sheet=sheet, before=fill.counted, goal=goal)
    if is_thorough or policy.preserve_recent_messages or ask.digest is not None:
        sheet = summarize_all(sheet, policy, _free(sheet, policy))
    if sheet.tokens > goal:
        sheet = drop_excerpts(sheet, goal, policy, count)
    if ask.target_percent is None:
        sheet = _climb(sheet, LADDER, goal, policy, count)
    else:
        sheet = _make_room(sheet, goal, policy, count)
    return Plan(
        sheet=sheet,
        before=fill.counted,
        goal=goal,
        is_thorough=is_thorough,
        goes_on=is_thorough or ask.target_percent is not None,
    )


def shortfall(plan: Plan, after: int, fill: Fill) -> str | None:
    """What holds the window above the goal, with the numbers; None where it was reached."""
    if plan.goal is None or after <= plan.goal:
        return None
    sheet = plan.sheet
    fixed, long = _FIXED[fixed_by(sheet, fill)]
    held = {
        fixed: sheet.fixed,
        "the first request": sheet.head_tokens,
        "recent steps": sum(b.tokens for b in sheet.blocks if isinstance(b, StepBlock)),
        "digests": sheet.index
        + sum(b.tokens for b in sheet.blocks if not isinstance(b, StepBlock)),
    }
    names = ", ".join(f"{n} {kilo(fill.scaled(t))}" for n, t in held.items() if t)
    reached, wanted = kilo(fill.scaled(after)), kilo(fill.scaled(plan.goal))
    text = f"{reached} is above the target of {wanted}: held by {names}"
    if sheet.fixed > plan.goal:
        text += (
            f". The fixed sections alone take {kilo(fill.scaled(sheet.fixed))} of "
            f"{kilo(fill.window)}: shorten {long}"
        )
    return text


def fixed_by(sheet: WindowPlan, fill: Fill) -> tuple[bool, bool]:
    """Whether sections take a part of what is fixed, and whether pins do."""
    parts = dict(fill.parts)
    own = parts["system and tools"] + parts["unseen"]
    # The memory may have gone into a digest since the fill was measured.
    sizes = (own, own + parts["memory"])
    return any(sizes), sheet.fixed not in sizes


def _make_room(sheet: WindowPlan, goal: int, policy: Policy, count: CountTokens) -> WindowPlan:
    """All old steps in one digest, whatever the goal needs: the rest of it is for passages."""
    if goal * _FAR > sheet.tokens:  # else no preview is small enough, and digests do it all
        sheet = _climb(sheet, _BEFORE_DIGESTS, goal, policy, count)
    most = max(1, min(policy.digest_max_tokens, goal * _DIGEST_SHARE // 100))
    tight = policy.model_copy(update={"digest_max_tokens": most})
    has_digests = any(isinstance(block, DigestBlock) for block in sheet.blocks)
    if sheet.tokens > goal or has_digests:
        sheet = summarize_all(sheet, tight, _free(sheet, policy))
    if not sheet.has_new_digests:
        sheet = merge_all(sheet, tight)
    return _climb(sheet, _DIGESTS_ON, goal, tight, count)


def _climb(
    sheet: WindowPlan, rungs: Sequence[Rung], goal: int, policy: Policy, count: CountTokens
) -> WindowPlan:
    for rung in rungs:
        # A planned digest is only bounded from above: what more is needed is seen when it stands.
        if sheet.tokens <= goal or sheet.has_new_digests:
            break
        sheet = rung.run(sheet, goal, policy, count)
    return sheet


def _oldest_share(sheet: WindowPlan, session: Session) -> list[int]:
    """The steps outside the tail; taken once of what was said, or a share would be taken of the
    rest, and again of what is left then."""
    if all(message.seq <= session.view.upto for message in session.messages):
        return []
    return [n for n, b in enumerate(sheet.blocks) if isinstance(b, StepBlock) and b.guard is None]


def _free(sheet: WindowPlan, policy: Policy) -> set[int]:
    """The steps outside the tail, also of the tail that is left when they are gone."""
    free: set[int] = set()
    while True:
        left = [n for n in range(len(sheet.blocks)) if n not in free]
        blocks = guarded([sheet.blocks[n] for n in left], policy, sheet.tail_most)
        more = {
            n
            for n, block in zip(left, blocks, strict=True)
            if isinstance(block, StepBlock) and block.guard is None
        }
        if not more:
            return free
        free |= more


def _inside(sheet: WindowPlan, first: int, last: int) -> list[int]:
    never: tuple[Guard, ...] = ("open", "request")
    return [
        number
        for number, block in enumerate(sheet.blocks)
        if isinstance(block, StepBlock)
        and block.guard not in never
        and first <= block.step.first
        and block.step.last <= last
    ]

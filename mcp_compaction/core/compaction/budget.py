"""Shares a target out in fifths: who gets how much of a window is decided here.

`benchmarks/weigh.py` and `eval` are the measure.
"""

from __future__ import annotations

from mcp_compaction.core.compaction.blocks import StepBlock, WindowPlan
from mcp_compaction.core.limits import LEAST_TOKENS
from mcp_compaction.core.log.content import is_talk
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.window.fill import Fill
from mcp_compaction.core.window.offload import lines_to_keep
from mcp_compaction.core.window.preview import is_large
from mcp_compaction.model import Ask, Budget, HeldBy, Message, Session, Value

_LEAST_VIEW = 8_000  # tokens; the summaries of hosts take 1.5k to 6k


def reachable_target(named: int, fill: Fill) -> int:
    """The counted tokens that a caller named; where what only the host sees takes nearly all of
    them, a view that tells something still gets its room, at most a quarter of what was said."""
    return max(named, fill.unseen + min(named, fill.counted_by_us // 4, _LEAST_VIEW))


def share_out(
    window: WindowPlan, session: Session, fill: Fill, policy: Policy, target: int | None
) -> Budget:
    """The most counted tokens of each part; `target`: an explicit one, which limits them all."""
    goal = policy.release_tokens if target is None else target
    room = window.room_in(goal)
    request = first_request_limit(room, policy)
    fixed = window.pinned + min(window.head_tokens, request)
    return Budget(
        target=goal,
        system=window.sections,
        pins=window.pinned,
        request=request,
        newest_request=newest_request_limit(room),
        unread=unread_limit(room, fixed),
        tail=policy.tail_limit if target is None else _tail_of_target(session, fill, room),
        digest=max(1, min(policy.digest_limit, room // 6)),
        names=names_limit(room, policy),
        index=min(room // 4, policy.index_limit if target is None else room),
    )


def in_model_tokens(budget: Budget, fill: Fill) -> Budget:
    """The same budget as the model counts."""
    return Budget(**{name: fill.scaled(tokens) for name, tokens in budget})


def first_request_limit(room: int, policy: Policy) -> int:
    """The most tokens of the first request; of a small view two fifths, as it is the task."""
    least = min(4 * LEAST_TOKENS, newest_request_limit(room))
    return min(policy.head_preview_over_tokens, max(least, room // 5))


def newest_request_limit(room: int) -> int:
    """The most tokens of the newest request."""
    return 2 * room // 5


def keeps_all_rules(request: Message, room: int, policy: Policy, count: CountTokens) -> bool:
    """Whether all rules of the first request stand in a view: those of a program's long prompt
    would leave a small one no room for the work itself."""
    if not is_large(request.text, policy, count):
        return True
    return count("\n".join(lines_to_keep(request)[0])) <= newest_request_limit(room)


def unread_limit(room: int, fixed: int) -> int:
    """The tokens that unread results may claim before recent steps get any."""
    return (room - fixed) // 3


def users_limit(room: int, said: int) -> int:
    """The tokens that what users said, so many of them, and no message shows any more may take
    before an unread result, with the label over it."""
    return min(said + LEAST_TOKENS, room // 5) if said else 0


def tail_limit(window: WindowPlan, budget: Budget, digests: int) -> int:
    """The tokens that the rest of an explicit target leaves to the newest steps."""
    steps = [block for block in window.blocks if isinstance(block, StepBlock)]
    unread = sum(block.tokens - block.tokens_beside_unread for block in steps)
    # A digest seldom fills its room: with all of it reserved, names used later fall by .007.
    records = max(digests, budget.digest * 2 // 3) + budget.index
    left = budget.target - window.fixed - records - min(unread, budget.unread)
    return max(0, min(budget.tail, left))


def names_limit(room: int, policy: Policy) -> int:
    """The most tokens that names may take: the room of the index too, where that would hold little
    more than its label."""
    share = room // 5 if room // 4 - room // 5 >= LEAST_TOKENS else room // 4
    return min(4 * policy.index_max_tokens, share)


def index_beside_names(room: int, names: int) -> int:
    """The most tokens that are left for the index where names take so many."""
    return max(0, room // 4 - names)


def excerpts_limit(left: int, freed: int, policy: Policy, ask: Ask) -> int:
    """The most tokens of excerpts, where so many are left below the goal and so many are freed:
    all of them for an explicit target; a forced compaction gives back a part of what it freed."""
    if ask.target_percent is not None:
        return left
    return min(left, freed // 4 if ask.force else policy.promoted_limit)


def _tail_of_target(session: Session, fill: Fill, room: int) -> int:
    """The most tokens of the newest steps: what users said, which sets rules and tasks, and what
    was kept of earlier messages come before them; where people only talk, what was said long ago
    is worth as much."""
    if is_talk(session.messages):
        return room // 8
    fifth = room // 5
    requests = [m.tokens for m in session.messages if m.is_request and not m.results]
    kept = sum(requests[1:]) + dict(fill.parts)["promoted"]
    return max(room // 6, 3 * (fifth - kept))


class Held(Value):
    """The counted tokens of a window by what takes them."""

    system: int  # system prompt, tools, memory, and what only the host sees
    pins: int
    first_request: int
    recent_steps: int
    older_steps: int
    digests: int  # with their index
    excerpts: int

    @property
    def fixed(self) -> int:
        """The tokens that no rung can free."""
        return self.system + self.pins

    def tokens_by_holder(self, fill: Fill) -> HeldBy:
        """Each holder that takes tokens, as the model counts them."""
        held: HeldBy = tuple(self)  # pyright: ignore[reportAssignmentType]
        return tuple((name, fill.scaled(tokens)) for name, tokens in held if tokens)


class Shortfall(Value):
    """A window that stays above its goal, in counted tokens."""

    after: int
    goal: int
    held: Held

    @property
    def is_fixed(self) -> bool:
        """Whether what no rung can free is above the goal by itself."""
        return self.held.fixed > self.goal


def held_by(window: WindowPlan) -> Held:
    """What holds a window."""
    steps = [block for block in window.blocks if isinstance(block, StepBlock)]
    others = sum(block.tokens for block in window.blocks if not isinstance(block, StepBlock))
    return Held(
        system=window.sections,
        pins=window.pinned,
        first_request=window.head_tokens,
        recent_steps=sum(block.tokens for block in steps if block.guard or block.unread),
        older_steps=sum(block.tokens for block in steps if block.gives_way()),
        digests=window.index + others,
        excerpts=window.excerpts,
    )

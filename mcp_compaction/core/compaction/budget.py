"""Shares a target out: who gets how much of a window is decided here, and can be printed."""

from __future__ import annotations

from mcp_compaction.core.compaction.blocks import StepBlock, WindowPlan
from mcp_compaction.core.log.content import is_talk
from mcp_compaction.core.policy import SHARES, Policy
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.window.fill import Fill
from mcp_compaction.core.window.offload import lines_to_keep
from mcp_compaction.model import Ask, Budget, HeldBy, Message, Session, Value


def share_out(
    window: WindowPlan, session: Session, fill: Fill, policy: Policy, target: int | None
) -> Budget:
    """The most counted tokens of each part; `target`: an explicit one, which limits them all."""
    goal = policy.release_tokens if target is None else target
    room = window.room_in(goal)
    request = first_request_limit(room, policy)
    fixed = window.pinned + min(window.head_tokens, request)
    records = _percent(room, SHARES.records)
    return Budget(
        target=goal,
        system=window.sections,
        pins=window.pinned,
        request=request,
        newest_request=newest_request_limit(room),
        unread=unread_limit(room, fixed),
        tail=policy.tail_limit if target is None else _tail_of_target(session, fill, room),
        digest=max(1, min(policy.digest_limit, _percent(room, SHARES.digest))),
        names=names_limit(room, policy),
        index=min(records, policy.index_limit if target is None else room),
    )


def in_model_tokens(budget: Budget, fill: Fill) -> Budget:
    """The same budget as the model counts."""
    return Budget(**{name: fill.scaled(tokens) for name, tokens in budget})


def first_request_limit(room: int, policy: Policy) -> int:
    """The most tokens of the first request."""
    least = min(SHARES.least_request, _percent(room, SHARES.newest_request))
    return min(policy.head_preview_over_tokens, max(least, _percent(room, SHARES.first_request)))


def keeps_all_rules(request: Message, room: int, policy: Policy, count: CountTokens) -> bool:
    """Whether all rules of the first request stand in a view: those of a program's long prompt
    would leave a small one no room for the work itself."""
    if room >= SHARES.little or len(request.text) <= SHARES.prompt:
        return True
    return count("\n".join(lines_to_keep(request)[0])) <= first_request_limit(room, policy)


def newest_request_limit(room: int) -> int:
    """The most tokens of the newest request."""
    return _percent(room, SHARES.newest_request)


def unread_limit(room: int, fixed: int) -> int:
    """The tokens that unread results may claim before recent steps get any."""
    share = SHARES.unread_of_little if room < SHARES.little else SHARES.unread
    return _percent(room - fixed, share)


def tail_limit(window: WindowPlan, budget: Budget, digests: int) -> int:
    """The tokens that the rest of an explicit target leaves to the newest steps."""
    steps = [block for block in window.blocks if isinstance(block, StepBlock)]
    unread = sum(block.tokens - block.tokens_beside_unread for block in steps)
    # A digest seldom fills its room: with all of it reserved, names used later fall by .007.
    records = max(digests, budget.digest * 2 // 3) + budget.index
    left = budget.target - window.fixed - records - min(unread, budget.unread)
    return max(0, min(budget.tail, left))


def names_limit(room: int, policy: Policy) -> int:
    """The most tokens that names may take: with the room of the index, too, where that would hold
    little more than its label."""
    index = _percent(room, SHARES.records - SHARES.names)
    share = SHARES.names if index >= SHARES.least_index else SHARES.records
    return min(SHARES.most_names * policy.index_max_tokens, _percent(room, share))


def index_beside_names(room: int, names: int) -> int:
    """The most tokens that are left for the index where names take so many."""
    return max(0, _percent(room, SHARES.records) - names)


def excerpts_limit(left: int, freed: int, policy: Policy, ask: Ask) -> int:
    """The most tokens of excerpts, where so many are left below the goal and so many are freed:
    all of them for an explicit target; a forced compaction gives back a part of what it freed."""
    if ask.target_percent is not None:
        return left
    return min(left, _percent(freed, SHARES.forced) if ask.force else policy.promoted_limit)


def _tail_of_target(session: Session, fill: Fill, room: int) -> int:
    """The most tokens of the newest steps: what users said, which sets rules and tasks, and what
    was kept of earlier messages come before them; where people only talk, what was said long ago
    is worth as much."""
    if is_talk(session.messages):
        return _percent(room, SHARES.tail_of_talk)
    requests = [message.tokens for message in session.messages if message.is_request]
    least, most = (_percent(room, share) for share in (SHARES.least_tail, SHARES.tail))
    kept = sum(requests[1:]) + dict(fill.parts)["promoted"]
    return max(least, most - SHARES.requests_weigh * kept)


def _percent(tokens: int, share: int) -> int:
    return tokens * share // 100


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

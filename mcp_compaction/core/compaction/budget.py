"""Shares a target out in fifths: who gets how much of a window is decided here.

`benchmarks/weigh.py` and `eval` are the measure.
"""

from __future__ import annotations

from mcp_compaction.core.compaction.blocks import StepBlock, WindowPlan
from mcp_compaction.core.limits import LEAST_TOKENS
from mcp_compaction.core.log.content import is_talk
from mcp_compaction.core.policy import KEEPING, Policy
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.window.fill import Fill
from mcp_compaction.core.window.preview import is_large, lines_to_keep
from mcp_compaction.model import Ask, Budget, HeldBy, Message, Session, Value

_LEAST_VIEW = 8_000  # tokens; the summaries of hosts take 1.5k to 6k
_TOKENS_OF_STEP = 60  # a call with what answered it, as a line
_CHARS_OF_TOKEN = 4
_NO_TALK = ("step", "file", "wanted")  # of what a view tells of earlier messages


def reachable_target(named: int, fill: Fill) -> int:
    """The counted tokens that a caller named; where what only the host sees takes nearly all of
    them, a view that tells something still gets its room, at most a quarter of what was said."""
    return max(named, fill.unseen + min(named, fill.counted_by_us // 4, _LEAST_VIEW))


def reachable_goal(policy: Policy, fill: Fill) -> int:
    """The counted tokens that a policy goes down to; where the system prompt and the tools take
    nearly all of them, what was said still gets its room."""
    fixed = dict(fill.parts)["system and tools"] + fill.unseen
    room = min(min(policy.release_tokens, policy.window_tokens - fixed) // 4, _LEAST_VIEW)
    return max(policy.release_tokens, fixed + room)


def share_out(window: WindowPlan, session: Session, policy: Policy, goal: int) -> Budget:
    """The most counted tokens of each part of a window that goes down to a goal."""
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
        tail=_tail_limit(session, policy, room, window.head_tokens),
        digest=max(1, min(policy.digest_limit, room // 6)),
        names=min(4 * policy.index_max_tokens, room // 4),
        index=room // 8,
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


def order_limit(room: int) -> int:
    """The most tokens of a long order that is no longer at hand."""
    return room // 4


def keeps_all_rules(request: Message, room: int, policy: Policy, count: CountTokens) -> bool:
    """Whether all rules of a request stand in a view: those of a program's long prompt would leave
    a small one no room for the work itself."""
    if not is_large(request.text, policy, count):
        return True
    return count("\n".join(lines_to_keep(request)[0])) <= newest_request_limit(room)


def unread_limit(room: int, fixed: int) -> int:
    """The tokens that unread results may claim before recent steps get any."""
    return (room - fixed) // 3


def prose_limit(room: int) -> int:
    """The tokens that the handover of the session's own model may take."""
    return room // 12


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


def index_beside_names(room: int, names: int) -> int:
    """The most tokens that are left for the index where names take so many."""
    return max(0, 3 * room // 10 - names)


def excerpts_limit(left: int, freed: int, ask: Ask) -> int:
    """The most tokens of excerpts, where so many are left below the goal and so many are freed:
    all of them for an explicit target; a forced compaction gives back a part of what it freed."""
    return min(left, freed // 4) if ask.force and ask.target_percent is None else left


def _tail_limit(session: Session, policy: Policy, room: int, head: int) -> int:
    """The most tokens of the newest steps: what was said after the head and a line for each call
    come before them; where people only talk, what was said long ago is worth as much."""
    if is_talk(session.messages):
        return min(room // 8, policy.tail_limit)
    talk, calls = talk_of(session)
    others = max(0, talk - head) if keeps_talk(talk, room) else room // 3
    steps = min(calls * _TOKENS_OF_STEP, room // 3)
    most = int(2 * room * KEEPING[policy.complexity].share) // 5
    left = max(room // 6, min(most, room - others - steps - room // 6))
    return min(left, policy.tail_limit)


def talk_of(session: Session) -> tuple[int, int]:
    """About how many tokens of talk a session's view has to tell, and how many calls."""
    earlier = (one for one in session.view.promoted if one.by not in _NO_TALK)
    kept = sum(len(text) for one in earlier for text in one.pieces)
    said = sum(len(message.text) for message in session.messages if message.role != "system")
    calls = sum(len(message.calls) for message in session.messages)
    return (kept + said) // _CHARS_OF_TOKEN, calls


def keeps_talk(talk: int, room: int) -> bool:
    """Whether so much talk stands whole in a room."""
    return talk <= 2 * room // 3


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

"""What holds a window: its tokens by what takes them, and what keeps it above a goal."""

from __future__ import annotations

from mcp_compaction.core.compaction.blocks import StepBlock, WindowPlan
from mcp_compaction.core.window.fill import Fill
from mcp_compaction.model import HeldBy, Value


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
        held: HeldBy = (
            ("system", self.system),
            ("pins", self.pins),
            ("first_request", self.first_request),
            ("recent_steps", self.recent_steps),
            ("older_steps", self.older_steps),
            ("digests", self.digests),
            ("excerpts", self.excerpts),
        )
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

"""How full the window is, against which threshold."""

from __future__ import annotations

from itertools import chain
from typing import Literal

from mcp_compaction.core.excerpts.render import excerpts_block
from mcp_compaction.core.log.pinned import pinned_block
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import CountTokens, family_factor, precision_of, token_ratio
from mcp_compaction.core.window.render import (
    entries_of,
    excerpts_by_place,
    index_in_view,
    late_pin_blocks,
    pins_in_view,
)
from mcp_compaction.model import Digested, Message, Precision, Session, Trimmed, Value

PartName = Literal[
    "system and tools", "memory", "pinned", "digests", "index", "promoted", "messages", "unseen"
]


class Fill(Value):
    """What the window holds: counted tokens by part, and what they are to the model."""

    parts: tuple[tuple[PartName, int], ...]
    by_role: tuple[tuple[str, int], ...] = ()  # empty where the messages were not read
    window: int
    ratio: float
    precision: Precision
    unseen: int = 0  # of the part of that name: what the provider counted and no view changes
    gone: int = 0  # what we count and the provider did not; below 0 what leaves with the messages
    gone_of: int = 0  # our count of the window that it was gone from

    @property
    def counted(self) -> int:
        """The tokens of the window as our counter would count them."""
        ours = self.counted_by_us
        # A smaller window than the reported one has another view, of which nothing is gone.
        return ours + self.unseen - (self.gone if ours >= self.gone_of else 0)

    @property
    def counted_by_us(self) -> int:
        """The tokens that our counter counts, whatever a provider reported."""
        return sum(tokens for _, tokens in self.parts) - self.unseen

    @property
    def tokens(self) -> int:
        """The tokens as the model's own tokenizer would count them, as far as is known."""
        return self.scaled(self.counted)

    @property
    def view_tokens(self) -> int:
        """The tokens of a window that shows our view: the host's own may still show more."""
        return self.scaled(self.counted_by_us + self.unseen)

    @property
    def percent(self) -> float:
        """The fill of the window in percent."""
        return 100 * self.tokens / self.window

    @property
    def room(self) -> int:
        """The tokens left."""
        return max(0, self.window - self.tokens)

    def scaled(self, counted: int) -> int:
        """Some counted tokens as the model would count them."""
        return round(counted * self.ratio)


class Pressure(Value):
    """What the fill calls for."""

    level: Literal["calm", "advise", "wait", "act", "safety net"]
    trigger_percent: float  # from here on at a boundary, where one is waited for
    net_percent: float  # from here on at once
    release_percent: float
    decided_by: Literal["percentage", "reserve"]


def in_counted_tokens(policy: Policy, fill: Fill) -> Policy:
    """The policy with its window in our counter's tokens, which plans are made in."""
    return policy.model_copy(update={"window_tokens": max(1, int(fill.window / fill.ratio))})


def measure(
    session: Session, policy: Policy, count: CountTokens, counter_precision: Precision = "exact"
) -> Fill:
    """The fill of a session's view; messages and digests bring their counts with them, and messages
    that were not read count nothing."""
    traits = session.info.traits
    by_role: dict[str, int] = {}
    messages = {m.seq: m for m in session.messages}
    digests = {d.number: d for d in session.digests}
    digest_tokens = 0
    for entry in entries_of(session.view, session.messages):
        if isinstance(entry, Digested):
            digest_tokens += digests[entry.digest].tokens + policy.overhead_per_message
        elif message := messages.get(entry.seq):
            tokens = entry.tokens if isinstance(entry, Trimmed) else message.tokens
            kind = _kind_of(message)
            by_role[kind] = by_role.get(kind, 0) + tokens + policy.overhead_per_message
    index = index_in_view(session, policy.index_limit, count)
    promoted = [excerpts_block(some) for some in excerpts_by_place(session.view).values()]
    pinned = [pinned_block(pins_in_view(session)), *chain(*late_pin_blocks(session).values())]
    ratio = ratio_of(session)
    known = session.calibration
    is_known = known.counted > 0 and known.reported > 0
    # What a provider counted beyond us, or less, and no ratio explains.
    drift = round(known.reported / ratio) - known.counted if is_known else None
    told = None if traits.owns_window else traits.unseen_tokens
    stays = max(0, drift or 0) if told is None else round(told / ratio)
    gone = 0 if drift is None else stays - drift
    parts: tuple[tuple[PartName, int], ...] = (
        ("system and tools", session.section_tokens),
        ("memory", 0 if session.view.memory_in is not None else session.memory_tokens),
        ("pinned", sum(count(text) + policy.overhead_per_message for text in pinned if text)),
        ("digests", digest_tokens),
        ("index", count(index) + policy.overhead_per_message if index else 0),
        ("promoted", sum(count(text) + policy.overhead_per_message for text in promoted)),
        ("messages", sum(by_role.values())),
        ("unseen", stays),
    )
    return Fill(
        parts=parts,
        by_role=tuple(sorted(by_role.items())),
        window=policy.window_tokens,
        ratio=ratio,
        precision=precision_of(counter_precision, traits.model),
        unseen=stays,
        gone=gone,
        gone_of=session.calibration.counted if gone else 0,
    )


def ratio_of(session: Session) -> float:
    """How many tokens the session's model makes of one that our counter counts.

    The last report tells it only where the window is ours: what a host drops of its window by
    itself is no matter of counting.
    """
    traits = session.info.traits
    if not traits.owns_window:
        return traits.token_factor or family_factor(traits.model)
    return token_ratio(traits.model, session.calibration)


def pressure(fill: Fill, policy: Policy) -> Pressure:
    """Whether the fill is fine, worth advice, or calls for acting without being asked."""
    trigger = policy.trigger_percent
    if fill.percent >= policy.net_percent:
        level = "safety net" if policy.agent_controlled else "act"
    elif fill.percent >= trigger:
        level = "wait"
    elif fill.percent >= trigger - policy.advise_below_trigger:
        level = "advise"
    else:
        level = "calm"
    return Pressure(
        level=level,
        trigger_percent=trigger,
        net_percent=policy.net_percent,
        release_percent=policy.release_percent,
        decided_by="reserve" if policy.is_decided_by_reserve else "percentage",
    )


def describe_trigger(found: Pressure) -> str:
    """The fill at which a window is compacted without being asked: `at 95 %`."""
    why = ", where only the reserve is free" if found.decided_by == "reserve" else ""
    if found.net_percent > found.trigger_percent:
        net = f"at {found.net_percent:.3g} % at once"
        return f"from {found.trigger_percent:.3g} % on at a boundary, {net}"
    return f"at {found.trigger_percent:.3g} %{why}"


def _kind_of(message: Message) -> str:
    return "tool results" if message.results else message.role

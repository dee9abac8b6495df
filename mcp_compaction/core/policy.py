"""All the numbers that decide: the policy, its presets, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, NamedTuple, Self

from pydantic import Field, model_validator

from mcp_compaction.lexicon.models import window_of_model
from mcp_compaction.model import AgentProfile, Complexity, Traits, Value

Percent = Annotated[float, Field(ge=0, le=100)]
Positive = Annotated[int, Field(gt=0)]
Count = Annotated[int, Field(ge=0)]

_PRESSURE_POINTS = 10


class Keeping(NamedTuple):
    """How a task's complexity changes what a compaction keeps."""

    turns: int  # recent turns more or less
    share: float  # times the shares of the window for recent turns and for excerpts


KEEPING: Mapping[Complexity, Keeping] = MappingProxyType(
    {
        "simple": Keeping(-1, 0.5),
        "medium": Keeping(0, 1.0),
        "complex": Keeping(1, 1.5),
        "epic": Keeping(2, 2.0),
    }
)


def setting(default: object, meaning: str, when: str) -> Any:
    """A field that a user can set: its default, what it means, and when one would change it."""
    return Field(default=default, description=meaning, json_schema_extra={"when": when})


class Policy(Value):
    """How full is too full, how far down to go, and what stays.

    A field made by `setting` is one; presets, sessions and programs set the other fields, too, and
    what nobody sets is a constant.
    """

    # The window
    window_tokens: Positive = setting(
        200_000,
        "Tokens the window holds; set, it counts over what a host or a model tells.",
        "the model is not known, or only a part of its window is to be used",
    )
    overhead_per_tool: ClassVar[int] = 50  # tokens, where its definition is not seen
    overhead_per_message: Count = 4  # tokens over its text

    # When
    agent_controlled: bool = setting(
        True,
        "Whether the agent decides when to compress, over a safety net.",
        "no: the tool `compress_context` is not offered, and the system alone decides",
    )
    fill_threshold_percent: Percent = setting(
        80,
        "Fill at which the system compresses when the agent is not in control.",
        "compactions come too early or too late",
    )
    safety_threshold_percent: Percent = setting(
        95,
        "Fill at which a compaction waits for nothing, whoever is in control.",
        "single steps are so large that 5 % are no room",
    )
    wait_for_boundary: bool = True  # for a finished task, up to the safety net
    reserve_tokens: Count = setting(
        8_000,
        "Tokens kept free for the answer and the next input; a quarter of the window at most.",
        "answers or inputs are longer; 0: percentages alone decide",
    )
    release_percent: Percent = setting(
        60,
        "Fill a compaction goes down to; below the threshold that acts.",
        "compactions are to be rarer (lower) or to keep more (higher)",
    )
    advise_below_trigger: ClassVar[float] = 15  # points, where advice to compress starts
    min_messages_to_compact: ClassVar[int] = 4
    min_gain_percent: Percent = 5  # of the window, for a compaction to be worth it
    # Acts 10 points earlier, keeps one recent turn less: by itself near a limit of calls or cost.
    budget_pressure: bool = False

    grade: bool = setting(
        True,
        "Whether each compaction is graded by what came after it, beside other views of its size.",
        "no: a compaction is to take no CPU for telling how the last one went",
    )

    # What stays
    keep_first_request: bool = setting(
        True,
        "Whether the first request stays in the head.",
        "no: the first request is small talk, as in a chat that never ends",
    )
    head_preview_over_tokens: ClassVar[int] = 2_000
    preserve_recent_turns: Count = setting(
        3,
        "Newest turns, of two messages each, that stay while the goal has room.",
        "the agent leans on more, or fewer, of its last steps",
    )
    preserve_recent_percent: Percent | None = setting(
        10,
        "Share of the window kept as recent turns when that is more.",
        "none: the number of turns alone counts",
    )
    tail_max_percent: Percent = 30  # of the window, for recent turns unshrunk
    preserve_recent_messages: Positive | None = None  # exactly so many newest entries instead
    compaction_ratio: Annotated[float, Field(gt=0, lt=1)] | None = None  # the oldest share instead
    complexity: Complexity = "medium"
    agent_profile: AgentProfile = "plain"  # verbose and deliberative count as complex
    promoted_max_percent: Percent = 10  # 0: only digests tell of what left the window

    # How large, in tokens where nothing else is said
    shrink_over_tokens: Positive = 500  # an old tool result becomes a preview
    shrink_over_chars: Positive | None = None  # that in characters
    offload_over_tokens: Positive | None = setting(
        None,
        "Size from which a large result is a preview when it comes (hooks, plugin, gateway).",
        "logs or files fill the window at once; 5000 is a good start",
    )
    digest_max_tokens: Positive = 600
    digest_max_percent: ClassVar[float] = 30  # of the window
    index_max_tokens: Positive = 400
    pinned_max_tokens: Positive = 2_000  # over it a pin is refused
    pinned_max_chars: ClassVar[int] = 7_500  # hosts cut longer ones
    pinned_max_percent: ClassVar[float] = 20  # of the window
    fact_days: ClassVar[int] = 90  # after which a fact that no session used ends
    recall_max_tokens: Positive = 1_000  # where a recall names no size

    @model_validator(mode="after")
    def _check_release(self) -> Self:
        if self.release_percent >= self.trigger_percent:
            raise ValueError(
                f"release_percent ({self.release_percent:g}) must be below "
                f"{self.trigger_field} ({self.trigger_percent:g}), which acts; "
                "lower the one or raise the other"
            )
        return self

    @property
    def window_set(self) -> int | None:
        """The window that somebody has set; None where it is the default."""
        return self.window_tokens if "window_tokens" in self.model_fields_set else None

    @property
    def trigger_field(self) -> str:
        """The name of the threshold that acts: the safety net's or the system's."""
        return "safety_threshold_percent" if self.agent_controlled else "fill_threshold_percent"

    @property
    def trigger_percent(self) -> float:
        """The fill at which a compaction happens without being asked for."""
        return (
            self.safety_threshold_percent if self.agent_controlled else self.fill_threshold_percent
        )

    @property
    def net_percent(self) -> float:
        """The fill at which a compaction waits for nothing; from the trigger on it waits."""
        if self.agent_controlled or not self.wait_for_boundary:
            return self.trigger_percent
        return max(self.trigger_percent, self.safety_threshold_percent)

    @property
    def reserve_reached_percent(self) -> float:
        """The fill at which no more than the reserve is free."""
        most = self.window_tokens / 4
        return 100 - 100 * min(most, self.reserve_tokens) / self.window_tokens

    @property
    def is_decided_by_reserve(self) -> bool:
        """Whether the reserve acts before the percentage, or with it."""
        return self.reserve_tokens > 0 and self.trigger_percent >= self.reserve_reached_percent

    @property
    def release_tokens(self) -> int:
        """The tokens a compaction goes down to."""
        return self.share(self.release_percent)

    @property
    def tail_limit(self) -> int:
        """The most tokens that recent turns take unshrunk."""
        return self.share(self.tail_max_percent)

    @property
    def min_gain_tokens(self) -> int:
        """The fewest tokens a compaction must free."""
        return self.share(self.min_gain_percent)

    @property
    def least_recent_turns(self) -> int:
        """How many newest turns stay in any case; where none are set, none."""
        if not self.preserve_recent_turns:
            return 0
        return max(1, self.preserve_recent_turns + KEEPING[self.complexity].turns)

    @property
    def digest_limit(self) -> int:
        """The most tokens of one digest in this window."""
        return min(self.digest_max_tokens, self.share(self.digest_max_percent))

    @property
    def index_limit(self) -> int:
        """The most tokens of one index in this window; two thirds of a digest's share."""
        return min(self.index_max_tokens, self.share(self.digest_max_percent) * 2 // 3)

    @property
    def pinned_limit(self) -> int:
        """The most tokens of the pinned block in this window."""
        return min(self.pinned_max_tokens, self.share(self.pinned_max_percent))

    @property
    def marker_threshold(self) -> int:
        """How many groups of epistemic markers keep a message word for word."""
        is_demanding = self.complexity in ("complex", "epic") or self.agent_profile != "plain"
        return 1 if is_demanding else 3

    def share(self, percent: float) -> int:
        """That many percent of the window, in whole tokens."""
        return int(self.window_tokens * percent / 100)

    def keeping_newest_turns(self) -> Policy:
        """The same policy with the least tail: the newest turns alone, whatever else fits."""
        return self.model_copy(
            update={"preserve_recent_messages": 2 * max(1, self.least_recent_turns)}
        )

    def recent_turns(self, average_turn_tokens: float) -> int:
        """How many newest turns stay: the set number or what the percentage holds, the larger."""
        least = self.least_recent_turns
        if self.preserve_recent_percent is None or average_turn_tokens <= 0:
            return least
        percent = self.preserve_recent_percent * KEEPING[self.complexity].share
        return max(least, int(self.window_tokens * percent / 100 / average_turn_tokens))


def under_pressure(policy: Policy) -> Policy:
    """The policy to act by: earlier and with one recent turn less where the budget is tight."""
    if not policy.budget_pressure:
        return policy
    fill = max(0.0, policy.fill_threshold_percent - _PRESSURE_POINTS)
    safety = max(0.0, policy.safety_threshold_percent - _PRESSURE_POINTS)
    trigger = safety if policy.agent_controlled else fill
    return policy.model_copy(
        update={
            "budget_pressure": False,  # it is applied now: applying twice must change nothing
            "fill_threshold_percent": fill,
            "safety_threshold_percent": safety,
            "release_percent": min(policy.release_percent, max(0.0, trigger - _PRESSURE_POINTS)),
            "preserve_recent_turns": max(0, policy.preserve_recent_turns - 1),
        }
    )


def with_reserve(policy: Policy) -> Policy:
    """The policy with no threshold above the fill at which only its reserve is free.

    The release mark goes down with the trigger: in a small window a few results would fill the
    rest between them, and every other step would compact.
    """
    reached = policy.reserve_reached_percent
    if policy.trigger_percent <= reached and policy.net_percent <= reached:
        return policy
    trigger = min(policy.trigger_percent, reached)
    gap = max(_PRESSURE_POINTS, policy.trigger_percent - policy.release_percent)
    return policy.model_copy(
        update={
            "fill_threshold_percent": min(policy.fill_threshold_percent, reached),
            "safety_threshold_percent": min(policy.safety_threshold_percent, reached),
            "release_percent": policy.release_percent
            if trigger == policy.trigger_percent
            else max(0, min(policy.release_percent, trigger - gap)),
        }
    )


def for_session(policy: Policy, traits: Traits) -> Policy:
    """The policy with what is known of one session put over it."""
    known = {
        "window_tokens": _window_in(policy, traits),
        "complexity": traits.complexity,
        "agent_profile": traits.agent_profile,
    }
    update = {name: value for name, value in known.items() if value}
    return policy.model_copy(update=update) if update else policy


def _window_in(policy: Policy, traits: Traits) -> int | None:
    """The window of one session, where more is known of it than the policy says."""
    if policy.window_set is None:
        return traits.window_tokens or window_of_model(traits.model or "")
    return traits.window_tokens if traits.owns_window else None  # what a host reports is no wish


PRESETS: Mapping[str, Policy] = MappingProxyType(
    {
        "default": Policy(),
        "ladder": Policy(
            agent_controlled=False,
            fill_threshold_percent=85,
            wait_for_boundary=False,
            release_percent=60,
            digest_max_tokens=600,
        ),
        "subagent": Policy(
            agent_controlled=False,
            window_tokens=4_096,
            fill_threshold_percent=60,
            wait_for_boundary=False,
            release_percent=40,
            preserve_recent_messages=3,
            digest_max_tokens=300,
        ),
        "supervisor": Policy(
            agent_controlled=False,
            window_tokens=500,
            fill_threshold_percent=100,
            wait_for_boundary=False,
            reserve_tokens=0,
            compaction_ratio=0.5,
            release_percent=80,  # where half stays as it is, this leaves room for quotations
            keep_first_request=False,
            promoted_max_percent=100,
        ),
        "lab": Policy(
            agent_controlled=False,
            preserve_recent_messages=6,
            shrink_over_chars=500,
        ),
    }
)

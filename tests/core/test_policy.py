"""The policy's defaults, presets and what follows from them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from mcp_compaction.core.policy import (
    PRESETS,
    Policy,
    for_session,
    under_pressure,
    with_reserve,
)
from mcp_compaction.model import Traits


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("fill_threshold_percent", 101),
        ("release_percent", -1),
        ("min_gain_percent", float("nan")),
        ("window_tokens", 0),
        ("preserve_recent_turns", -1),
        ("preserve_recent_messages", 0),
        ("compaction_ratio", 0),
        ("compaction_ratio", 1),
        ("complexity", "hard"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(field: str, value: Any):
    with pytest.raises(ValidationError, match=field):
        Policy(**{field: value})


def test_a_release_mark_at_or_over_the_trigger_is_refused_with_the_numbers():
    with pytest.raises(ValidationError, match=r"release_percent \(95\) must be below safety_"):
        Policy(release_percent=95)
    with pytest.raises(ValidationError, match=r"below fill_threshold_percent \(60\)"):
        Policy(agent_controlled=False, fill_threshold_percent=60)


@given(
    st.booleans(),
    st.floats(0, 100),
    st.floats(0, 100),
    st.floats(0, 100),
    st.integers(0, 5),
)
def test_pressure_never_leaves_the_range(
    agent: bool, fill: float, safety: float, release: float, turns: int
):
    trigger = safety if agent else fill
    if release >= trigger:
        return
    tight = under_pressure(
        Policy(
            agent_controlled=agent,
            fill_threshold_percent=fill,
            safety_threshold_percent=safety,
            release_percent=release,
            preserve_recent_turns=turns,
            budget_pressure=True,
        )
    )
    assert 0 <= tight.release_percent <= tight.trigger_percent <= 100
    assert tight.preserve_recent_turns >= 0


@pytest.mark.parametrize(
    ("window", "trigger", "release"),
    [(4_096, 75, 40), (32_000, 75, 40), (100_000, 92, 57), (200_000, 95, 60), (1_000_000, 95, 60)],
)
def test_windows_of_every_size_act_while_there_is_room_for_an_answer(
    window: int, trigger: float, release: float
):
    policy = with_reserve(Policy(window_tokens=window))
    assert (policy.trigger_percent, policy.release_percent) == (trigger, release)
    assert policy.is_decided_by_reserve == (trigger < 95)
    assert policy.window_tokens - policy.share(policy.trigger_percent) >= min(8_000, window // 4)


@given(
    st.integers(1, 2_000_000),
    st.integers(0, 2_000_000),
    st.booleans(),
    st.tuples(st.floats(0, 100), st.floats(0, 100), st.floats(0, 100)),
)
def test_a_reserve_only_makes_a_policy_act_earlier_and_always_above_its_release_mark(
    window: int, reserve: int, agent: bool, percents: tuple[float, float, float]
):
    release, fill, safety = percents
    if release >= (safety if agent else fill):
        return
    before = Policy(
        window_tokens=window,
        reserve_tokens=reserve,
        agent_controlled=agent,
        release_percent=release,
        fill_threshold_percent=fill,
        safety_threshold_percent=safety,
    )
    policy = with_reserve(before)
    assert policy.release_percent < policy.trigger_percent <= policy.net_percent
    assert policy.trigger_percent <= before.trigger_percent
    assert policy.net_percent <= min(before.net_percent, policy.reserve_reached_percent)
    assert policy.is_decided_by_reserve or policy.trigger_percent == before.trigger_percent
    assert with_reserve(policy) == policy


def test_the_presets_are_what_the_design_says():
    assert set(PRESETS) == {"default", "ladder", "subagent", "supervisor", "lab"}
    assert PRESETS["default"] == Policy()
    assert not any(PRESETS[name].agent_controlled for name in PRESETS if name != "default")
    ladder, subagent = PRESETS["ladder"], PRESETS["subagent"]
    assert (ladder.trigger_percent, ladder.release_percent, ladder.digest_limit) == (85, 60, 600)
    assert (subagent.window_tokens, subagent.trigger_percent) == (4_096, 60)
    assert (subagent.preserve_recent_messages, subagent.digest_limit) == (3, 300)
    supervisor, lab = PRESETS["supervisor"], PRESETS["lab"]
    assert (supervisor.window_tokens, supervisor.trigger_percent) == (500, 100)
    assert supervisor.compaction_ratio == 0.5
    assert not supervisor.keep_first_request
    assert lab.keep_first_request
    assert lab.shrink_over_chars == 500
    assert lab.preserve_recent_messages


@pytest.mark.parametrize(
    ("policy", "traits", "window"),
    [
        (Policy(), Traits(), 200_000),
        (Policy(), Traits(model="claude-opus-5-5"), 1_000_000),
        (Policy(), Traits(model="gpt-4o"), 128_000),
        (Policy(), Traits(model="my-own-model"), 200_000),
        (Policy(), Traits(model="claude-opus-5-5", window_tokens=258_400), 258_400),
        (Policy(window_tokens=50_000), Traits(model="claude-opus-5-5"), 50_000),
        # What a host reports is no wish; what a session's own loop was told is one.
        (Policy(window_tokens=50_000), Traits(window_tokens=258_400, owns_window=False), 50_000),
        (Policy(window_tokens=50_000), Traits(window_tokens=30_000), 30_000),
    ],
)
def test_a_window_that_is_set_counts_over_what_a_host_or_a_model_tells(
    policy: Policy, traits: Traits, window: int
):
    assert for_session(policy, traits).window_tokens == window

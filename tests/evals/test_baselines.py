"""The simpler ways: within the budget, in order, and true to their definitions."""

from __future__ import annotations

import pytest

from mcp_compaction.evals import baselines
from mcp_compaction.evals.baselines import BASELINES, cost
from mcp_compaction.evals.corpora import PlainLine

CHAT = [
    PlainLine(role="user" if n % 2 == 0 else "assistant", text=f"{who}: {text}")
    for n, (who, text) in enumerate(
        [
            ("Ana", "Hey! How are you? Good to see you."),
            ("Tom", "Great, thanks. My sister Ines moved to Trondheim in 2019."),
            ("Ana", "Wow. Good to hear. I sold the green canoe for 340 crowns."),
            ("Tom", "Good to hear. See you soon."),
            ("Ana", "See you soon. Good to see you."),
        ]
        * 3
    )
]


def count(text: str) -> int:
    return len(text.split())


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("budget", [0, 10, 40, 1_000])
def test_every_way_stays_within_its_budget_and_keeps_the_order(name: str, budget: int) -> None:
    kept = BASELINES[name](CHAT, budget, count)
    assert sum(cost(line.text, count) for line in kept) <= budget
    whole = " ".join(line.text for line in CHAT)
    assert all(line.text in whole or name == "first 100, to 500" for line in kept)
    assert kept == BASELINES[name](CHAT, budget, count)


@pytest.mark.parametrize("name", ["LangChain", "deepagents", "CliffCompaction"])
def test_a_peer_keeps_to_the_budget_where_it_is_installed(name: str) -> None:
    strategy = baselines.find_peers().strategies.get(name)
    if strategy is None:
        pytest.skip(f"{name} is not installed")
    chat = CHAT * 6
    kept = strategy(chat, 300, count)
    assert sum(cost(line.text, count) for line in kept) <= 300
    assert kept[-1] == chat[-1]

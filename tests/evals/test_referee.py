"""The outside referee is asked where it is installed, and the product keeps to its budgets."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

import pytest

from mcp_compaction.evals import evaluation
from mcp_compaction.evals.report import make_tables
from mcp_compaction.evals.results import PRODUCT, Report


def turns_of(seed: int) -> list[Any]:
    session, _ = import_module("compaction_kit.corpus").build_random_session(seed)
    return session.transcript()


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_a_view_keeps_to_a_budget_in_characters_and_is_compressed_once(share: float) -> None:
    turns = turns_of(1)
    budget = int(share * sum(len(turn.text) for turn in turns))
    made = evaluation.Refereed().compact(turns, budget_chars=budget)
    assert budget / 2 < len(made.text) <= budget
    again = [type(turns[0])("system", made.text)]
    assert evaluation.Refereed().compact(again, 2, budget).text == made.text


def test_nothing_is_compressed_without_a_budget() -> None:
    turns = turns_of(1)
    assert evaluation.Refereed().compact(turns).text == "\n".join(turn.text for turn in turns)


@pytest.mark.thorough
def test_its_score_is_a_table_beside_its_own_checklist() -> None:
    scores = asyncio.run(evaluation.ask_referee(1))
    assert [(one.strategy == PRODUCT, one.percent) for one in scores].count((True, 10)) == 1
    assert all(one.is_within_budget for one in scores)
    report = Report(counter="", seed=1, sessions=(), scores=(), costs=(), referee=scores)
    ((heading, rows),) = make_tables(report)
    assert heading.startswith(evaluation.KIT)
    assert len(rows) == 1 + len(scores) == 7


def test_it_is_left_out_where_it_is_not_wanted_or_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert asyncio.run(evaluation.ask_referee(0)) == ()

    def nothing(name: str) -> None:
        assert name == "compaction_kit"

    monkeypatch.setattr(evaluation, "find_spec", nothing)
    assert asyncio.run(evaluation.ask_referee(1)) == ()
    assert "not installed" in evaluation.NOT_INSTALLED

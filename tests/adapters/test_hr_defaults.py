"""A front desk at the defaults of LangGraph's adapter keeps who came for what, and how it went."""

from __future__ import annotations

import runpy

import pytest

from tests.documents import ROOT

pytest.importorskip("langgraph")


def test_names_roles_and_results_stand_in_the_thread_at_the_defaults() -> None:
    example = runpy.run_path(str(ROOT / "examples/hr_supervisor/hr_supervisor.py"))
    shown, _ = example["history_after"](example["interviews"](), 500, 0.5)
    text = "\n".join(shown)
    told = (
        ("Maria Lopez", "backend engineer", "passed, 4.5 of 5"),
        ("Jonas Weber", "data analyst", "rejected, weak in SQL"),
        ("Aiko Tanaka", "UX designer", "passed, offer of 68,000 euros"),
        ("Samuel Okoro", "reliability engineer", "second interview on 2 April"),
        ("Lena Fischer", "product manager", "withdrew, took another job"),
    )
    assert [word for row in told for word in row if word not in text] == []

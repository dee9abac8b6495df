"""Runs each test of the contract on every store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.store.contract.places import Place, SqlitePlace


@pytest.fixture(params=["sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Where a test's store lies."""
    return SqlitePlace(tmp_path)

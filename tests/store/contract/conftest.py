"""Runs each test of the contract on every store."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from tests.store.contract.places import Place, PostgresPlace, SqlitePlace
from tests.store.postgres_server import Server

# All of it on a second store would slow the plain tests; .ci/run asks for it after them.
STORES = ["sqlite", pytest.param("postgres", marks=pytest.mark.thorough)]


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Where a test's store lies."""
    if request.param == "sqlite":
        return SqlitePlace(tmp_path)
    server: Server = request.getfixturevalue("postgres")
    return PostgresPlace(server.address, f"owner-{uuid4().hex}")

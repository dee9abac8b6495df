"""A real PostgreSQL for the tests of the stores, started when first asked for."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.store.postgres_server import WHY_NOT, Server, find_programs, running_server


@pytest.fixture(scope="session")
def postgres() -> Generator[Server]:
    """A server for all tests of this process; each test is an owner of its own."""
    if find_programs() is None:
        pytest.skip(WHY_NOT)
    pytest.importorskip("psycopg")
    with running_server() as server:
        yield server

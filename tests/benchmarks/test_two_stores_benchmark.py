"""The benchmark of both stores: its smallest run."""

from __future__ import annotations

import pytest

from benchmarks import two_stores
from tests.store.postgres_server import WHY_NOT, find_programs, running_server

pytestmark = pytest.mark.thorough


def test_it_prints_both_stores_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    if find_programs() is None:
        pytest.skip(WHY_NOT)
    with running_server() as server:
        sizes = ["--sizes", "64", "--no-processes"]
        assert two_stores.main(["--store", server.address, *sizes]) == 0
    out = capsys.readouterr().out
    for words in ("A store of 64 messages", "Recall, all kinds together", "Room in PostgreSQL"):
        assert words in out
    assert out.count("SQLite") == out.count("PostgreSQL  ") > 10

"""The load on a team's servers runs, and finds all that was acknowledged."""

from __future__ import annotations

import pytest

from benchmarks import team_load
from tests.store.postgres_server import WHY_NOT, find_programs

pytestmark = pytest.mark.thorough


def test_sessions_go_on_while_a_server_is_killed(capsys: pytest.CaptureFixture[str]) -> None:
    if find_programs() is None:
        pytest.skip(WHY_NOT)
    words = ["--servers", "2", "--sessions", "4", "--seconds", "15", "--kills", "1"]
    assert team_load.main(words) == 0
    said = capsys.readouterr().out
    assert "nothing was lost" in said
    assert " 0 errors" in said

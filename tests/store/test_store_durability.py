"""Nothing acknowledged is lost and nothing is half done, however a process ends."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.thorough

HERE = Path(__file__).parent


def findings(task: str, folder: Path) -> dict[str, Any]:
    """What the script that kills writers found."""
    return found_by("killing.py", task, str(folder))


def found_by(script: str, *arguments: str) -> dict[str, Any]:
    """What one of the scripts beside this file found."""
    ran = subprocess.run(
        [sys.executable, str(HERE / script), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    sys.stderr.write(ran.stderr)  # shown beside whatever is asserted of the findings
    return json.loads(ran.stdout)


def test_a_kill_at_any_statement_leaves_the_state_before_or_after(memory_path: Path) -> None:
    found = findings("fault_points", memory_path)
    for operation in ("record", "compress", "forget_message", "forget_session", "migrate"):
        tally = found[operation]
        assert tally["points"] >= 10, (operation, tally)
        assert tally["before"] + tally["after"] == tally["points"], (operation, tally)
        assert tally["between"] == tally["unsound"] == 0, (operation, tally)


def test_no_acknowledged_message_is_lost_in_100_kills(memory_path: Path) -> None:
    found = findings("random_moments", memory_path)
    assert found["kills"] == 100
    assert found["in_transaction"] >= 50
    assert found["acknowledged"] > 50
    assert found["lost"] == found["unsound"] == 0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_no_acknowledged_message_is_lost_in_1000_kills_with_forgets_among_them(
    memory_path: Path,
) -> None:
    found = found_by("storm.py", str(memory_path), "1000")
    assert found["kills"] == 1000
    assert found["forgets"] == 20
    assert found["acknowledged"] > 5_000
    assert found["compactions"] > 100
    assert found["errors"] == found["lost"] == found["half_compactions"] == 0
    assert found["forgotten_left"] == 0
    assert found["damage"] == []


@pytest.mark.parametrize("cuts", [40, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="needs LD_PRELOAD and a compiler"
)
def test_nothing_promised_is_lost_when_the_power_is_cut(cuts: int, memory_path: Path) -> None:
    found = found_by("power.py", str(memory_path), str(cuts))
    assert found["cuts"] == cuts
    assert found["torn"] > cuts
    assert found["promised"] > 20 * cuts
    assert found["lost"] == found["unsound"] == 0


@pytest.mark.parametrize("each", [150, pytest.param(500, marks=pytest.mark.slow)])
def test_sixteen_processes_write_one_gapless_session(each: int, memory_path: Path) -> None:
    found = found_by("killing.py", "many_writers", str(memory_path), str(each))
    assert found["errors"] == 0
    assert found["gapless"]
    assert found["in_turn"]
    assert found["damage"] == []


def test_six_processes_may_open_a_new_store_at_once(memory_path: Path) -> None:
    assert findings("first_openers", memory_path) == {"errors": 0}


@pytest.mark.skipif(sys.platform == "win32", reason="file size limits are POSIX")
def test_a_full_disk_is_named_and_survived(tmp_path: Path) -> None:
    found = findings("full_disk", tmp_path)
    assert "Free some space" in found["refused"]
    assert 10 < found["acknowledged"] == found["readable"] == found["after"] - 1
    assert found["problems"] == []


def test_nobody_but_sqlite_opens_the_live_file(memory_path: Path) -> None:
    strays = findings("audit", memory_path)["strays"]
    # SQLite has no locks on its log, so that none is lost when it is closed.
    assert strays == ["store.db-wal", "store.db.lock", "store.db.new-PID"]

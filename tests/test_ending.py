"""No test waits without an end, and its children heed signals however the suite was started."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.ending import ends_within

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="only there a process knows its children"
)
ROOT = Path(__file__).parents[1]


def test_a_wait_for_a_child_fails_and_the_child_is_gone() -> None:
    child = subprocess.Popen(["sleep", "600"])
    started: list[subprocess.Popen[bytes]] = []

    def wait_in_vain() -> None:
        with ends_within(0.2), subprocess.Popen(["sleep", "600"]) as waited_for:
            started.append(waited_for)
            waited_for.wait()

    with pytest.raises(pytest.fail.Exception, match=r"no end after 0\.2 s"):
        wait_in_vain()
    assert [one.wait(60) for one in started] == [-signal.SIGKILL]
    assert child.poll() is None  # which was there before
    child.kill()
    child.wait(60)


def test_a_wait_for_a_thread_fails() -> None:
    with pytest.raises(pytest.fail.Exception), ends_within(0.2):
        threading.Event().wait()


def test_every_test_has_an_end() -> None:
    left, again = signal.getitimer(signal.ITIMER_REAL)
    assert 0 < left <= 600
    assert again


@pytest.mark.thorough
def test_a_suite_in_the_background_of_a_shell_passes() -> None:
    words = [sys.executable, "-m", "pytest", "-n", "0", "-q", "tests/cli/test_watch.py"]
    ran = subprocess.run(
        ["sh", "-c", "trap '' INT HUP; exec \"$@\"", "sh", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout

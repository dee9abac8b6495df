"""Every test ends: waiting in vain fails it, and its children heed signals."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

_AGAIN = 10.0  # seconds: what cleans up may wait in vain, too
_HANGUP = "SIGHUP"


def heed_signals() -> None:
    """Have children heed signals that this process was started to ignore, as a shell's job in the
    background is (Ctrl-C), or one under nohup, which itself goes on after a hangup."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    hangup = getattr(signal, _HANGUP, None)
    if hangup is not None and signal.getsignal(hangup) is signal.SIG_IGN:
        signal.signal(hangup, _do_nothing)  # a program does not inherit it


def _do_nothing(*_: object) -> None:
    """Go on."""


@contextmanager
def ends_within(seconds: float) -> Generator[None]:
    """Fail what takes longer, after the processes that it has started are ended."""
    if not hasattr(signal, "setitimer"):
        yield
        return
    known = _find_children()

    def end(*_: object) -> None:
        for child in _find_children() - known:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        pytest.fail(f"it had no end after {seconds:g} s")

    handler = signal.signal(signal.SIGALRM, end)
    left, again = signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left, again)
        signal.signal(signal.SIGALRM, handler)


def _find_children() -> set[int]:
    """The processes that this one has started, where the system tells."""
    found: set[int] = set()
    for thread in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            found.update(map(int, thread.read_text(encoding="ascii").split()))
    return found

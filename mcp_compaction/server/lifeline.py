"""Notices that the host wants the server gone or is gone itself, and keeps the end short.

It works from a thread of its own, since the event loop may be busy, or not yet there.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from types import FrameType

# A host waits 2 s before it kills; up to one tick of it may pass before the server notices.
TICK = 0.5
CLEANUP = 1.3

_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK")
_RUNG = 0


class Lifeline:
    """The guard that ends this process in time, whatever its other threads are doing."""

    def __init__(self, sink: int) -> None:
        self._sink = sink
        self._parent = _read_parent_id()
        self._bell, self._ear = socket.socketpair()
        self._bell.setblocking(False)
        self._numbers = frozenset(getattr(signal, name, _RUNG) for name in _SIGNALS) - {_RUNG}

    def hold(self, stop: Callable[[], None]) -> None:
        """Call `stop` once the host is gone or a signal asks for the end; then count down."""

        def stop_on_signal(_number: int, _frame: FrameType | None) -> None:
            stop()

        for number in self._numbers:
            signal.signal(number, stop_on_signal)
        # The byte reaches the watching thread even while the main thread is deep in C code.
        signal.set_wakeup_fd(self._bell.fileno(), warn_on_full_buffer=False)
        Thread(target=self._watch, args=(stop,), name="lifeline", daemon=True).start()

    def ring(self) -> None:
        """Start the countdown: safe from any thread and from within a signal handler."""
        with suppress(BlockingIOError):
            self._bell.send(bytes([_RUNG]))

    def _watch(self, stop: Callable[[], None]) -> None:
        while True:
            heard, hung_up = self._listen()
            if hung_up or self._numbers & heard or _read_parent_id() != self._parent:
                stop()
                break
            if _RUNG in heard:
                break
        time.sleep(CLEANUP)
        os._exit(0)

    def _listen(self) -> tuple[frozenset[int], bool]:
        if sys.platform == "win32":
            ready, hung_up = bool(select.select([self._ear], [], [], TICK)[0]), False
        else:
            poll = select.poll()
            poll.register(self._ear, select.POLLIN)
            poll.register(self._sink, 0)
            events = dict(poll.poll(TICK * 1000))
            ready = self._ear.fileno() in events
            hung_up = bool(events.get(self._sink, 0) & (select.POLLERR | select.POLLHUP))
        return frozenset(self._ear.recv(64) if ready else b""), hung_up


def _read_parent_id() -> int:
    # Windows keeps naming a parent that is gone.
    return 0 if sys.platform == "win32" else os.getppid()

"""Owns the host's stdin and stdout: takes them aside, reads lines from one, writes to the other,
and ends the process when the host is gone.

Standard library only: `claim` comes before any import that could print or take long.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Event, Lock, Thread
from types import FrameType

from mcp_compaction.server.front import FOR_SDK, Front
from mcp_compaction.server.mend import EDGE, Good, mend, refuse

LONGEST_LINE = 64 * 1024 * 1024

_CHUNK = 65_536


@dataclass(frozen=True)
class LongLine:
    """A line over the limit: only its two ends are kept."""

    head: bytes
    tail: bytes


class Splitter:
    """Cuts a stream of bytes into lines, and keeps only the ends of one that is too long."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self.longest = longest
        self._line = bytearray()
        self._tail: bytes | None = None

    def feed(self, chunk: bytes) -> Iterator[bytes | LongLine]:
        """The lines that this chunk completes."""
        *complete, rest = chunk.split(b"\n")
        for part in complete:
            self._add(part)
            yield self.rest()
        self._add(rest)

    def rest(self) -> bytes | LongLine:
        """The rest after the last line end; the next line begins empty."""
        line, tail = bytes(self._line), self._tail
        self._line, self._tail = bytearray(), None
        return line if tail is None else LongLine(line, tail)

    def _add(self, part: bytes) -> None:
        if self._tail is None:
            self._line += part
            if len(self._line) > self.longest:
                self._tail = bytes(self._line[-EDGE:])
                del self._line[EDGE:]
        else:
            self._tail = (self._tail + part)[-EDGE:]


class Wire:
    """Lines from the host, lines to the host, and the end of both.

    `ring` is called when the end begins: the process has then little time left.
    """

    def __init__(
        self, source: int, sink: int, ring: Callable[[], None], longest: int = LONGEST_LINE
    ) -> None:
        self._source = source
        self._sink = sink
        self._ring = ring
        self._splitter = Splitter(longest)
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._writing = Lock()
        self._front: Front | None = None
        self._has_work = False  # for the SDK, that cannot wait
        self._awake = Event()
        self._served = False
        self._over = False
        self._broken = False

    @property
    def over(self) -> bool:
        """Whether nothing more is to be served."""
        return self._over

    def open(self, front: Front | None = None) -> None:
        """Start reading, so that nothing waits in the pipe while the SDK is imported.

        `front` answers what it can before that.
        """
        self._front = front
        Thread(target=self._read, name="wire", daemon=True).start()

    def wait_for_work(self) -> bool:
        """Wait until the host asks what only the SDK can answer; False where it left before."""
        self._awake.wait()
        return self._has_work

    def is_for_nobody(self, id: object) -> bool:
        """Whether the front has answered this request, so that the SDK's reply is not sent."""
        return self._front is not None and self._front.is_for_nobody(id)

    def readline(self) -> str:
        """The next line that can be served; empty at the end."""
        self._served = True
        line = self._lines.get()
        if self._over or not line:
            # For whoever asks again.
            self._lines.put("")
            self._ring()
            return ""
        return line

    def send(self, text: str) -> None:
        """Write one line whole, or several; a host that no longer reads is a host that is gone."""
        rest = memoryview((text + "\n").encode("utf-8", "replace"))
        with self._writing:
            while rest and not self._broken:
                try:
                    rest = rest[os.write(self._sink, rest) :]
                except BlockingIOError:
                    select.select([], [self._sink], [])
                except OSError:
                    self._broken = True
                    self.stop()

    def stop(self) -> None:
        """End now, whatever is still unread: safe from any thread and in a signal handler."""
        self._over = True
        self._lines.put("")
        self._awake.set()
        self._ring()

    def _read(self) -> None:
        try:
            while chunk := self._chunk():
                for line in self._splitter.feed(chunk):
                    self._take(line)
            self._take(self._splitter.rest())
        finally:
            self._end()

    def _end(self) -> None:
        """Pass the end on in its turn: what came before it may still wait for the SDK."""
        self._lines.put("")
        self._awake.set()
        if self._served or not self._has_work:
            self._ring()

    def _chunk(self) -> bytes:
        while True:
            try:
                return os.read(self._source, _CHUNK)
            except BlockingIOError:
                select.select([self._source], [], [])
            except OSError:
                return b""

    def _take(self, line: bytes | LongLine) -> None:
        if isinstance(line, LongLine):
            head, tail = (end.decode("utf-8", "replace") for end in (line.head, line.tail))
            reason = f"a line is longer than {self._splitter.longest} bytes; send less at a time"
            self.send(refuse(head, reason, tail).text)
        elif line.strip():
            verdict = mend(line)
            if isinstance(verdict, Good):
                self._serve(verdict.text)
            else:
                self.send(verdict.text)

    def _serve(self, line: str) -> None:
        taken = FOR_SDK if self._front is None else self._front.take(line, not self._served)
        if taken.reply is not None:
            self.send(taken.reply)
        if taken.is_passed_on:
            self._lines.put(line)
        if taken.is_urgent:
            self._has_work = True
            self._awake.set()


def claim() -> Wire:
    """Take stdin and stdout for the protocol alone: all else now reads nothing, writes to stderr.

    From here on the process also ends with its host. The wire is still to be opened.
    """
    _fill_gaps()
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    lifeline = Lifeline(sink)
    wire = Wire(source, sink, lifeline.ring)
    lifeline.hold(wire.stop)
    return wire


def _fill_gaps() -> None:
    """Open what the host left closed, so that no other file gets a standard descriptor."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


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

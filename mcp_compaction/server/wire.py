"""Owns the host's stdin and stdout: takes them aside, reads lines from one, answers those that
nothing can read, writes to the other, and ends the process when the host is gone.

Standard library only: `claim` comes before any import that could print or take long.
"""

from __future__ import annotations

import json
import math
import os
import re
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from queue import SimpleQueue
from threading import Event, Lock, Thread
from types import FrameType
from typing import Any, cast

from mcp_compaction.server.front import FOR_SDK, Front

PARSE_ERROR = -32700
INVALID_REQUEST = -32600

# The SDK's parser gives up at 202.
DEEPEST = 200

# How much of each end of a broken line is searched for its id.
EDGE = 16_384

RequestId = str | int | float

LONGEST_LINE = 64 * 1024 * 1024

_CHUNK = 65_536
_MOST_QUIET = 5.0  # seconds after which the SDK is loaded for a host that asks nothing of it


@dataclass(frozen=True)
class Good:
    """A line the SDK can read."""

    text: str


@dataclass(frozen=True)
class LineReply:
    """The reply, of one or more lines, to a line that cannot be served."""

    text: str


_SURROGATE = re.compile(
    r"(?P<keep>\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\(?!u[dD][89a-fA-F]).)"
    r"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}",
    re.DOTALL,
)
_STRING = r'"(?:[^"\\]|\\(?:.|\Z))*+(?:"|\Z)'
_ID = r'"id"\s*+:\s*+(?P<id>-?[0-9]{1,100}(?![0-9.eE])|"(?:[^"\\]|\\.)*+")'
_TOKEN = re.compile(
    rf'{_ID}|(?P<reply>"(?:result|error)"\s*+:)|{_STRING}|(?P<open>[\[{{])|(?P<close>[\]}}])',
    re.DOTALL,
)
_ID_AT_END = re.compile(
    _ID + r'\s*+(?:,\s*+"(?:jsonrpc|method)"\s*+:\s*+"[^"\\]*+"\s*+)*+}\s*+\Z', re.DOTALL
)
_STRINGS = re.compile(_STRING, re.DOTALL)
_NOT_BRACKETS = re.compile(r"[^\[\]{}]+")
_STEPS = {"[": 1, "{": 1, "]": -1, "}": -1}


def mend(line: bytes) -> Good | LineReply:
    """The line repaired where that can be done without guessing, else the error to send back."""
    text = _without_lone_surrogates(line.decode("utf-8-sig", "replace").strip())
    if _depth(text) > DEEPEST:
        return refuse(text, f"nested deeper than {DEEPEST} levels; flatten it and send it again")
    try:
        message: object = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        return refuse(text, f"not valid JSON ({error}); send one JSON-RPC object per line")
    except RecursionError:
        return refuse(text, "nested too deeply; flatten it and send it again")
    except ValueError:
        return refuse(text, "a number is too long, or none at all; send it as a string")
    return _verdict(message, text)


def refuse(text: str, reason: str, tail: str = "") -> LineReply:
    """A parse error that carries the id of the broken request, where its text shows one."""
    return LineReply(_error(_id_in(text, tail or text[-EDGE:]), PARSE_ERROR, reason))


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _without_lone_surrogates(text: str) -> str:
    if "\\ud" not in text and "\\uD" not in text:
        return text
    return _SURROGATE.sub(lambda escape: escape["keep"] or "\\ufffd", text)


def _depth(text: str) -> int:
    if text.count("[") + text.count("{") <= DEEPEST:
        return 0
    brackets = _NOT_BRACKETS.sub("", _STRINGS.sub("", text))
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0)


def _verdict(message: object, text: str) -> Good | LineReply:
    if isinstance(message, list):
        return _refuse_batch(cast("list[object]", message))
    if not isinstance(message, dict):
        reason = "a message is a JSON object; send one JSON-RPC object per line"
        return LineReply(_error(None, INVALID_REQUEST, reason))
    fields = cast("dict[str, Any]", message)
    fault = _fault(fields)
    if fault is None:
        return Good(text)
    return LineReply(_error(_usable(fields.get("id")), INVALID_REQUEST, fault))


def _refuse_batch(batch: list[object]) -> LineReply:
    requests = [cast("dict[str, Any]", item) for item in batch if isinstance(item, dict)]
    ids = [_usable(item.get("id")) for item in requests if not _is_reply(item)]
    known = [one for one in ids if one is not None]
    reason = "batches are not supported; send one JSON-RPC object per line"
    return LineReply("\n".join(_error(one, INVALID_REQUEST, reason) for one in known or [None]))


def _is_reply(fields: dict[str, Any]) -> bool:
    return "method" not in fields and ("result" in fields or "error" in fields)


def _fault(fields: dict[str, Any]) -> str | None:
    # A reply is never answered: two peers that did so would not stop.
    if _is_reply(fields):
        return None
    if not isinstance(fields.get("method"), str):
        return "`method` is missing or not a string"
    if "result" in fields or "error" in fields:
        return "a message is a request or a reply, not both; drop `result` and `error`"
    if fields.get("jsonrpc") != "2.0":
        return '`jsonrpc` must be "2.0"'
    if not isinstance(fields.get("params"), dict | None):
        return "`params` must be an object"
    if "id" in fields and (_usable(fields["id"]) is None or isinstance(fields["id"], float)):
        return "`id` must be a string or an integer; leave it out of a notification"
    return None


def _usable(value: object) -> RequestId | None:
    match value:
        case bool():
            return None
        case float():
            return value if math.isfinite(value) else None
        case str() | int():
            return value
        case _:
            return None


def _error(id: RequestId | None, code: int, message: str) -> str:
    error = {"code": code, "message": message}
    return json.dumps({"jsonrpc": "2.0", "id": id, "error": error})


def _id_in(text: str, tail: str) -> RequestId | None:
    found = _id_near_start(text[:EDGE])
    # Only where the middle was not read may the end speak for the whole.
    if found is None and (len(text) > EDGE or not text.endswith(tail)):
        at_end = _ID_AT_END.search(tail)
        found = at_end["id"] if at_end else None
    try:
        return None if found is None else _usable(json.loads(found))
    except ValueError:
        return None


def _id_near_start(head: str) -> str | None:
    depth, found = 0, None
    for token in _TOKEN.finditer(head):
        depth += bool(token["open"]) - bool(token["close"])
        if depth <= 1 and token["reply"]:
            return None
        if depth <= 1 and found is None:
            found = token["id"]
    return found


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
        self._heard = time.monotonic()  # when the host has said something last
        self._is_early = False  # the SDK is being loaded, which nobody has asked for
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

    def wait_for_work(self, seconds: float | None = None) -> bool:
        """Wait until the host asks what only the SDK can answer, or nothing for that long; False
        where it left before."""
        if seconds is None:
            self._awake.wait()
            return self._has_work
        most = time.monotonic() + _MOST_QUIET
        while (left := min(self._heard + seconds, most) - time.monotonic()) > 0:
            if self._awake.wait(left):
                return self._has_work
        self._is_early = True
        return True

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
        self._leave_early()
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
        self._leave_early()
        self._lines.put("")
        self._awake.set()
        if self._served or not self._has_work:
            self._ring()

    def _leave_early(self) -> None:
        """End the process where its host leaves before anything has needed the SDK: it would wait
        until that is loaded."""
        if self._is_early and not self._served and not self._has_work:
            os._exit(0)

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
        self._heard = time.monotonic()
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

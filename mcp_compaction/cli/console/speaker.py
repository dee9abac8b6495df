"""Whom a command speaks for: the user at a terminal, who can be asked, else the agent that may have
run it; and what it is given to read: a file or stdin, as UTF-8."""

from __future__ import annotations

import os
import signal
import stat
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TextIO

from mcp_compaction.cli.console.invocation import Invocation
from mcp_compaction.errors import InputError, NeedsUser
from mcp_compaction.model import Author

# An agent with a shell sets variables and writes files as the user does: neither can vouch for one.
WHO = """\
Speaks for the user only at a terminal. Without one it speaks for the agent, who may pin for one
session and release its own pins; no setting or variable changes that."""


def speaker_of(call: Invocation) -> Author:
    """The author of a command: the user at a terminal, else an agent."""
    return "user" if call.stdin.isatty() else "agent"


@contextmanager
def refuse_for_agents(what: str) -> Generator[None]:
    """Refuse, in words for a person, an act inside the block that only the user may do."""
    try:
        yield
    except NeedsUser:
        raise refusal_of(what) from None


def refusal_of(what: str) -> NeedsUser:
    """The refusal of an act that no agent may do."""
    return NeedsUser(f"{what}; only the user can do this: run it in a terminal.")


def is_confirmed(call: Invocation, what: str, question: str) -> bool:
    """Whether the user wants what is not undone, by --yes or by the answer to a question; nobody
    else may."""
    if speaker_of(call) != "user":
        raise refusal_of(what)
    if not call.args.yes and not call.screen.is_terminal:
        raise InputError(f"{what}; pass --yes to do it.")
    return call.args.yes or says_yes(call, question)


def says_yes(call: Invocation, question: str) -> bool:
    """Whether the person types yes."""
    call.screen.say(question)
    call.screen.flush()
    return read_answer(call.stdin).lower() == "yes"


MAX_BYTES = 256 * 2**20
_AT_ONCE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_GZIP = b"\x1f\x8b"  # what such a file begins with


def read_text(source: str, stdin: TextIO, limit: int = MAX_BYTES) -> str:
    """The text of a file, or of stdin for `-`; what is no UTF-8 is refused by its place."""
    data = _read(source, stdin, limit)
    name = "stdin" if source == "-" else source
    if len(data) > limit:
        raise InputError(f"{name} has more than {limit:,} bytes; split it and pass the parts.")
    if data.startswith(_GZIP):
        raise InputError(f"{name} is compressed; unpack it first, as with: gunzip")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{name} is not UTF-8: byte {data[error.start]:#04x} at offset {error.start:,}; "
            "convert it first, as with: iconv -t UTF-8"
        ) from None


def read_answer(stdin: TextIO) -> str:
    """The line a person types."""
    with _interruptible():
        return stdin.readline().strip()


@contextmanager
def _interruptible() -> Generator[None]:
    """Have Ctrl-C end a blocking read at once: asyncio would only note it and go on waiting."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _read(source: str, stdin: TextIO, limit: int) -> bytes:
    if source == "-":
        if stdin.isatty():
            raise InputError("there is nothing on stdin; pass a file, or pipe into it.")
        with _interruptible():
            return stdin.buffer.read(limit + 1)
    try:
        # A pipe would have to be waited for, without an end.
        descriptor = os.open(source, os.O_RDONLY | _AT_ONCE)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise InputError(
                    f"{source!r} is no regular file; pass what it holds on stdin, with - in its "
                    "place."
                )
            return file.read(limit + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(
            f"cannot read {source!r}: {reason}; pass a file, or - for stdin."
        ) from None

"""The input of a command that a host runs as a hook: a JSON object on stdin."""

from __future__ import annotations

import json
import os
from io import UnsupportedOperation
from threading import Thread
from typing import NamedTuple, TextIO, cast

_MOST_BYTES = 2**20
_PATIENCE_SECONDS = 5.0  # a host writes at once; a script may leave its stdin open and silent


class HookInput(NamedTuple):
    """The chat a hook was run for, with its folder and the reason."""

    session: str
    event: str
    folder: str
    source: str  # of a SessionStart: startup, resume, clear or compact


def read_hook_input(stdin: TextIO) -> HookInput | None:
    """The input a host wrote; None where no host runs this."""
    if stdin.isatty():
        return None
    try:
        # A folder's name may hold bytes that are no text, and a host may write them as they are.
        given: object = json.loads(_read(stdin).decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(given, dict):
        return None
    fields = cast("dict[str, object]", given)
    session, event = fields.get("session_id"), fields.get("hook_event_name")
    if not (isinstance(session, str) and session and isinstance(event, str)):
        return None
    folder, source = fields.get("cwd"), fields.get("source")
    return HookInput(
        session,
        event,
        folder if isinstance(folder, str) else "",
        source if isinstance(source, str) else "",
    )


def _read(stdin: TextIO) -> bytes:
    """The whole of stdin, or as much as came in time."""
    try:
        end = stdin.fileno()
    except (OSError, UnsupportedOperation, ValueError):
        return stdin.buffer.read(_MOST_BYTES)
    chunks: list[bytes] = []

    def fill() -> None:
        # Not by the stream: its lock, held by a waiting thread, would stop the interpreter's exit.
        while sum(map(len, chunks)) < _MOST_BYTES and (chunk := os.read(end, 2**16)):
            chunks.append(chunk)

    reader = Thread(target=fill, daemon=True)
    reader.start()
    reader.join(_PATIENCE_SECONDS)
    return b"".join(chunks)

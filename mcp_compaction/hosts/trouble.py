"""Notes that a hook could not do its work, for `doctor` to count; kept beside the store, not in it.

Standard library only. The store may be what fails, so the notes are lines of a file in the user's
state folder. What was not recorded is recorded at the next event, from the transcript.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

_MOST_BYTES = 2**18  # then the older half goes
_MOST_CHARS = 300


class Trouble(NamedTuple):
    """One event that was not handled as it should have been."""

    at: float  # seconds since 1970
    host: str
    event: str
    what: str


def user_folder(environ: Mapping[str, str]) -> Path:
    """The user's own folder."""
    return Path(environ["HOME"]) if environ.get("HOME") else Path.home()


def state_folder(environ: Mapping[str, str]) -> Path:
    """The folder for what is noted about hooks, beside any store."""
    state = environ.get("XDG_STATE_HOME", "")
    user = user_folder(environ)
    # The XDG specification asks for relative paths to be ignored.
    base = Path(state) if state.startswith("/") else user / ".local" / "state"
    return base / "mcp-compaction"


def trouble_path(environ: Mapping[str, str]) -> Path:
    """The file of the notes."""
    return state_folder(environ) / "trouble.jsonl"


def note_trouble(environ: Mapping[str, str], host: str, event: str, what: str) -> None:
    """Note what happened to an event of a host; never fails."""
    told = {"at": round(time.time(), 3), "host": host, "event": event}
    line = json.dumps({**told, "what": what[:_MOST_CHARS]}).encode() + b"\n"
    try:
        path = trouble_path(environ)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > _MOST_BYTES:
            _drop_older_half(path)
        number = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(number, line)  # at once, so that lines of several processes do not mix
        finally:
            os.close(number)
    except OSError:
        pass  # a hook never stops its host


def _drop_older_half(path: Path) -> None:
    kept = path.read_bytes()[-_MOST_BYTES // 2 :].partition(b"\n")[2]
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_bytes(kept)
    fresh.chmod(0o600)
    fresh.replace(path)


def read_trouble(environ: Mapping[str, str]) -> list[Trouble]:
    """The notes, the oldest first; what cannot be read is left out."""
    try:
        lines = trouble_path(environ).read_bytes().split(b"\n")
    except OSError:
        return []
    found: list[Trouble] = []
    for line in lines:
        try:
            found.append(Trouble(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return found

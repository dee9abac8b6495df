"""Notes of hooks, kept beside the store: when a host last ran one, and that one could not do its
work.

By them `doctor` knows whether a host runs our hooks at all, and what failed. Standard library only.
The store may be what fails, so the notes are small files in the user's state folder; a note that
cannot be written is left out, since a hook never stops its host. What was not recorded is recorded
at the next event, from the transcript.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from mcp_compaction.home import HOOK_RUN, TROUBLE, mask, state_folder

MODULE, WITHOUT = "{}-mod", "{}-without-mod"
"""The names by which a run of our module inside a host is noted, and a turn it told nothing of."""
HOOK_SECONDS: Final = "MCP_COMPACTION_HOOK_SECONDS"
_EVERY = 3600.0  # seconds after which one process notes it again

_MOST_CHARS = 300


class Run(NamedTuple):
    """The newest run of a hook that is known."""

    at: float  # seconds since 1970
    event: str


class RunNotes:
    """Notes the runs that one process hears of."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._noted: dict[str, float] = {}

    def note(self, host: str, event: str) -> None:
        """Note that a hook of a host ran, once an hour."""
        now = time.monotonic()
        if now - self._noted.get(host, -_EVERY) < _EVERY:
            return
        self._noted[host] = now
        with suppress(OSError, UnicodeError):
            HOOK_RUN.write(state_folder(self._environ), " ".join(event.split())[:80], host)


def seconds_allowed(environ: Mapping[str, str]) -> float | None:
    """The seconds that a user lets a hook hold the host, as on a slow machine; None: as usual."""
    try:
        return max(0.0, float(environ.get(HOOK_SECONDS, "")))
    except ValueError:
        return None


def read_run(environ: Mapping[str, str], host: str) -> Run | None:
    """The newest run of a hook of a host since it was installed."""
    path = HOOK_RUN.path(state_folder(environ), host)
    try:
        return Run(path.stat().st_mtime, path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None


def forget_run(environ: Mapping[str, str], host: str) -> None:
    """Count no run from before: hooks were written or taken out."""
    with suppress(OSError):
        HOOK_RUN.path(state_folder(environ), host).unlink(missing_ok=True)


class Trouble(NamedTuple):
    """One event that was not handled as it should have been."""

    at: float  # seconds since 1970
    host: str
    event: str
    what: str


def note_trouble(
    environ: Mapping[str, str], host: str, event: str, what: str, *, is_ours: bool = False
) -> None:
    """Note what happened to an event of a host; never fails. `is_ours`: no word is another's."""
    text = what if is_ours else mask(what)  # which takes long to load
    note = Trouble(round(time.time(), 3), host, event, text[:_MOST_CHARS])
    with suppress(OSError):  # a hook never stops its host
        TROUBLE.add(state_folder(environ), note._asdict())


def read_trouble(environ: Mapping[str, str]) -> list[Trouble]:
    """The notes, the oldest first; what cannot be read is left out."""
    return list(TROUBLE.read(state_folder(environ), Trouble))

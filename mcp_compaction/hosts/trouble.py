"""Notes that a hook could not do its work, for `doctor` to count; kept beside the store, not in it.

Standard library only. The store may be what fails, so the notes are lines of a file in the user's
state folder. What was not recorded is recorded at the next event, from the transcript.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from mcp_compaction.home import TROUBLE, mask, state_folder

_MOST_CHARS = 300


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

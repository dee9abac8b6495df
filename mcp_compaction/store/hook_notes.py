"""Keeps notes on hooks in a small file beside the store: when they ran, and what went wrong.

Standard library only, since a hook writes them; what a store that is locked or damaged did to a
hook is noted all the same. A note that cannot be written is left out: a hook never stops its host.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple

from mcp_compaction.errors import StoreBusy, StoreDamaged, StoreFull, StoreReadOnly

What = Literal["installed", "ran", "trouble"]

_NAME: Final = "hooks.log"
_MOST_BYTES: Final = 2**16
_KEPT_LINES: Final = 300
_EVERY: Final = 3600.0  # seconds after which one process notes again that hooks run
_FORM: Final = "%Y-%m-%dT%H:%M:%SZ"
_TROUBLES: Final = (
    (StoreBusy, "the store was locked"),
    (StoreDamaged, "the store is damaged"),
    (StoreFull, "the disk is full"),
    (StoreReadOnly, "the store cannot be written"),
)


class Note(NamedTuple):
    """One line of the file."""

    at: str
    host: str
    what: str
    detail: str


@dataclass(frozen=True, slots=True)
class HookRecord:
    """What the notes tell of the hooks of one host."""

    last_run: Note | None  # since it was last installed
    troubles: Counter[str]


@dataclass(slots=True)
class HookNotes:
    """Writes notes for one process."""

    home: Path
    _noted: dict[str, float] = field(default_factory=dict[str, float])

    def note_run(self, host: str, event: str) -> None:
        """Note that a hook of a host ran, once an hour."""
        now = time.monotonic()
        if now - self._noted.get(host, -_EVERY) >= _EVERY:
            self._noted[host] = now
            self._append(host, "ran", event)

    def note_trouble(self, host: str, detail: str) -> None:
        """Note what a hook could not do."""
        self._append(host, "trouble", detail)

    def note_install(self, host: str) -> None:
        """Note that hooks were written to a host's files: what ran before no longer counts."""
        self._append(host, "installed", "")

    def _append(self, host: str, what: What, detail: str) -> None:
        at = time.strftime(_FORM, time.gmtime())
        line = f"{at} {host} {what} {' '.join(detail.split())}\n"
        path = self.home / _NAME
        with suppress(OSError):
            self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
            # One write at the end of the file: lines of several processes do not mix.
            end = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                os.write(end, line.encode("utf-8", "replace"))
                is_long = os.fstat(end).st_size > _MOST_BYTES
            finally:
                os.close(end)
            if is_long:
                _shorten(path)


def describe_trouble(error: Exception) -> str:
    """What went wrong, in words that count alike where the cause is alike."""
    known = (words for kind, words in _TROUBLES if isinstance(error, kind))
    return next(known, f"failed with {type(error).__name__}")


def read_record(home: Path, host: str) -> HookRecord:
    """What is known of the hooks of a host."""
    last_run: Note | None = None
    troubles: Counter[str] = Counter()
    for note in _read_notes(home / _NAME):
        if note.host != host:
            continue
        match note.what:
            case "installed":
                last_run = None
                troubles.clear()
            case "ran":
                last_run = note
            case _:
                troubles[note.detail] += 1
    return HookRecord(last_run, troubles)


def _read_notes(path: Path) -> list[Note]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    parts = (line.split(" ", 3) for line in lines)
    return [Note(*part) for part in parts if len(part) == len(Note._fields)]


def _shorten(path: Path) -> None:
    """Keep the newest lines, and those that say when each host's hooks ran last."""
    notes = _read_notes(path)
    older, newer = notes[:-_KEPT_LINES], notes[-_KEPT_LINES:]
    marks = {(note.host, note.what): note for note in older if note.what != "trouble"}
    beside = path.with_suffix(".new")
    beside.write_text(_write(sorted(marks.values())) + _write(newer), encoding="utf-8")
    beside.chmod(0o600)
    beside.replace(path)


def _write(notes: Iterable[Note]) -> str:
    return "".join(" ".join(note) + "\n" for note in notes)

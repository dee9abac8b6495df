"""Reads and writes the files of a host: whole or not at all, with a copy of what was there."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from difflib import unified_diff
from hashlib import sha256
from pathlib import Path

from mcp_compaction.errors import InputError
from mcp_compaction.home import make_folder, write_whole

_FOLDER = "installed"


@dataclass(frozen=True, slots=True)
class Change:
    """A file as it is and as it is to be; None: it is not there."""

    path: Path
    before: str | None
    after: str | None
    is_copy: bool = False  # a file of ours that is put in a folder of ours

    @property
    def is_one(self) -> bool:
        """Whether anything changes."""
        return self.before != self.after

    def diff(self) -> str:
        """The change as `diff -u` shows it; of a copy only that it comes or goes."""
        if self.is_copy:
            return f"{'+++' if self.after is not None else '---'} {self.path} (of the plugin)\n"
        lines = unified_diff(
            (self.before or "").splitlines(keepends=True),
            (self.after or "").splitlines(keepends=True),
            str(self.path),
            str(self.path),
        )
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def read_file(path: Path) -> str | None:
    """The text of a file, with its line ends as they are; None where there is none."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def backup_path(home: Path, host: str, path: Path) -> Path:
    """The place of the copy of a host's file as it was before."""
    return home / _FOLDER / host / f"{short_name(path)}-{path.name}"


def plugin_folder(home: Path, host: str, project: Path | None) -> Path:
    """The folder for the copy of a plugin, for one project or for all."""
    owner = "all" if project is None else short_name(project)
    return home.absolute() / _FOLDER / host / owner


def short_name(path: Path) -> str:
    """A few characters that stand for a path."""
    return sha256(os.fsencode(path)).hexdigest()[:12]


def back_up(home: Path, host: str, change: Change) -> None:
    """Keep what is in a file now; the copy is the user's alone, since it may hold keys."""
    copy = backup_path(home, host, change.path)
    if change.before is None:
        copy.unlink(missing_ok=True)
        return
    make_folder(copy.parent)
    write_whole(copy, change.before)


def write_changes(changes: Iterable[Change]) -> None:
    """Write all files or none; one that was changed meanwhile is not written."""
    done: list[Change] = []
    try:
        for change in changes:
            if read_file(change.path) != change.before:
                raise InputError(
                    f"{change.path} was changed meanwhile; nothing was done: run again"
                )
            if change.is_copy:
                make_folder(change.path.parent)
            _put(change.path, change.after)
            done.append(change)
    except (InputError, OSError) as error:
        for change in done:
            with suppress(OSError):
                _put(change.path, change.before)
        if isinstance(error, InputError):
            raise
        raise InputError(f"{error.filename} cannot be written: {error.strerror}") from None


def _put(path: Path, text: str | None) -> None:
    if text is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600
    write_whole(Path(os.path.realpath(path)), text, mode)  # a link to it stays one

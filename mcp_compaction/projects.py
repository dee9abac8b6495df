"""Finds the project that is meant: a folder by its path, else the repository one works in."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from mcp_compaction.core.text.paths import path_of, readable_path
from mcp_compaction.errors import InputError
from mcp_compaction.git_folders import git_top_of, home_of

_NEXT = "in Python pass project=PATH, else pass --project PATH."


def find_project(asked: str | None, folder: str | None = None) -> str:
    """The project as it was named, else the git top of a folder, or of the working directory; a
    worktree's is its repository."""
    return _readable(home_of(_find_place(asked, folder)))


def find_folder(asked: str | None) -> str:
    """The folder of the project that one works in, which may be a worktree."""
    return _readable(_find_place(asked, None))


def _find_place(asked: str | None, folder: str | None) -> str:
    if asked:
        with _refusing(asked):
            named = Path(asked).expanduser()
            if os.name != "nt" and not named.exists():
                # As it was shown: its name may stand for bytes that are no text.
                named = Path(path_of(str(named)))
            return os.path.realpath(named)
    try:
        here = folder or str(Path.cwd())
    except FileNotFoundError:
        raise InputError(f"the working directory is gone; {_NEXT}") from None
    with _refusing(here):
        Path(here).exists()  # raises where no folder can be called so
        return os.path.realpath(git_top_of(here) or here)


@contextmanager
def _refusing(folder: str) -> Generator[None]:
    """Refuse what no folder can be called: too long, with a NUL, below a user who is none."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"no folder is called {folder[:80]!r}: {reason}; {_NEXT}") from None


def _readable(folder: str) -> str:
    # Windows has no such names, and there a backslash parts folders.
    return folder if os.name == "nt" else readable_path(folder)

"""Finds the project that is meant: a folder by its path, else the repository one works in."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from mcp_compaction.core.text.paths import path_of, readable_path
from mcp_compaction.errors import InputError

_NEXT = "in Python pass project=PATH, else pass --project PATH."


def find_project(asked: str | None) -> str:
    """The project as it was named, else the git top of the working directory."""
    if asked:
        with _refusing(asked):
            folder = Path(asked).expanduser()
            if os.name != "nt" and not folder.exists():
                # As it was shown: its name may stand for bytes that are no text.
                folder = Path(path_of(str(folder)))
            return _readable_folder(os.path.realpath(folder))
    try:
        return _readable_folder(git_top_of(str(Path.cwd())))
    except FileNotFoundError:
        raise InputError(f"the working directory is gone; {_NEXT}") from None


def git_top_of(folder: str) -> str:
    """The real path of the repository a folder lies in, else of the folder."""
    here = Path(folder)
    with _refusing(folder):
        top = next((near for near in (here, *here.parents) if (near / ".git").exists()), here)
        return os.path.realpath(top)


@contextmanager
def _refusing(folder: str) -> Generator[None]:
    """Refuse what no folder can be called: too long, with a NUL, below a user who is none."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"no folder is called {folder[:80]!r}: {reason}; {_NEXT}") from None


def _readable_folder(folder: str) -> str:
    # Windows has no such names, and there a backslash parts folders.
    return folder if os.name == "nt" else readable_path(folder)

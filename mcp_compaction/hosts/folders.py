"""Where hosts keep their transcripts, and which files are therefore a host's own word."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePath

from mcp_compaction.model import Value


class HostFolder(Value):
    """The place of one host's transcripts; see the head of `folders.toml`."""

    name: str
    title: str
    variable: str
    base: str
    files: tuple[str, ...]
    example: str
    near_miss: str

    def base_in(self, environ: Mapping[str, str]) -> Path:
        """The real path of the host's base folder."""
        moved = environ.get(self.variable, "")
        home = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
        return Path(os.path.realpath(moved if Path(moved).is_absolute() else home / self.base))

    def has_transcript(self, below: PurePath) -> bool:
        """Whether a path below the base folder is one of a transcript."""
        return any(_fits(below.parts, PurePath(pattern).parts) for pattern in self.files)

    def find_transcripts(self, environ: Mapping[str, str]) -> Iterator[Path]:
        """The transcripts there are, by the real paths of their files."""
        base = self.base_in(environ)
        for pattern in self.files:
            for path in sorted(base.glob(pattern)):
                if is_own_file(path) and self.has_transcript(path.relative_to(base)):
                    yield path


def _fits(names: tuple[str, ...], patterns: tuple[str, ...]) -> bool:
    return len(names) == len(patterns) and all(map(fnmatchcase, names, patterns))


def is_own_file(path: Path) -> bool:
    """Whether a path is the real one of a regular file of the user who runs this."""
    try:
        found = path.lstat()
    except (OSError, ValueError):
        return False
    is_users = not hasattr(os, "getuid") or found.st_uid == os.getuid()
    return stat.S_ISREG(found.st_mode) and is_users and Path(os.path.realpath(path)) == path


def host_of_file(path: Path, environ: Mapping[str, str]) -> HostFolder | None:
    """The host whose own transcript a file is; None where it only looks like one."""
    if not is_own_file(path):
        return None
    for host in known_hosts():
        base = host.base_in(environ)
        if path.is_relative_to(base) and host.has_transcript(path.relative_to(base)):
            return host
    return None


@cache
def known_hosts() -> tuple[HostFolder, ...]:
    """The hosts whose transcripts are read."""
    import tomllib
    from importlib.resources import files

    text = files("mcp_compaction.hosts").joinpath("folders.toml").read_text(encoding="utf-8")
    return tuple(HostFolder.model_validate(entry) for entry in tomllib.loads(text)["host"])

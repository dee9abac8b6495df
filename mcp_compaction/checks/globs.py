"""Globs on paths and on words."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache
from os.path import commonpath, realpath, relpath
from pathlib import Path
from posixpath import isabs, join, normpath

from mcp_compaction.git_folders import home_of

_GLOB_SIGN = re.compile(r"\*\*/?|\*|\?|\[[^\]]*\]|.", re.S)


@lru_cache(maxsize=512)
def _pattern_of(glob: str) -> re.Pattern[str]:
    """The pattern of a path and all that is below it; `*` stays within a folder, `**` does not."""
    plain = glob.rstrip("/").removesuffix("/**").removesuffix("/*") or glob
    parts: list[str] = []
    for sign in _GLOB_SIGN.findall(plain.removeprefix("./")):
        match sign:
            case "**/":
                parts.append("(?:.*/)?")
            case "**":
                parts.append(".*")
            case "*":
                parts.append("[^/]*")
            case "?":
                parts.append("[^/]")
            case _ if len(sign) > 1:
                parts.append(sign)
            case _:
                parts.append(re.escape(sign))
    start = "" if "/" in plain else "(?:.*/)?"
    return re.compile(f"{start}{''.join(parts)}(?:/.*)?", re.S)


def is_path_in(glob: str, path: str, folder: str, root: str = "") -> bool:
    """Whether a path, seen from a folder, is one that a glob means; one with a folder in it
    begins at the root, and a name alone means such a file anywhere."""
    glob, path = at_home(glob), at_home(path)
    root = _places_of(root or folder or "/")[-1]
    if glob.startswith("../"):
        glob = normpath(join(root, glob))
    said = normpath(join(folder or root, path))
    pattern, is_name = _pattern_of(glob), "/" not in glob.rstrip("/")
    for found in _places_of(said):
        if isabs(glob):
            seen = found
        elif is_below(found, root):
            seen = relpath(found, root)
        elif is_name:
            seen = found.rpartition("/")[2]
        else:
            continue
        if pattern.fullmatch(seen):
            return True
    return False


@lru_cache(maxsize=512)
def _places_of(path: str) -> tuple[str, ...]:
    """A path as it is said, as the system has it, and as the repository calls it whose worktree
    it lies in."""
    real = realpath(path)
    return tuple(dict.fromkeys((path, real, home_of(real))))


def look_anew() -> None:
    """Look at the folders again: another call may find a link, or a worktree, in its way."""
    _places_of.cache_clear()


def at_home(path: str) -> str:
    """A path with the user's folder in place of `~`."""
    return str(Path(path).expanduser()) if path.startswith("~/") else path


def is_below(path: str, root: str) -> bool:
    """Whether a path is a folder or below it."""
    try:
        return commonpath((path, root)) == root
    except ValueError:
        return False


def is_text_like(glob: str, text: str) -> bool:
    """Whether a text is one that a glob means; `*` stands for anything."""
    return fnmatchcase(text, glob)


def own_words(glob: str) -> list[str]:
    """What a glob says besides its signs: the words without which nothing can match it."""
    words = re.split(r"[\s*?\[\]]+", glob)
    return [word.strip("/") for word in words if len(word.strip("-/.")) > 1]

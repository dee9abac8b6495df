"""A check: which calls of tools a pin remarks on, asks about or stops, as one line of text; and the
globs on paths and words that stand in it.

deny Bash: git push --force
ask Write|Edit: migrations/** unless migrations/drafts/**
must tests before Bash: git commit
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from os.path import commonpath, realpath, relpath
from pathlib import Path
from posixpath import isabs, join, normpath
from typing import Final, NamedTuple

from mcp_compaction.git_folders import home_of

_GLOB_SIGN = re.compile(r"\*\*/?|\*|\?|\[[^\]]*\]|.", re.S)

VERDICTS: Final = ("remind", "ask", "deny")
"""What a check says of a call, the gentlest first; none allows what a host would not."""

RUNS: Final = ("tests", "lint", "types", "build")
"""What may be said for all commands of a kind."""

_TOOL = r"(?:mcp:[\w.*-]+|[A-Za-z*][\w.*-]*)"
_LINE = re.compile(
    rf"(?P<verdict>{'|'.join(VERDICTS)})\s+(?P<tools>{_TOOL}(?:\|{_TOOL})*)\s*:\s*(?P<glob>\S.*)",
    re.S,
)
_MUST = re.compile(
    r"(?:(?P<verdict>ask|deny)\s+)?must\s+(?P<run>\"[^\"]+\"|[a-z]+)\s+before\s+"
    rf"(?P<tools>{_TOOL}(?:\|{_TOOL})*)\s*:\s*(?P<glob>\S.*)",
    re.S,
)
_MOST_CHARS = 500


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


class NoCheckError(ValueError):
    """A line that is no check; the text says how one is written."""


class PinCheck(NamedTuple):
    """One check; with `run` it holds only where such a command was not run, and green, since the
    last change of a file."""

    verdict: str
    tools: tuple[str, ...]
    glob: str
    unless: str = ""
    run: str = ""

    @property
    def excepted(self) -> list[str]:
        """The globs of what it lets pass."""
        return [glob.strip() for glob in self.unless.split("|") if glob.strip()]

    def __str__(self) -> str:
        """The line that it is written as."""
        what = f"{'|'.join(self.tools)}: {self.glob}"
        what += f" unless {self.unless}" if self.unless else ""
        if not self.run:
            return f"{self.verdict} {what}"
        run = self.run if self.run in RUNS else f'"{self.run}"'
        return f"{'deny ' if self.verdict == 'deny' else ''}must {run} before {what}"


def parse_check(line: str) -> PinCheck:
    """The check that a line says."""
    said = line.strip()
    is_line = len(said) <= _MOST_CHARS and "\n" not in said  # or no pattern looks at it
    found = (_LINE.fullmatch(said) or _MUST.fullmatch(said)) if is_line else None
    if found is None:
        raise NoCheckError(
            f"{said[:80]!r} is no check; write: deny Bash: git push --force, or: ask Write|Edit: "
            'migrations/** unless migrations/drafts/**, or: must "pytest" before Bash: git commit'
        )
    glob, _, unless = found["glob"].partition(" unless ")
    run = found.groupdict().get("run") or ""
    is_quoted = run.startswith('"')
    if not is_quoted and run and run not in RUNS:
        raise NoCheckError(f"{run}: quote the command, or say tests, lint, types or build.")
    return PinCheck(
        found["verdict"] or "ask",
        tuple(found["tools"].split("|")),
        glob.strip(),
        unless.strip(),
        run.strip('"').strip(),
    )


def read_checks(lines: Iterable[str]) -> tuple[tuple[PinCheck, ...], tuple[str, ...]]:
    """The checks of lines that were kept, and those lines that are none: they lift no other."""
    checks: list[PinCheck] = []
    unread: list[str] = []
    for line in lines:
        try:
            checks.append(parse_check(line))
        except (NoCheckError, AttributeError):
            unread.append(str(line))
    return tuple(checks), tuple(unread)


def parse_checks(text: str) -> tuple[PinCheck, ...]:
    """The checks of a text, one a line."""
    return tuple(parse_check(line) for line in text.splitlines() if line.strip())

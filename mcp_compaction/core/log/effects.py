"""Reads from command lines what they do to files; the commands are data, in `tools.toml`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from posixpath import join, normpath
from typing import Literal, NamedTuple, cast

from mcp_compaction.core.limits import LONGEST_TEXT
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.lexicon import read_table
from mcp_compaction.lexicon.tools import Deed, known_tools
from mcp_compaction.shell import (
    UNKNOWN,
    Command,
    FileChange,
    changes_in,
    commands_of,
    programs,
    subcommand_of,
)

_UNREAD = pattern_of(r"\$(?:\{[^}]*\}|\w*)|`[^`]*`?")
_GLOB = pattern_of(r"[*?\[]|\{[^{},]*,")
_NAMED = pattern_of(r"(?<![\w./@+-])[\w./@+-]+\.\w{1,12}\b|/[\w./@+-]+")
_LOOKS_LIKE_FILE = pattern_of(r"(?:.*/)?[\w@+-][\w.@+-]*\.\w{1,12}$|\.$")


class Effect(NamedTuple):
    """What one command does to one file; a path may be a glob, or blank for all files."""

    does: Deed | Literal["unknown"]
    path: str
    by: str  # the command that does it
    to: str = ""  # where a file is moved
    is_first: bool = True  # no other command has to succeed before it
    is_only: bool = True  # the call runs nothing else

    @property
    def is_glob(self) -> bool:
        """Whether it means whatever files are there, or those that only the run knew."""
        return bool(_GLOB.search(self.path) or _UNREAD.search(self.path))

    @property
    def glob(self) -> str:
        """A glob for the files that it may mean; blank where nothing is known of them."""
        found = _UNREAD.sub("*", self.path).lstrip("./")
        return found if found.strip("*/") else ""


@lru_cache(maxsize=2_048)
def effects_of(line: str) -> tuple[Effect, ...]:
    """What a command line does to files, in order; of the files that a line names which cannot be
    read nothing is known."""
    commands = commands_of(line)
    if commands is None:
        paths = _paths_in(line[:LONGEST_TEXT])
        return tuple(
            Effect("unknown", p, "a line that cannot be read", is_only=False) for p in paths
        )
    acting = [one for one in commands if one.words or one.written]  # the others only read
    return tuple(
        meant._replace(is_first=not place, is_only=len(acting) == 1)
        for place, command in enumerate(acting)
        for effect in _effects_of_command(command)
        for meant in _meant_by(effect, line)
    )


def _meant_by(effect: Effect, line: str) -> Iterable[Effect]:
    """An effect on what only a variable names: whatever it is, the line may name it elsewhere."""
    if not effect.is_glob or effect.glob:
        return (effect,)
    return (Effect("unknown", path, effect.by) for path in _paths_in(line[:LONGEST_TEXT]))


def _effects_of_command(command: Command) -> Iterator[Effect]:
    for path in command.written:
        yield Effect("write", _placed(path, command), f"> {path}")
    name, rest = command.name, command.words[1:]
    if name == "git" and (found := subcommand_of(name, rest)):
        name, rest = f"git {found[0]}", found[1:]
    known = _commands().get(name)
    if known is not None and known.is_done(rest):
        yield from _effects_of_known(known, rest, command)
    elif name.rstrip("0123456789.") in programs().interpreters:
        code = "\n".join((*rest, command.given))[:LONGEST_TEXT]
        if _changes_files().search(code):
            yield from (Effect("unknown", path, name) for path in _paths_in(code))


@cache
def _changes_files() -> re.Pattern[str]:
    return re.compile(known_tools().changes_files)


def _paths_in(code: str) -> Iterable[str]:
    return dict.fromkeys(_NAMED.findall(code))


@cache
def _commands() -> dict[str, FileChange]:
    known = changes_in(read_table("tools.toml")["command"])
    return {name: one for name, (one, *_) in known.items()}


def _effects_of_known(known: FileChange, rest: Sequence[str], command: Command) -> Iterator[Effect]:
    by, files = known.name, _operands(known, rest)
    placed = [_placed(path, command) for path in files]
    is_of_all = UNKNOWN in files or (known.takes == "paths" and "." in files)
    if known.does == "forget" or is_of_all:
        yield Effect("unknown", "", by)
    elif known.does == "move" and len(files) > 1:
        *old, last = placed
        for path in old:
            # More than one goes into a folder.
            to = last if len(old) == 1 else join(last, path.rpartition("/")[2])
            yield Effect("move", path, by, to=to)
    elif known.does != "move":
        for path, where in zip(files, placed, strict=True):
            is_folder = known.does == "write" and path.endswith("/")
            inside = _copies_in(where, path, rest) if is_folder else []
            yield from (Effect(cast("Deed", known.does), one, by) for one in inside or [where])


def _copies_in(where: str, folder: str, rest: Sequence[str]) -> list[str]:
    """What is copied into a folder, as it is named there."""
    copied = (one for one in rest if not one.startswith("-") and one != folder)
    return [join(where, one.rstrip("/").rpartition("/")[2]) for one in copied]


def _operands(known: FileChange, rest: Sequence[str]) -> list[str]:
    if known.takes == "paths" and "--" in rest:
        return list(rest[rest.index("--") + 1 :])
    files = known.files_in(rest)
    return (
        [one for one in files if _LOOKS_LIKE_FILE.match(one)] if known.takes == "paths" else files
    )


def _placed(path: str, command: Command) -> str:
    """A path as it is seen from where the shell began."""
    if not command.folder or path.startswith(("/", "~", "$")):
        return path
    return normpath(join(command.folder, path))

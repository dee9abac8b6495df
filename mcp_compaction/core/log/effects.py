"""Reads from command lines what they do to files; the commands are data, in `tools.toml`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from posixpath import join, normpath
from typing import Literal, NamedTuple

from mcp_compaction.core.limits import LONGEST_TEXT
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.lexicon.tools import (
    Deed,
    ShellCommand,
    code_that_changes_files,
    known_commands,
)
from mcp_compaction.shell import Command, commands_of, programs, subcommand_of

_UNREAD = pattern_of(r"[$`]")
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
        """Whether it means whatever files are there."""
        return bool(_GLOB.search(self.path))


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
    return tuple(
        effect._replace(is_first=not place, is_only=len(commands) == 1)
        for place, command in enumerate(commands)
        for effect in _effects_of_command(command)
    )


def _effects_of_command(command: Command) -> Iterator[Effect]:
    for path in command.written:
        yield Effect("write", _placed(path, command), f"> {path}")
    name, rest = command.name, command.words[1:]
    if name == "git" and (found := subcommand_of(name, rest)):
        name, rest = f"git {found[0]}", found[1:]
    known = _commands().get(name)
    if known is not None and _does_it(known, rest):
        yield from _effects_of_known(known, rest, command)
    elif name.rstrip("0123456789.") in programs().interpreters:
        code = "\n".join((*rest, command.given))[:LONGEST_TEXT]
        if _changes_files().search(code):
            yield from (Effect("unknown", path, name) for path in _paths_in(code))


def _does_it(known: ShellCommand, words: Sequence[str]) -> bool:
    """Whether a command has the option that it needs to change files, and none that spares them."""
    needs, unless = known.needs, known.unless
    return (not needs or any(w.startswith(needs) for w in words)) and (
        not unless or unless not in words
    )


@cache
def _changes_files() -> re.Pattern[str]:
    return re.compile(code_that_changes_files())


def _paths_in(code: str) -> Iterable[str]:
    return dict.fromkeys(_NAMED.findall(code))


@cache
def _commands() -> dict[str, ShellCommand]:
    return {command.name: command for command in known_commands()}


def _effects_of_known(
    known: ShellCommand, rest: Sequence[str], command: Command
) -> Iterator[Effect]:
    by, files = known.name, _operands(known, rest)
    if known.does == "forget" or (known.takes == "paths" and not files):
        yield Effect("unknown", "", by)
    elif known.does == "move" and len(files) == 2 and not any(map(_UNREAD.search, files)):
        old, new = (_placed(path, command) for path in files)
        yield Effect("move", old, by, to=new)
    elif known.does == "move":
        for path in files[:-1]:
            into = join(_placed(files[-1], command), path.rpartition("/")[2])
            yield Effect("move", _placed(path, command), by, to=into)
    else:
        for path in files:
            is_read = not _UNREAD.search(path)
            does, of = (known.does, _placed(path, command)) if is_read else ("unknown", "")
            yield Effect(does, of, by)


def _operands(known: ShellCommand, rest: Sequence[str]) -> list[str]:
    if known.takes == "paths" and "--" in rest:
        return list(rest[rest.index("--") + 1 :])
    files = [word for word in rest if word and not word.startswith("-")]
    if known.takes == "paths":
        return [word for word in files if _LOOKS_LIKE_FILE.match(word)]
    return files[{"last": -1, "rest": 1}.get(known.takes, 0) :]


def _placed(path: str, command: Command) -> str:
    """A path as it is seen from where the shell began."""
    if not command.folder or path.startswith(("/", "~", "$")):
        return path
    return normpath(join(command.folder, path))

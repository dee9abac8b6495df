"""What a line of a shell runs, behind its disguises: what it assigns, aliases, runners, scripts; by
the tables of `lexicon/checks.toml` and `lexicon/tools.toml`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from posixpath import join, normpath
from typing import Any, NamedTuple, cast

from mcp_compaction.git_folders import branch_of, git_top_of, read_plain_file, settings_of
from mcp_compaction.lexicon import read_table
from mcp_compaction.shell import (
    Command,
    FileChange,
    changes_in,
    commands_of,
    programs,
    read_options,
    subcommand_of,
)

_DEEPEST = 3  # a script that runs a script
_LARGEST = 2**20  # characters of all scripts of a line
_MOST_FOLLOWED = 2**16  # of them, those that are read as commands
_ASSIGNS = re.compile(
    r"(?:^|[;&|(\n]|\b(?:export|local|declare|readonly|do|then))[ \t]*"
    r"(?P<name>[A-Za-z_]\w*)=(?P<value>'[^'\n]*'|\"[^\"$`\n]*\"|[^\s;&|()'\"$`]+)(?=[\s;&|)]|$)"
)
_ANSI = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.S)
_BRACES = re.compile(r"(?<![\w$\\'\"])\{([\w./-]*(?:,[\w./-]*)+)\}(?![\w'\"])")
_DEFAULT = re.compile(r"\$\{(\w+):?[-=+]([^{}$]*)\}")  # of a name that the line does not assign
_OPTION = r"^(?:--[\w-]+=|-\w(?=\S+\s))"  # before its word: `--exec=git push`
_HEADS = r"^(?:refs/)?heads/"  # compiled where they are needed: a hook has no time for more
_SCRIPTS = frozenset(("source", "."))
_ECHOES = frozenset(("echo", "printf", "cat"))
_MANAGERS = frozenset(("npm", "pnpm", "yarn", "bun"))
UNREAD = re.compile(r"[$`]")
"""The signs of a word that only the run will know."""
ReadLines = dict[tuple[str, str], tuple[Command, ...]]
"""Lines that were read for one call, with their folders: a script may say another thing later."""


class Tables(NamedTuple):
    """The tables of what calls do; the heads of both files explain each."""

    kinds: dict[str, str]  # of tools, by their names
    changes: dict[str, list[FileChange]]  # of files, by programs
    changes_files: re.Pattern[str]
    starts: re.Pattern[str]
    is_red: re.Pattern[str]
    runs_rest: frozenset[str]
    looks_past: frozenset[str]
    finds: frozenset[str]
    pushes_all: frozenset[str]
    valued: dict[str, list[str]]
    reads: dict[str, list[str]]
    switches: dict[str, list[str]]
    runs: dict[str, list[str]]
    same_options: dict[str, dict[str, str]]


@cache
def tables() -> Tables:
    """Both tables as one."""
    tools, checks = read_table("tools.toml"), read_table("checks.toml")
    kinds = {name: kind["kind"] for kind in tools["tool"] for name in kind["names"]}
    others = {"fetches": "fetch", "lines": "run", "shows": "read", "moves": "edit"}
    for name, kind in others.items():
        kinds |= dict.fromkeys(checks[name], kind)
    return Tables(
        kinds,
        changes_in([*tools["command"], *checks["change"]]),
        re.compile(tools["changes_files"]),
        re.compile(checks["starts"]),
        re.compile(checks["is_red"]),
        frozenset(checks["runs_rest"]),
        frozenset(checks["looks_past"]),
        frozenset(checks["finds"]),
        frozenset(checks["pushes_all"]),
        checks["valued"],
        checks["reads"],
        checks["switches"],
        checks["runs"],
        checks["same_options"],
    )


@lru_cache(maxsize=64)
def kind_of(tool: str) -> str:
    """What a tool does: read, write, edit, run, fetch …; nothing where it is not known."""
    last = tool.rpartition("__")[2]
    return tables().kinds.get(re.sub(r"[\W_]", "", last).lower(), "")


class _Opened(set[tuple[str, ...]]):
    """How much was opened for a line, and what it ran once that was too much."""

    size = 0


def runs_of(line: str, folder: str, read: ReadLines) -> tuple[Command, ...]:
    """The commands that a line runs in a folder; one without words for each text that cannot be
    read. Every check of a call asks: what was read for it is kept in `read`."""
    if (line, folder) not in read:
        read[line, folder] = tuple(_follow_branches(_runs_of(line, folder, 0, _Opened())))
    return read[line, folder]


def _follow_branches(runs: Iterable[Command]) -> Iterator[Command]:
    """The commands of a line, those of git with the branch that it has gone to before them."""
    gone: dict[str, str] = {}  # by the folder of the repository
    before = gone  # the last of them
    for run in runs:
        branch = _branch_gone_to(run) if run.name == "git" else ""
        top = git_top_of(_git_folder(run)) if branch or (gone and run.name == "git") else ""
        at = (before if run.joined == "||" else gone).get(top, "")
        yield run._replace(branch=at) if at else run
        if branch:
            before, gone = gone, {**gone, top: branch}


def _branch_gone_to(run: Command) -> str:
    """The branch that a command of git changes to; blank where it does not, or none can tell."""
    name, *words = subcommand_of("git", run.words[1:]) or ("",)
    makes = tables().switches.get(f"git {name}")
    if makes is None or "--" in words:
        return ""
    plain, made = read_options(words, makes)
    if not made and (len(plain) != 1 or Path(_git_folder(run), plain[0]).exists()):
        return ""  # a file
    branch = made[0][1] if made else plain[0]
    if not {"-t", "--track"}.isdisjoint(words) and not made:
        branch = branch.partition("/")[2]
    return "" if UNREAD.search(branch) else branch


def branch_at(run: Command) -> str:
    """The branch that a command of git works on."""
    return run.branch or branch_of(_git_folder(run))


def goals_of_push(remote: str, specs: Sequence[str], run: Command) -> Iterator[str]:
    """The branches that a push goes to, as its words say or else as git is set to; `*` stands for
    any part of a name."""
    branch, known = branch_at(run), settings_of(_git_folder(run))
    for option, said in pairwise(run.words):
        if option == "-c":
            known.setdefault(said.partition("=")[0], []).append(said.partition("=")[2])
    names = (f"branch.{branch}.pushremote", "remote.pushdefault", f"branch.{branch}.remote")
    remote = remote or next((known[name][-1] for name in names if name in known), "origin")
    ways = [_ends_of(way) for way in known.get(f"remote.{remote}.push", ())]
    default = known.get("push.default", [""])[-1]
    if known.get(f"remote.{remote}.mirror", [""])[-1] == "true":
        yield "*"
    bare = ways or [("", "*") if default == "matching" else (branch, "")]
    for source, goal in [_ends_of(spec) for spec in specs] or bare:
        mapped = [
            there.replace("*", source.removeprefix(here.partition("*")[0]))
            for here, there in (() if goal else ways)
            if there and fnmatchcase(source, here)
        ]
        if not (goal or mapped) and default in ("upstream", "tracking"):
            mapped = [re.sub(_HEADS, "", one) for one in known.get(f"branch.{source}.merge", ())]
        for one in mapped or [goal or source]:
            yield branch if one in ("HEAD", "@") or UNREAD.search(one) else one


def _ends_of(spec: str) -> tuple[str, str]:
    """Where a push takes a branch from, and where it goes, if that is said."""
    source, sign, goal = spec.lstrip("+").partition(":")
    goal = goal or ("*" if sign and not source else "")  # `:` is all that both have
    return re.sub(_HEADS, "", source), re.sub(_HEADS, "", goal)


def _git_folder(run: Command) -> str:
    words = run.words
    place = words.index("-C") if "-C" in words[:-1] else -1
    return normpath(join(run.folder, words[place + 1])) if place > 0 else run.folder


def _runs_of(line: str, folder: str, depth: int, opened: _Opened) -> Iterator[Command]:
    opened.size += len(line) if depth else 0
    commands = commands_of(spell_out(line)) if opened.size <= _MOST_FOLLOWED else None
    if commands is None:
        # Of a line, all of it; of a script, which is much longer, each of its lines.
        texts = [line] if not depth else line.splitlines()
        yield from (Command((), folder=folder, given=text) for text in texts)
        return
    line_files: dict[str, str] = {}
    aliases: dict[str, tuple[str, ...]] = {}
    for command in commands:
        where = normpath(join(folder, command.folder)) if command.folder else folder
        words = command.words
        if words and words[0] in aliases:
            words = (*aliases[words[0]], *words[1:])
        if command.name == "alias":
            pairs = (word.partition("=") for word in words[1:])
            aliases |= {name: tuple(value.split()) for name, sign, value in pairs if sign and value}
        for path in command.written:
            said = command.given or " ".join(words[1:]) if command.name in _ECHOES else ""
            line_files[normpath(join(where, path))] = said
        alias = _with_git_alias(words)
        run = command._replace(words=alias, folder=where)
        yield run
        yield from (run._replace(words=(name, *run.words)) for name in command.wrappers)
        if depth < _DEEPEST:
            yield from _runs_behind(run, line, line_files, depth, opened)


def _runs_behind(
    run: Command, line: str, line_files: dict[str, str], depth: int, opened: _Opened
) -> Iterator[Command]:
    """The commands that a command runs in its turn."""
    name, words, folder = run.name, run.words, run.folder
    if opened.size > _MOST_FOLLOWED:  # scripts that run each other are opened once more at most
        if (folder, *words) in opened:
            return
        opened.add((folder, *words))
    if name in programs().interpreters and "-m" in words[:-1]:
        yield run._replace(words=words[words.index("-m") + 1 :], written=())
    does = subcommand_of(name, words[1:]) or words[1:]
    if not {name, " ".join((name, *does[:1]))}.isdisjoint(tables().runs_rest):
        for place, word in enumerate(words[1:], 1):
            if " " in word or "\n" in word:
                yield from _runs_of(re.sub(_OPTION, "", word), folder, depth + 1, opened)
            elif not word.startswith("-"):
                yield run._replace(words=words[place:], written=(), given="")
    if words and " " in words[0].strip():  # the line of `env -S`
        yield from _runs_of(" ".join(words), folder, depth + 1, opened)
    if name in _MANAGERS:
        yield from _runs_of_package(run, depth, opened)
    yield from _runs_of_script(run, line, line_files, depth, opened)


def _runs_of_script(
    run: Command, line: str, line_files: dict[str, str], depth: int, opened: _Opened
) -> Iterator[Command]:
    """What a script of the shell runs, or a shell that is given its lines by another command."""
    name, words, folder = run.name, run.words, run.folder
    is_shell = name in programs().shells
    is_path = not is_shell and name not in _SCRIPTS
    if is_path and "/" not in (words or ("",))[0]:
        return
    plain = [word for word in words[0 if is_path else 1 :] if not word.startswith("-")]
    if is_shell and not plain:
        plain = list(run.taken)
    if not plain and is_shell and not run.given:
        yield Command((), folder=folder, given=line)
    elif plain:
        path = normpath(join(folder, plain[0]))
        if opened.size <= _LARGEST and (text := _script_at(path, line_files, is_path)):
            yield from _runs_of(text, folder, depth + 1, opened)
        if opened.size > _LARGEST and not depth:
            yield Command((), folder=folder, given=line)


def _runs_of_package(run: Command, depth: int, opened: _Opened) -> Iterator[Command]:
    """The commands that a script of `package.json` runs."""
    found = subcommand_of(run.name, run.words[1:])
    script = found[1] if found[:1] in (("run",), ("run-script",)) and found[1:] else ""
    script = script or (found[0] if found else "")
    try:
        told: Any = json.loads(script and _script_at(join(run.folder, "package.json"), {}, False))
    except ValueError:
        return
    scripts: Any = cast("dict[str, Any]", told).get("scripts") if isinstance(told, dict) else None
    line: Any = cast("dict[str, Any]", scripts).get(script) if isinstance(scripts, dict) else None
    if isinstance(line, str):
        yield from _runs_of(line, run.folder, depth + 1, opened)


def _script_at(path: str, line_files: dict[str, str], is_program: bool) -> str:
    """The text of a script of the shell, as the line writes it or as it is there."""
    if path in line_files:
        return line_files[path]
    try:
        text = read_plain_file(Path(path), _LARGEST + 1).decode("utf-8-sig", "replace")
    except (OSError, ValueError):
        return ""
    first = text.partition("\n")[0]
    is_shell = first.startswith("#!") and "sh" in first
    return text if is_shell or not is_program else ""


def _with_git_alias(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words of git with what an alias of their own means."""
    if words[:1] != ("git",):
        return words
    for place, word in enumerate(words[:-2]):
        name, sign, meant = words[place + 1].partition("=")
        if word == "-c" and sign and name.startswith("alias."):
            known = name.removeprefix("alias.")
            return tuple(
                part for one in words for part in (meant.split() if one == known else (one,))
            )
    return words


def spell_out(line: str) -> str:
    """A line with what it assigns in place of the names, and its quotations in plain signs."""
    line = _ANSI.sub(_decode, line)
    line = line.replace('$"', '"')
    line = re.sub(r"\$\{?IFS\}?", " ", line)
    line = _BRACES.sub(lambda found: found[1].replace(",", " "), line)
    assigned = {found["name"] for found in _ASSIGNS.finditer(line)}
    line = _DEFAULT.sub(lambda found: found[0] if found[1] in assigned else found[2], line)
    for found in list(_ASSIGNS.finditer(line))[:20]:
        value = found["value"].strip("'\"")
        name = re.escape(found["name"])
        head, tail = line[: found.end()], line[found.end() :]
        line = head + re.sub(
            rf"\$(?:{name}\b|\{{{name}(?::?[-=?][^}}]*)?\}})",
            lambda _, said=value: cast("str", said),
            tail,
        )
    return line


def _decode(found: re.Match[str]) -> str:
    try:
        said = found[1].encode("latin-1", "backslashreplace").decode("unicode_escape")
    except UnicodeDecodeError:
        said = found[1]
    return "'" + said.replace("'", "'\\''") + "'"

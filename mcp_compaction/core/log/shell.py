"""Reads from shell commands what they do to files; the commands are data, in `tools.toml`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from posixpath import join, normpath
from typing import Literal, NamedTuple

from mcp_compaction.core.text.patterns import pattern_of, word_set
from mcp_compaction.lexicon.tools import (
    Deed,
    ShellCommand,
    code_that_changes_files,
    known_commands,
)

_LONGEST = 20_000  # characters; what is longer writes data, which its first lines say

_HERE = pattern_of(r"<<-?\s*(['\"]?)([A-Za-z_]\w*)\1")
_TOKEN = pattern_of(
    r"(?P<cut>&&|\|\||;|\||&(?!>)|\n)"
    r"|(?P<into>[12&]?>>?)(?P<stream>&\d|/dev/\w+|\s/dev/\w+)?|(?P<other>\d?<{1,3}-?)"
    r"|(?P<word>(?:'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.|[^\s'\"\\;|&<>])+)",
    re.S,
)
_QUOTES = pattern_of(r"'([^']*)'|\"((?:\\.|[^\"\\])*)\"|\\(.)", re.S)
_ASSIGNED = pattern_of(r"[A-Za-z_]\w*=")
_BEFORE_A_COMMAND = word_set("sudo env time nohup command exec do then else") | {"{", "(", "!"}
_TIMEOUT = frozenset(("timeout", "gtimeout"))
_RUNS_CODE = pattern_of(r"(?:python|node|ruby|perl|bash|sh|deno|bun|php)[\d.]*$")
_UNREAD = pattern_of(r"[$`]")
_REDIRECT = "> "
_GLOB = pattern_of(r"[*?\[]|\{[^{},]*,")


class Effect(NamedTuple):
    """What one command does to one file; a path may be a glob, or blank for all files."""

    does: Deed | Literal["unknown"]
    path: str
    by: str  # the command that does it
    to: str = ""  # where a file is moved
    is_first: bool = True  # no other command has to succeed before it
    is_only: bool = True  # the call runs nothing else

    @property
    def is_redirect(self) -> bool:
        """Whether the shell itself writes the file, from what a command prints."""
        return self.by.startswith(_REDIRECT)

    @property
    def is_glob(self) -> bool:
        """Whether it means whatever files are there."""
        return bool(_GLOB.search(self.path))


class Part(NamedTuple):
    """One of the commands of a line: its words, the files its output goes into, and its folder."""

    words: tuple[str, ...]
    written: tuple[str, ...]
    folder: str = ""


@lru_cache(maxsize=2_048)
def effects_of(command: str) -> tuple[Effect, ...]:
    """What a shell command does to files, in order."""
    text, inner = _without_here_documents(command[:_LONGEST])
    parts = _parts_of(text)
    found = [
        effect._replace(is_first=not place, is_only=len(parts) == 1)
        for place, part in enumerate(parts)
        for effect in _effects_of_part(part, inner)
    ]
    return tuple(found)


def parts_of(command: str) -> tuple[Part, ...]:
    """The commands of a shell text, without those that only change the folder."""
    return _parts_of(_without_here_documents(command)[0])


@lru_cache(maxsize=2_048)
def _parts_of(text: str) -> tuple[Part, ...]:
    found: list[Part] = []
    folder = ""
    for words, written in _cut(text):
        bare = _bare(words)
        if bare[:1] == ("cd",):
            folder = normpath(join(folder, bare[1])) if len(bare) > 1 else ""
        elif bare or written:
            found.append(Part(bare, written, folder))
    return tuple(found)


def _cut(text: str) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The words of each command, and the files that its output goes into."""
    words: list[str] = []
    written: list[str] = []
    into, comment_to = False, -1
    for token in _TOKEN.finditer(text):
        if token.start() < comment_to:
            continue
        kind = token.lastgroup
        if kind == "cut":
            yield tuple(words), tuple(written)
            words, written, into = [], [], False
        elif token["into"] is not None:
            into = token["stream"] is None
        elif kind == "other":
            into = False
        elif token["word"].startswith("#"):
            end = text.find("\n", token.start())
            comment_to = end if end >= 0 else len(text)
        elif into:
            written.append(_plain(token["word"]))
            into = False
        else:
            words.append(_plain(token["word"]))
    yield tuple(words), tuple(written)


def _plain(word: str) -> str:
    return _QUOTES.sub(lambda match: next((g for g in match.groups() if g), ""), word)


def _bare(words: Sequence[str]) -> tuple[str, ...]:
    """The words of a command without what may stand before it: variables, sudo, a time limit."""
    left = list(words)
    while left:
        if left[0] in _BEFORE_A_COMMAND or _ASSIGNED.match(left[0]):
            left.pop(0)
        elif left[0] in _TIMEOUT:
            left.pop(0)
            while left and (left[0].startswith("-") or left[0][0].isdigit()):
                left.pop(0)
        else:
            break
    return tuple(word.strip("()") for word in left)


def _without_here_documents(command: str) -> tuple[str, str]:
    """A command without the texts that it holds for other programs, and these texts."""
    if "<<" not in command:
        return command, ""
    kept: list[str] = []
    inner: list[str] = []
    waiting: list[str] = []
    for line in command.split("\n"):
        if waiting:
            if line.strip() == waiting[0]:
                waiting.pop(0)
            else:
                inner.append(line)
            continue
        kept.append(line)
        waiting += [match[2] for match in _HERE.finditer(line)]
    return "\n".join(kept), "\n".join(inner)


def _effects_of_part(part: Part, inner: str) -> Iterator[Effect]:
    words = part.words
    name = words[0].rpartition("/")[2] if words else ""
    for path in part.written:
        if not path.startswith(("/dev/", "&")):
            yield Effect("write", _placed(path, part), f"{_REDIRECT}{path}")
    known, rest = _known_command(name, words[1:])
    if known is not None:
        yield from _effects_of_known(known, rest, part)
    elif _RUNS_CODE.match(name):
        code = "\n".join((*words[1:], inner))
        if _changes_files().search(code):
            yield from (Effect("unknown", path, name) for path in _paths_in(code))


@cache
def _changes_files() -> re.Pattern[str]:
    return re.compile(code_that_changes_files())


_NAMED = pattern_of(r"(?<![\w./@+-])[\w./@+-]+\.\w{1,12}\b|/[\w./@+-]+")


def _paths_in(code: str) -> Iterable[str]:
    return dict.fromkeys(_NAMED.findall(code))


@cache
def _commands() -> dict[str, ShellCommand]:
    return {command.name: command for command in known_commands()}


def _known_command(name: str, rest: Sequence[str]) -> tuple[ShellCommand | None, Sequence[str]]:
    words = list(rest)
    if name == "git":
        while words and words[0].startswith("-"):  # git -C folder rm …
            del words[: 2 if words[0] in ("-C", "-c") else 1]
        name, words = f"git {words[0] if words else ''}", words[1:]
    elif name == "xargs":
        words = [word for word in words if not word.startswith("-")]
        known = _commands().get(words[0]) if words else None
        return known, ("$",)
    known = _commands().get(name)
    if known is not None and known.needs and not any(w.startswith(known.needs) for w in words):
        return None, ()
    if known is not None and known.unless and known.unless in words:
        return None, ()
    return known, words


def _effects_of_known(known: ShellCommand, rest: Sequence[str], part: Part) -> Iterator[Effect]:
    by = known.name
    if known.does == "forget":
        yield Effect("unknown", "", by)
        return
    files = _operands(known, rest)
    if known.does == "move":
        if len(files) == 2 and not any(map(_UNREAD.search, files)):
            old, new = (_placed(path, part) for path in files)
            yield Effect("move", old, by, to=new)
            return
        if files:
            into = _placed(files[-1], part)
            files = files[:-1]
            for path in files:
                yield Effect(
                    "move", _placed(path, part), by, to=join(into, path.rpartition("/")[2])
                )
            return
    if known.takes == "paths" and not files:
        yield Effect("unknown", "", by)
    for path in files:
        if _UNREAD.search(path):
            yield Effect("unknown", "", by)
        else:
            yield Effect(known.does, _placed(path, part), by)


def _operands(known: ShellCommand, rest: Sequence[str]) -> list[str]:
    if known.takes == "paths":
        if "--" in rest:
            return list(rest[rest.index("--") + 1 :])
        looks_like_file = pattern_of(r"(?:.*/)?[\w@+-][\w.@+-]*\.\w{1,12}$|\.$")
        return [w for w in rest if not w.startswith("-") and looks_like_file.match(w)]
    files = [word for word in rest if not word.startswith("-") and word]
    return files[-1:] if known.takes == "last" else files


def _placed(path: str, part: Part) -> str:
    """A path as it is seen from where the shell began."""
    if not part.folder or path.startswith(("/", "~", "$")):
        return path
    return normpath(join(part.folder, path))

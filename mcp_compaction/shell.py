"""Reads lines of a shell: each command that one runs, whatever it is wrapped in; standard library
only, so that hooks may use it.

What is known of programs is a table, [programs] in `lexicon/tools.toml`. `shlex` alone does not do:
it tells no quoted `;` from one that ends a command.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import cache, lru_cache
from posixpath import join, normpath
from typing import Any, NamedTuple, cast

from mcp_compaction.lexicon import read_table

UNKNOWN = "$@"
"""The word for operands that only the run will know, as those of `xargs`."""
_LONGEST = 20_000  # characters without here-documents
_DEEPEST = 8  # a shell in a shell in a shell
# What double quotes hold; a command in them has quotes of its own.
_HELD = r"(?:\\.|\$\((?:[^()\"\\]|\\.|\"[^\"]{0,200}\"){0,400}+\)|[^\"\\])*"
_TOKEN = re.compile(
    r"(?P<blank>[ \t\r]+|\\\n|(?<![^\s;|&()])#[^\n]*)"
    r"|(?P<opens>[<>$]\(|\((?=\())"
    r"|(?P<into>(?:\d+|&)?>[>|]?&?)|(?P<here><<-?(?!<))|(?P<other>\d*<(?:<<|[&>])?)"
    r"|(?P<cut>&&|\|[|&]?|;+|&|\n|[()])"
    rf"|(?P<word>(?:[^\s'\"`\\$;|&<>()]+|'[^']*'|\"{_HELD}\"|`[^`]*`|\\.|\$(?!\())+)",
    re.S,
)
_QUOTED = re.compile(rf"'([^']*)'|\"({_HELD})\"|\\(.)", re.S)
_ESCAPED = re.compile(r"\\([\\\"$`\n])")
_BRACKETS = re.compile(rf"'[^']*'|\"{_HELD}\"|\\.|[()]", re.S)
_OPENED = re.compile(r"'[^']*'|\\.|\$\((?!\()|`[^`]*`", re.S)
_ASSIGNED = re.compile(r"[A-Za-z_]\w*\+?=")
_SHELL_TEXT = re.compile(r"-[a-z]*c")


class Command(NamedTuple):
    """One command of a line: its words without wrappers, the files that its output goes into, the
    folder that the line went to before it, what it is given by a here-document, where it begins
    in the line, what it is wrapped in, and the files that its input comes from."""

    words: tuple[str, ...]
    written: tuple[str, ...] = ()
    folder: str = ""
    given: str = ""
    start: int = 0
    wrappers: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()
    joined: str = ""  # by which sign to what stands before it
    branch: str = ""  # that the line has gone to before it, where that was followed

    @property
    def name(self) -> str:
        """The program without its folder."""
        return self.words[0].rpartition("/")[2] if self.words else ""


class FileChange(NamedTuple):
    """What a program does to the files that it names; the heads of `tools.toml` and `checks.toml`
    explain each."""

    name: str
    does: str = "write"
    takes: str = "all"
    needs: str = ""
    unless: str = ""
    script: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    into: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    bundles: bool = False

    def is_done(self, words: Sequence[str]) -> bool:
        """Whether it has the option that it needs to change files, and none that spares them."""
        spelled = self._spell(words)
        has_option = not self.needs or any(re.fullmatch(self.needs, word) for word in spelled)
        spares = self.unless and any(re.fullmatch(self.unless, word) for word in spelled)
        return has_option and not spares

    def files_in(self, words: Sequence[str]) -> list[str]:
        """The files that it changes when it is run with these words."""
        valued = self.script | self.writes | self.into | self.valued
        plain, options = read_options(self._spell(words), valued)
        found = [value for option, value in options if option in self.writes]
        folder = next((value for option, value in options if option in self.into), "")
        match self.takes:
            case "none":
                return found
            case "last":
                return [*found, folder] if folder else [*found, *plain[-1:]]
            case "rest":
                is_given = any(option in self.script for option, _ in options)
                return [*found, *plain[0 if is_given else 1 :]]
            case "into":
                return [*found, folder or ".", *(join(folder, one) for one in plain)]
            case _:
                return [*found, *plain]

    def _spell(self, words: Sequence[str]) -> Sequence[str]:
        is_bare = self.bundles and words and not words[0].startswith("-")
        return (f"-{words[0]}", *words[1:]) if is_bare else words


class Programs(NamedTuple):
    """What is known of programs; the head of `tools.toml` explains each."""

    beside: frozenset[str]
    with_subcommand: frozenset[str]
    interpreters: frozenset[str]
    searches: frozenset[str]
    compares: frozenset[str]
    does_with_found: frozenset[str]
    reads: frozenset[str]
    selects: frozenset[str]
    leaves_out: frozenset[str]
    keywords: frozenset[str]
    shells: frozenset[str]
    wrappers: dict[str, frozenset[str]]
    before_subcommand: dict[str, frozenset[str]]


@cache
def programs() -> Programs:
    """The table of programs."""
    table: dict[str, list[str] | dict[str, list[str]]] = read_table("tools.toml")["programs"]
    return Programs(**{name: _as_sets(entry) for name, entry in table.items()})


def _as_sets(entry: list[str] | dict[str, list[str]]) -> Any:
    if isinstance(entry, dict):
        return {name: frozenset(words) for name, words in entry.items()}
    return frozenset(entry)


@lru_cache(maxsize=2_048)
def commands_of(line: str) -> tuple[Command, ...] | None:
    """The commands that a line runs, in order, without those that only change the folder; None
    where it cannot be read: a quotation or a bracket without an end, a function, a `case`."""
    try:
        return tuple(_Reader(line).read())
    except _UnreadableError:
        return None


def changes_in(entries: Sequence[dict[str, Any]]) -> dict[str, list[FileChange]]:
    """What programs do to files, by their names, as a table has it."""
    found: dict[str, list[FileChange]] = {}
    for entry in entries:
        known = {key: one for key, one in entry.items() if key in FileChange._fields}
        given = {
            key: _as_sets(cast("list[str]", one)) if isinstance(one, list) else one
            for key, one in known.items()
        }
        for name in entry.get("names", [entry.get("name")]):
            found.setdefault(name, []).append(FileChange(**{**given, "name": name}))
    return found


def read_options(
    words: Sequence[str], valued: Collection[str]
) -> tuple[list[str], list[tuple[str, str]]]:
    """The operands among words, and those options that take a word, each with its word."""
    plain: list[str] = []
    options: list[tuple[str, str]] = []
    rest = iter(words)
    for word in rest:
        name, sign, value = word.partition("=")
        if f"{name}=" in valued or (name in valued and len(name) > 1):
            options.append(
                (name if name in valued else f"{name}=", value if sign else next(rest, ""))
            )
        elif word == "--":
            plain += rest
        elif not word.startswith("-"):
            plain += [word] if word else []
        elif not word.startswith("--"):  # letters, of which one may take what follows
            place = next((n for n, one in enumerate(word) if n and f"-{one}" in valued), 0)
            if place:
                options.append((f"-{word[place]}", word[place + 1 :] or next(rest, "")))
    return plain, options


def subcommand_of(name: str, words: tuple[str, ...]) -> tuple[str, ...]:
    """The subcommand of a program and the words behind it; none where it has none."""
    if name not in programs().with_subcommand:
        return ()
    valued, rest = programs().before_subcommand.get(name, frozenset[str]()), words
    while rest and rest[0].startswith("-"):
        rest = rest[2 if rest[0] in valued else 1 :]
    return rest


class _UnreadableError(Exception):
    """A line that cannot be read."""


class _Reader:
    """Reads one text; a text inside of it has a reader of its own."""

    def __init__(self, text: str, folder: str = "", depth: int = 0) -> None:
        if depth > _DEEPEST:
            raise _UnreadableError
        self._text, self._depth = text, depth
        self._folders = [folder]  # one more for each bracket that is open
        self._found: list[Command] = []
        self._after_documents = 0  # the place behind the here-documents of this line
        self._joined = ""
        self._begin()

    def _begin(self) -> None:
        self._start = -1
        self._words: list[str] = []
        self._written: list[str] = []
        self._taken: list[str] = []
        self._given = ""
        self._awaits = ""  # what the next word is, where it is no word of the command
        self._last: list[str] = []  # where the word stands that may go on
        self._word_end = -1

    def read(self) -> list[Command]:
        """The commands of the text."""
        place = size = 0
        while place < len(self._text):
            token = _TOKEN.match(self._text, place)
            size += len(token[0]) if token else 0
            if token is None or size > _LONGEST:
                raise _UnreadableError
            place = token.end()
            match token.lastgroup:
                case "word":
                    self._take(token[0], token.start(), place)
                case "opens":
                    place = self._open(token, place)
                case "into" | "here" | "other" as kind:
                    self._awaits = "from" if token[0].strip(" \t0") == "<" else kind
                case "cut":
                    self._cut(token[0])
                    if token[0] == "\n":
                        place = max(place, self._after_documents)
                case _:
                    pass
        self._end()
        if len(self._folders) != 1:
            raise _UnreadableError
        return self._found

    def _take(self, said: str, start: int, end: int) -> None:
        """Take a word down, or the end of one."""
        self._start = start if self._start < 0 else self._start
        for text in _texts_opened_in(said):
            self._read_inside(text)
        word, awaits, self._awaits = _QUOTED.sub(_unquote, said), self._awaits, ""
        if not awaits and start == self._word_end and self._last:
            self._last[-1] += word
        elif awaits == "here":
            self._take_document(word, end)
        else:
            is_stream = word.isdigit() or word == "-" or word.startswith("/dev/")
            is_file = awaits == "into" and not is_stream
            others = self._taken if awaits == "from" else []
            self._last = self._written if is_file else others if awaits else self._words
            self._last.append(word)
        self._word_end = end

    def _open(self, token: re.Match[str], place: int) -> int:
        """Read what stands in brackets as commands of their own, whose output is a word here."""
        self._start = token.start() if self._start < 0 else self._start
        end = _end_of_bracket(self._text, place)
        inside = self._text[place:end]
        if token[0] != "(" and not inside.startswith("("):  # else it is a sum
            self._read_inside(inside)
        self._take("$", token.start(), end + 1)
        return end + 1

    def _read_inside(self, text: str) -> None:
        inside = _Reader(text, self._folders[-1], self._depth + 1).read()
        self._found += (one._replace(start=self._start) for one in inside)

    def _take_document(self, delimiter: str, place: int) -> None:
        """Take down the here-document that begins on the next line."""
        line_end = self._text.find("\n", place)
        start = max(line_end + 1 or len(self._text), self._after_documents)
        closing = re.compile(rf"^[ \t]*{re.escape(delimiter)}[ \t\r]*$", re.M)
        found = closing.search(self._text, start)
        self._given += self._text[start : found.start() if found else None]
        self._after_documents = found.end() if found else len(self._text)

    def _cut(self, said: str) -> None:
        if (said == "(" and self._words) or said.startswith(";;"):
            raise _UnreadableError  # a function, an array, a case
        self._end()
        self._joined = self._joined if said == "(" else said
        if said == "(":
            self._folders.append(self._folders[-1])
        elif said == ")":
            self._folders.pop()
            if not self._folders:
                raise _UnreadableError

    def _end(self) -> None:
        """End the command that was read so far."""
        words, written, taken = self._words, tuple(self._written), tuple(self._taken)
        given, start = self._given, self._start
        self._begin()
        while words and (words[0] in programs().keywords or _ASSIGNED.match(words[0])):
            words.pop(0)
        folder = self._folders[-1]
        if words[:1] in (["case"], ["function"], ["select"]):
            raise _UnreadableError
        if words[:1] == ["cd"]:
            self._folders[-1] = normpath(join(folder, words[1])) if len(words) > 1 else ""
        elif (words and words[0] != "for") or written or taken:
            command = Command(
                tuple(words), written, folder, given, start, taken=taken, joined=self._joined
            )
            self._found += self._unwrap(command)

    def _unwrap(self, command: Command, depth: int = 0) -> Iterator[Command]:
        """What a command runs: the one that it is put before, the text that a shell is given, the
        command that a search has for what it finds."""
        if depth > _DEEPEST:
            raise _UnreadableError
        known, words, name = programs(), command.words, command.name
        inner = _words_behind(words, known.wrappers[name]) if name in known.wrappers else ()
        if inner:
            more = (UNKNOWN,) if name == "xargs" else ()
            wrappers = (*command.wrappers, name)
            yield from self._unwrap(
                command._replace(words=(*inner, *more), wrappers=wrappers), depth + 1
            )
            return
        text = _text_for_shell(command) if name in known.shells else ""
        if text:
            inside = _Reader(text, command.folder, self._depth + 1).read()
            yield from (one._replace(start=command.start) for one in inside)
            if command.written:
                yield command._replace(words=(), given="")
            return
        yield command
        run = run_with_found(words) if name in known.searches else ()
        if run:
            yield from self._unwrap(command._replace(words=run, written=()), depth + 1)


def _unquote(quoted: re.Match[str]) -> str:
    if quoted[2] is not None:
        return _ESCAPED.sub(lambda found: found[1].strip("\n"), quoted[2])
    return quoted[1] or (quoted[3] or "").strip("\n")


def _texts_opened_in(word: str) -> Iterator[str]:
    """The texts whose output stands in a word: `$(…)` in double quotes, backquotes anywhere."""
    place = 0 if "$(" in word or "`" in word else len(word)
    while found := _OPENED.search(word, place):
        place = found.end()
        if found[0] == "$(":
            place = _end_of_bracket(word, found.end())
            yield word[found.end() : place]
        elif found[0].startswith("`"):
            yield found[0][1:-1]


def _end_of_bracket(text: str, place: int) -> int:
    """The place of the bracket that closes one which was opened before a place."""
    depth = 1
    for found in _BRACKETS.finditer(text, place):
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if not depth:
            return found.start()
    raise _UnreadableError


def _words_behind(words: Sequence[str], valued: frozenset[str]) -> tuple[str, ...]:
    """The words of a command behind its wrapper: its options, some of which take a word more, what
    it assigns, and a time."""
    rest = (
        list(words[1:]) if words[1:2] not in (("-v",), ("-V",)) else []
    )  # `command -v` only looks
    while rest and (rest[0].startswith("-") or _ASSIGNED.match(rest[0])):
        option = rest.pop(0)
        if option in valued and rest:
            rest.pop(0)
        if option == "--":
            break
    return tuple(rest[1:] if "TIME" in valued else rest)


def _text_for_shell(command: Command) -> str:
    """The text that a shell is to run, where the line gives it."""
    if command.name == "eval":
        return " ".join(command.words[1:])
    for place, word in enumerate(command.words[1:-1], 1):
        if _SHELL_TEXT.fullmatch(word):
            return command.words[place + 1]
    is_file = any(not word.startswith("-") for word in command.words[1:])
    return "" if is_file else command.given


def run_with_found(words: Sequence[str]) -> tuple[str, ...]:
    """The command that a search runs with what it finds."""
    marks = programs().does_with_found
    start = next((n + 1 for n, word in enumerate(words) if word in marks), len(words))
    end = next((n for n, word in enumerate(words) if n > start and word in (";", "+")), None)
    return tuple(UNKNOWN if word == "{}" else word for word in words[start:end])

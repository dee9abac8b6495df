"""One run of one command: the arguments that several commands share and its own, parsed; its module
run to the end; and where it looks if it only lists rows of the store's file.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple, NoReturn, Protocol, TextIO

from mcp_compaction.cli.console.screen import Screen
from mcp_compaction.cli.console.wording import for_person
from mcp_compaction.core.text.paths import without_surrogates
from mcp_compaction.errors import CompactionError, InputError
from mcp_compaction.home import default_home, write_whole
from mcp_compaction.program import PROGRAM, TAKEN_BY, complete, typed_command
from mcp_compaction.projects import find_project
from mcp_compaction.settings_file import PREFIX, has_settings
from mcp_compaction.store.connect import store_path

_MOST = 2**31 - 1


def add_place(parser: ArgumentParser) -> None:
    """Declare the options for the project, the store's folder, the preset and the output."""
    parser.add_argument(
        "--project",
        metavar="PATH",
        help="the project (default: MCP_COMPACTION_PROJECT, else the git top of this folder)",
    )
    add_store(parser)


def add_store(parser: ArgumentParser) -> None:
    """Declare the options for the store's folder, the preset and the output for programs."""
    parser.add_argument("--home", metavar="DIR", help="the folder of the store")
    parser.add_argument("--preset", metavar="NAME", help="the preset of policy settings")
    parser.add_argument("--json", action="store_true", help="write one JSON document for programs")


def check_count(flag: str, count: int | None, least: int = 1, most: int = _MOST) -> None:
    """Refuse a number of things that is too small or too large to mean anything."""
    if count is not None and count < least:
        raise InputError(f"{flag} {count} is too few; pass {least:,} or more.")
    if count is not None and count > most:
        raise InputError(f"{flag} {count} is too many; pass {most:,} or fewer.")


def add_session(parser: ArgumentParser, default: str = "the only one there is") -> None:
    """Declare the option that names the session."""
    parser.add_argument(
        "--session", metavar="NAME", help=f"the name of the session (default: {default})"
    )


def write_html(path: Path, text: str) -> None:
    """Write a page that only its owner may read; a path that cannot be written is named, with the
    way out. A link to a page stays one, and what is no file, as /dev/stdout, gets the text."""
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
        else:
            write_whole(Path(os.path.realpath(path)), text)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; pass another --html.") from None


@dataclass(frozen=True, slots=True)
class Invocation:
    """The arguments that were typed, with the streams and the environment."""

    args: Namespace
    screen: Screen
    stdin: TextIO
    environ: Mapping[str, str]

    @property
    def program(self) -> str:
        """The words to type to run this program again."""
        return typed_command(self.environ.get("PATH"))

    def complete(self, text: str, *, with_session: bool = True) -> str:
        """The text with its commands as they work when they are typed next, in whatever folder."""
        place = dict(self._typed_place())
        if not with_session:
            place.pop("--session", None)
        return complete(text, self.program, place)

    def _typed_place(self) -> Iterator[tuple[str, str]]:
        for option in TAKEN_BY:
            typed: str | None = getattr(self.args, option.removeprefix("--"), None)
            if typed:
                is_name = option == "--session"
                value = typed if is_name else str(Path(typed).expanduser().absolute())
                yield option, without_surrogates(value) if option == "--project" else value


class CommandModule(Protocol):
    """The functions and texts a module must have to be a command."""

    DESCRIPTION: str  # one sentence for what it does, one for what it changes
    EXAMPLES: tuple[str, ...]

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the arguments after the command's name."""
        ...

    async def run(self, call: Invocation) -> int:
        """Do it, and answer with the exit code."""
        ...


class Parser(ArgumentParser):
    """A parser whose complaints are errors like all others."""

    def error(self, message: str) -> NoReturn:
        """Raise what is wrong with the arguments, with the way to the help."""
        raise InputError(f"{message}; {self._hint_for(message)}see: {self.prog} --help")

    def _hint_for(self, message: str) -> str:
        """What was probably meant by a word that this command does not take."""
        _, is_unknown, rest = message.partition("unrecognized arguments: ")
        typed = rest.split(" ", 1)[0].partition("=")[0]
        options = [option for action in self._actions for option in action.option_strings]
        if not is_unknown:
            return ""
        if not typed.startswith("-"):
            return f"did you mean --session {typed}? " if "--session" in options else ""
        from mcp_compaction.settings import POLICY  # only a complaint waits for it

        setting = typed.removeprefix("--").removeprefix("no-").replace("-", "_")
        if setting in POLICY:
            return f"set {PREFIX}{setting.upper()}, or {setting} in the settings file; "
        near = get_close_matches(typed.lower(), options, 1)
        return f"did you mean {near[0]}? " if near else ""


def parser_of(name: str, command: CommandModule, program: str = PROGRAM) -> ArgumentParser:
    """The parser of one command, with its examples at the end of its help."""
    examples = "\n".join(f"  {program} {example}" for example in command.EXAMPLES)
    parser = Parser(
        prog=f"{program} {name}",
        description=command.DESCRIPTION,
        epilog=f"examples:\n{examples}",
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    return parser


def invoke(
    name: str,
    command: CommandModule,
    argv: Sequence[str],
    screen: Screen,
    stdin: TextIO,
    environ: Mapping[str, str],
) -> int:
    """Parse what was typed after the command's name, and run the command."""
    parser = parser_of(name, command, typed_command(environ.get("PATH")))
    options = takewhile(lambda word: word != "--", argv)
    if any(word in ("-h", "--help") for word in options):
        screen.say(parser.format_help().rstrip())
        return 0
    args = parser.parse_args(argv)
    call = Invocation(args, screen, stdin, environ)
    # A command may have a way that does without an event loop, where that is enough.
    look: Callable[[Invocation], int | None] = getattr(command, "look", lambda _: None)
    if (code := look(call)) is not None:
        return code
    import asyncio  # which a starting server does without

    try:
        return asyncio.run(command.run(call))
    except CompactionError as error:
        error.args = (call.complete(for_person(str(error))),)
        raise


MOST_SESSIONS = 200  # whose pins are listed together


class PlainPlace(NamedTuple):
    """A folder with a store in it, and the project that is meant."""

    home: Path
    project: str


def plain_place(call: Invocation) -> PlainPlace | None:
    """The place as it was typed; None where settings, a program or a first use ask for more."""
    args, environ = call.args, call.environ
    if args.json or args.preset or has_settings(environ) or environ.get(f"{PREFIX}PROJECT"):
        return None
    home = Path(args.home).expanduser().absolute() if args.home else default_home(environ)
    if not home.is_absolute() or not store_path(home).is_file():
        return None
    return PlainPlace(home, find_project(args.project))

"""The entry point: finds the command asked for, imports it alone, and turns errors into codes."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TextIO, cast

from mcp_compaction.cli.console.repositories import leave_out_repository
from mcp_compaction.cli.console.screen import Screen
from mcp_compaction.errors import CompactionError, InputError, SettingsError, StoreError

if TYPE_CHECKING:
    from mcp_compaction.cli.console.invocation import CommandModule

DONE = 0
REFUSED = 1
BAD_INPUT = 2
STORE_UNUSABLE = 3
UNEXPECTED = 4
INTERRUPTED = 130

# They end at once: their store is closed when they return.
_SHORT = frozenset({"doctor", "hook", "pins", "recall", "sessions", "stats"})
_ALLOCATIONS_BETWEEN_COLLECTIONS = 100_000


class Listed(NamedTuple):
    """A command as the overview has it."""

    module: str
    help: str


_WEEKLY = {
    "install": "plug it into a host",
    "run": "run claude, codex or opencode with a window that really shrinks",
    "import": "take in the chats that hosts have kept",
    "sessions": "list what is recorded",
    "stats": "say how full the window is and what would help",
    "compress": "make the window smaller",
    "restore": "undo a compaction",
    "recall": "find what was said, word for word",
    "pin": "keep a rule in sight, word for word",
    "pins": "list the pins in force",
    "open": "show sessions on a local page",
    "doctor": "look over the store, the settings and the hosts",
}
_OTHERS = {
    "record": "keep messages from a file or stdin",
    "show": "say what the model can still see",
    "set": "say what a session's task and model are",
    "facts": "keep what a session taught for later ones",
    "unpin": "release a pin",
    "trust": "say that the prompts of programs are your words",
    "uncompact": "give a chat back what its host compacted away",
    "demo": "play a long session and show what comes of it",
    "gateway": "serve the gateway alone, or say which ones run",
    "serve": "serve the tools to a host, over MCP",
    "uninstall": "take it out of a host again",
    "store backup": "copy the whole store to a new file",
    "store restore": "put a backup in the store's place",
    "store export": "write a session as JSON lines",
    "store forget": "remove a message, session or project for good",
    "team migrate": "make a team's tables",
    "team token": "say who may use a team's store",
    "team copy": "copy all sessions into another store, and compare",
    "team send": "send what waits to a team's server, now",
    "eval": "measure what survives a compaction",
    "eval lab": "see the strategies side by side on one session",
    "eval audit": "tell what past compactions of hosts lost and cost",
    "eval compactions": "set past compactions of hosts beside ours",
    "eval read": "have a model answer questions from each view",
}
_MODULES = {"import": "import_transcripts", "store restore": "restore_backup"}  # other names
COMMANDS: Mapping[str, Listed] = {
    name: Listed(f"mcp_compaction.cli.commands.{_MODULES.get(name, name.split()[-1])}", words)
    for name, words in {**_WEEKLY, **_OTHERS}.items()
}
_NEVER_ALONE = ("store restore", "eval compactions", "eval read")
GROUPS = tuple(dict.fromkeys(name.split()[0] for name in COMMANDS if " " in name))
FORMER: Mapping[str, str] = {
    "restore-backup": "store restore",
    **{name.split()[1]: name for name in COMMANDS if " " in name and name not in _NEVER_ALONE},
}
"""The names that commands had before they were grouped; they go on working."""

_SUMMARY = """\
mcp-compaction keeps all that was said to an agent, and decides what of it the model still sees.

usage: {program} COMMAND [options]
       {program}            at a terminal: how to begin; where a host starts it: serves the tools"""

_MORE = """\
start here:
  {program} demo
  {program} install claude-code
  {program} install --list
  others: {entry}

Every command explains itself, and so do store, team and eval: {program} COMMAND --help.
Most take --session NAME, --project PATH, --home DIR (of the store) and --json.
What differs from the default settings is shown by: {program} doctor

exit codes: 0 done; 1 refused, or a problem found; 2 bad usage or input; 3 the store cannot be used;
4 an unexpected error (MCP_COMPACTION_DEBUG=1 shows where it came from); 130 interrupted"""


def run() -> None:
    """The console script: the process's own streams, and an exit with the code."""
    stdin = sys.stdin or TextIOWrapper(BytesIO())  # a caller may have closed it
    left = leave_out_repository(os.environ, Path.cwd())
    if left and sys.stderr:
        sys.stderr.write(f"mcp-compaction: {', '.join(left)} of the project's settings: left out\n")
    is_short = sys.argv[1:2] and sys.argv[1] in _SHORT
    if is_short:
        gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS)
        # Plugins of pydantic would be looked for in the metadata of every installed package.
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    code = main(sys.argv[1:], sys.stdout, sys.stderr, stdin, os.environ)
    if is_short:
        _leave(code)
    raise SystemExit(code)


def _leave(code: int) -> NoReturn:
    """End the process with its memory as it is: to take that apart takes a fifth of a short run."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # its reader is gone, which main has told by the code
            stream.flush()
    os._exit(code)


def main(
    argv: Sequence[str],
    stdout: TextIO,
    stderr: TextIO,
    stdin: TextIO,
    environ: Mapping[str, str],
) -> int:
    """Run one command and say how it ended, as an exit code."""
    screen, complaints = Screen(stdout, environ), Screen(stderr, environ)
    if complaints.is_terminal and (former := argv[0] if argv else "") in FORMER:
        complaints.say(f"mcp-compaction: {former} is now `{FORMER[former]}`")
    try:
        code = _dispatch(argv, screen, stdin, environ)
        stdout.flush()
    except BrokenPipeError:
        _let_go(stdout)
        return DONE
    except KeyboardInterrupt:
        complaints.say("mcp-compaction: interrupted")
        return INTERRUPTED
    except CompactionError as error:
        from mcp_compaction.cli.console.wording import for_person
        from mcp_compaction.program import complete, typed_command

        program = typed_command(environ.get("PATH"))
        complaints.say(f"mcp-compaction: {complete(for_person(str(error)), program, {})}")
        return _code_of(error)
    except Exception as error:  # noqa: BLE001  # the top: a person gets a sentence and a code
        complaints.say(_describe_unexpected(error, argv, environ))
        return UNEXPECTED
    return code


def help_text(program: str) -> str:
    """The whole help: every command, how to begin, the options they share, the exit codes."""
    from mcp_compaction.program import host_entry

    alone = [name for name in _OTHERS if " " not in name]
    more = [", ".join(alone[:6]) + ",", ", ".join(alone[6:])]
    more += [f"{group}: {', '.join(_members(group))}" for group in GROUPS]
    return "\n".join(
        [
            _SUMMARY.format(program=program),
            "",
            "commands:",
            *_rows(_WEEKLY),
            "",
            "more:",
            *(f"  {line}" for line in more),
            "",
            _MORE.format(program=program, entry=json.dumps(host_entry())),
        ]
    )


def _members(group: str) -> list[str]:
    """The second words of a group's commands."""
    return [name.split()[1] for name in COMMANDS if name.startswith(f"{group} ")]


def _rows(names: Iterable[str]) -> list[str]:
    width = max(map(len, names := list(names)))
    return [f"  {name:{width}}  {COMMANDS[name].help}" for name in names]


def find_command(argv: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The command that was typed, by its name of today, and the words after it."""
    first, *rest = argv
    if rest and f"{first} {rest[0]}" in COMMANDS:
        return f"{first} {rest[0]}", rest[1:]
    return FORMER.get(first, first), rest


def _dispatch(
    argv: Sequence[str], screen: Screen, stdin: TextIO, environ: Mapping[str, str]
) -> int:
    if not argv and stdin.isatty() and screen.is_terminal:
        from mcp_compaction.cli.console.guide import guide
        from mcp_compaction.program import typed_command

        path = environ.get("PATH")
        screen.say(guide(typed_command(path), path))
        return DONE
    name, rest = find_command(argv or ("serve",))
    if name in ("-h", "--help", "help"):
        from mcp_compaction.program import typed_command

        screen.say(help_text(typed_command(environ.get("PATH"))))
        return DONE
    if name == "--version":
        screen.say(f"mcp-compaction {_read_version()}")
        return DONE
    if name == "hook" and rest[1:2] == ["PreToolUse"]:
        from mcp_compaction.cli.bite import start

        start(rest)
    if name == "hook" and rest[:1] in (["-h"], ["--help"]):
        from mcp_compaction.cli.console.guide import hook_help

        screen.say(hook_help())
        return DONE
    if name == "hook":  # a host runs it, nobody types it
        from mcp_compaction.cli.hook import run as run_hook

        return run_hook(rest, screen, stdin, environ)
    if name in GROUPS and name not in COMMANDS and rest[:1] in ([], ["-h"], ["--help"]):
        screen.say("\n".join(_rows(one for one in COMMANDS if one.startswith(f"{name} "))))
        return DONE
    if name not in COMMANDS:
        raise InputError(_explain_unknown(name, rest))
    if name == "serve":
        # It takes stdin and stdout for the protocol first, and has an event loop of its own.
        from mcp_compaction.cli.commands.serve import start

        return start(rest, screen, stdin, environ)
    # Parsing may need pydantic and running needs asyncio: neither is loaded for the overview.
    from mcp_compaction.cli.console.invocation import invoke

    listed = COMMANDS[name]
    command = cast("CommandModule", import_module(listed.module))
    return invoke(name, command, rest, screen, stdin, environ)


def _explain_unknown(name: str, rest: Sequence[str]) -> str:
    if name.startswith("-"):
        return f"{name} stands before the command; write: mcp-compaction COMMAND {name} …"
    if name in GROUPS:
        return f"no command '{name} {rest[0]}'; there are: {', '.join(_members(name))}."
    from difflib import get_close_matches

    near = get_close_matches(name, [*COMMANDS, *FORMER], 1)
    all_there_are = f"there are: {', '.join(COMMANDS)}."
    meant = f"did you mean {FORMER.get(near[0], near[0])}?" if near else all_there_are
    return f"no command {name!r}; {meant}"


def _read_version() -> str:
    from importlib.metadata import version

    return version("mcp-compaction")


def _code_of(error: CompactionError) -> int:
    match error:
        case InputError() | SettingsError():
            return BAD_INPUT
        case StoreError():
            return STORE_UNUSABLE
        case _:
            return REFUSED


def _describe_unexpected(error: Exception, argv: Sequence[str], environ: Mapping[str, str]) -> str:
    if environ.get("MCP_COMPACTION_DEBUG") == "1":
        from traceback import format_exception

        return "".join(format_exception(error)).rstrip()
    from platform import platform, python_version

    return (
        f"mcp-compaction: unexpected {type(error).__name__}: {error}\n"
        f"  in: mcp-compaction {argv[0] if argv else ''}, version {_read_version()}, "
        f"Python {python_version()}, {platform(terse=True)}\n"
        "  Please report these lines; MCP_COMPACTION_DEBUG=1 shows where it came from."
    )


def _let_go(stdout: TextIO) -> None:
    """Redirect a stream whose reader is gone to nowhere, or Python complains when it exits."""
    try:
        end = stdout.fileno()
    except OSError:
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, end)
    os.close(nowhere)

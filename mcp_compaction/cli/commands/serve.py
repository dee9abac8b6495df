"""The command that a host runs: `mcp-compaction serve`, or the program without arguments.

Only the standard library is imported before stdin and stdout are claimed for the protocol.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO, cast

from mcp_compaction.cli.console.screen import Screen
from mcp_compaction.lexicon import read_hooked
from mcp_compaction.program import typed_command
from mcp_compaction.server.front import read_front
from mcp_compaction.server.wire import Wire, claim
from mcp_compaction.settings_file import PREFIX, VIEWS, has_settings

if TYPE_CHECKING:
    from mcp_compaction.cli.console.invocation import CommandModule, Invocation
    from mcp_compaction.settings import Settings

DESCRIPTION = """\
Serve the tools to a host over MCP: on stdin and stdout, or over HTTP to this machine.
It says nothing but the protocol, so there is no --json; what it has to tell is on stderr.
Changes: what the host's agent asks it to."""
EXAMPLES = (
    "serve",
    "serve --tools core",
    "serve --http --port 8765",
    "serve --http --host 0.0.0.0 --allow-remote --allowed-host box.lan",
)

_PATIENCE = 1.5  # seconds
_NOT_ON_STDIO = frozenset({"-h", "--help", "--http"})
_HINT = (
    "mcp-compaction: serving on stdin and stdout, for a host to start; Ctrl-D ends it. "
    "To look around: "
)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--tools",
        choices=("core", "all"),
        default="all",
        help="core: compress, pin, recall and stats alone; all: all seven (default)",
    )
    parser.add_argument(
        "--project",
        metavar="PATH",
        help="the project (default: MCP_COMPACTION_PROJECT, else what the host says, else the "
        "git top of this folder)",
    )
    parser.add_argument("--home", metavar="DIR", help="the folder of the store")
    parser.add_argument("--preset", metavar="NAME", help="the preset of policy settings")
    _add_http(parser)


def _add_http(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("over HTTP")
    group.add_argument("--http", action="store_true", help="serve over streamable HTTP")
    group.add_argument(
        "--host", metavar="ADDRESS", default="127.0.0.1", help="listen there (default: 127.0.0.1)"
    )
    group.add_argument(
        "--port", metavar="N", type=int, default=8765, help="on this port (default: 8765)"
    )
    group.add_argument(
        "--allow-remote", action="store_true", help="let other machines in; needs --allowed-host"
    )
    group.add_argument(
        "--allowed-host",
        metavar="NAME",
        action="append",
        default=[],
        help="a name clients may call it by; may be given several times",
    )
    group.add_argument(
        "--tls-front",
        metavar="URL",
        default="",
        help="where TLS in front of it is reached; other machines need it for a team's store",
    )


def start(argv: Sequence[str], screen: Screen, stdin: TextIO, environ: Mapping[str, str]) -> int:
    """Serve as asked until the host leaves; on stdio the claim comes before all else."""
    program = typed_command(environ.get("PATH"))
    wire = None if _NOT_ON_STDIO.intersection(argv) else _claim_wire(stdin, program)
    from mcp_compaction.cli.console.invocation import Invocation, parser_of

    parser = parser_of("serve", cast("CommandModule", sys.modules[__name__]), program)
    if {"-h", "--help"}.intersection(argv):
        screen.say(parser.format_help().rstrip())
        return 0
    call = Invocation(parser.parse_args(argv), screen, stdin, environ)
    if wire is None:
        return _serve_over_http(call, *_settings_and_project_of(call))
    return _serve_over_stdio(wire, call)


def _claim_wire(stdin: TextIO, program: str) -> Wire:
    if stdin.isatty():
        Screen(sys.stderr, os.environ).say(f"{_HINT}{program} --help")
    return claim()


def _settings_and_project_of(call: Invocation) -> tuple[Settings, str]:
    from mcp_compaction.cli.console.opening import project_of, settings_of
    from mcp_compaction.hosts.known import project_of_host

    settings = settings_of(call)
    if not call.args.project and not settings.project:
        call.args.project = project_of_host(call.environ)
    return settings, project_of(call, settings)


def _serve_over_stdio(wire: Wire, call: Invocation) -> int:
    """Answer what is asked first; load the SDK once more is asked, or for a plugin without that."""
    only_core = call.args.tools == "core"
    is_set = call.args.preset or has_settings(call.environ)
    wish = _wish_of(call) if is_set else None
    by_agent = wish is None or wish.settings.policy.agent_controlled
    front = read_front(
        only_core,
        by_agent,
        wish.fault if wish else "",
        (lambda: True) if wish else partial(_has_pins, call),
        _quiet_events(call, has_previews=wish is not None),
    )
    wire.open(front)
    if not wire.wait_for_work(_patience(call)):
        return 0
    from mcp_compaction.server.app import build_server
    from mcp_compaction.server.stdio import serve_stdio

    settings, project, fault = wish or _wish_of(call)
    build = partial(build_server, settings, project, call.environ, only_core=only_core, fault=fault)
    return serve_stdio(wire, build)


def _patience(call: Invocation) -> float | None:
    """The seconds of silence after which the SDK is loaded all the same, for a plugin; None: not
    before it is needed. A short run of a host is over by then, a longer one asks its model."""
    if not call.environ.get(VIEWS):
        return None
    return _PATIENCE if _events_of_host(call) else 0.0


def _quiet_events(call: Invocation, *, has_previews: bool) -> Collection[str]:
    """The events of this host whose hooks hear nothing while the SDK is not there: the command at
    its chats' start shows the pins, and the one at their end records."""
    heard = {"prompt", "work", "task", "rest", *(() if has_previews else ("result",))}
    hooks = _events_of_host(call)
    return {hook["event"] for hook in hooks if hook["way"] == "tool" and hook["moment"] in heard}


def _events_of_host(call: Invocation) -> list[dict[str, str]]:
    """The hooks of the host that has started this server, where it says for which chat."""
    for host in read_hooked().values():
        if host["events"].get("session_variable", "") in call.environ:
            return host["events"]["hook"]
    return []


def _has_pins(call: Invocation) -> bool:
    """Whether a new chat of the project would be told of pins; yes where that cannot be known."""
    from mcp_compaction.errors import CompactionError
    from mcp_compaction.home import default_home
    from mcp_compaction.hosts.known import project_of_host
    from mcp_compaction.projects import find_project
    from mcp_compaction.store.listing import list_chat_pins

    asked = call.args.project or call.environ.get(f"{PREFIX}PROJECT")
    home = Path(call.args.home).expanduser() if call.args.home else default_home(call.environ)
    try:
        project = find_project(asked or project_of_host(call.environ))
        return list_chat_pins(home, project) != []
    except (CompactionError, OSError):
        return True


class _Wish(NamedTuple):
    """What the user wants; the fault: what is wrong with it, so that nothing is done."""

    settings: Settings
    project: str
    fault: str = ""


def _wish_of(call: Invocation) -> _Wish:
    """The user's wish, also where it is at fault: a host would remember a server that ends."""
    from mcp_compaction.errors import SettingsError
    from mcp_compaction.projects import find_project
    from mcp_compaction.settings import settings_without_effect

    try:
        return _Wish(*_settings_and_project_of(call))
    except SettingsError as error:
        Screen(sys.stderr, call.environ).say(f"mcp-compaction: {error}")
        settings = settings_without_effect(call.environ)
        return _Wish(settings, find_project(call.args.project), str(error))


def _serve_over_http(call: Invocation, settings: Settings, project: str) -> int:
    from mcp_compaction.server.http import ServerAddress, serve_http
    from mcp_compaction.wiring import team_address

    args = call.args
    door = ServerAddress(args.host, args.port, tuple(args.allowed_host), args.allow_remote)
    only_core = args.tools == "core"
    if settings.store is not None:
        team_address(settings)  # which says what is missing
        from mcp_compaction.server.team import serve_team

        front: str = args.tls_front
        return serve_team(settings, call.environ, door, tls_front=front, only_core=only_core)
    return serve_http(settings, project, call.environ, door, only_core=only_core)

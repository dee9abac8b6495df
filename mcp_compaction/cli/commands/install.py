"""The command that plugs us into a host: `mcp-compaction install HOST`."""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import replace

from mcp_compaction.cli.console.invocation import Invocation
from mcp_compaction.cli.console.setup import (
    add_host,
    changes_as_json,
    describe_installed,
    describe_scope,
    find_beside,
    host_of,
    place_of,
    say_diffs,
    scope_of,
    shorten,
)
from mcp_compaction.cli.console.transcripts import environ_of_hosts
from mcp_compaction.core.wording import plural
from mcp_compaction.errors import InputError
from mcp_compaction.hosts.claude_code.surroundings import look_around
from mcp_compaction.hosts.hook_notes import MODULE, forget_run
from mcp_compaction.hosts.setup.edits import put_in
from mcp_compaction.hosts.setup.entries import HostSetup, Scope, entries_for, known_setups
from mcp_compaction.hosts.setup.installing import (
    Change,
    SetupFolders,
    backup_path,
    find_installed,
    install,
    launch_for,
    plan_install,
    plugin_copy,
)
from mcp_compaction.hosts.transcripts.claude_code import NAME as CLAUDE_CODE
from mcp_compaction.program import as_typed
from mcp_compaction.settings_file import TOKEN
from mcp_compaction.store.outbox import Outbox, check_server

DESCRIPTION = """\
Plug this program into a host: its server, its hooks, its plugin where there is one, and the
permissions for its four main tools. The plugins of Claude Code and opencode run inside the host.
Run again, it brings an older setup up to date. Undo it with: mcp-compaction uninstall HOST
Changes: adds our entries to the host's own files; all else in them stays byte for byte, and a copy
of each is kept in the store's folder. A file that cannot be read is left alone."""
EXAMPLES = (
    "install claude-code",
    "install codex --dry-run",
    "install opencode --project ~/shop",
    "install cursor --print",
    "install claude-code --server https://box.lan",
    "install --list",
)

_INSIDE = "the plugin is code that runs inside {title}, and {title} does not ask you about it"
_BY_HAND = "to add the lines by hand: mcp-compaction install {name} --print"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add_host(parser)
    parser.add_argument("--print", action="store_true", help="print the lines, change nothing")
    parser.add_argument(
        "--server",
        metavar="URL",
        help="send the store on to a team's server too, and show that to the host (none: no more)",
    )
    parser.add_argument("--list", action="store_true", help="list the hosts and what is installed")


async def run(call: Invocation) -> int:
    """Set a host up, or say how it would be."""
    place = place_of(call)
    if call.args.list:
        return _list_hosts(call, place)
    host, scope = host_of(call), scope_of(call)
    place = replace(place, server=_server_of(call, host, place))
    if call.args.print:
        return _print_lines(call, host, scope, place)
    if not host.is_edited:
        raise InputError(
            f"{host.title}: its files are not edited by this program; "
            + _BY_HAND.format(name=host.name)
        )
    if scope == "project" and find_installed(host, "user", place) is not None:
        raise InputError(
            f"{host.title} is already set up for all projects; a second setup would run each hook "
            f"twice. First: mcp-compaction uninstall {host.name}"
        )
    try:
        changes = plan_install(host, scope, place)
    except InputError as error:
        advice = _BY_HAND.format(name=host.name)
        raise InputError(f"{error}. Nothing was changed; {advice}") from None
    return _install(call, host, scope, place, changes)


def _server_of(call: Invocation, host: HostSetup, place: SetupFolders) -> str:
    """The team's server that is meant: the one typed, else the one named before."""
    typed: str | None = call.args.server
    if typed is None or host.team is None:
        if typed not in (None, "none"):
            raise InputError(f"{host.title} was not tried with a team's server; see docs/team.md")
        return place.server if typed is None else ""
    return "" if typed == "none" else check_server(typed)


def _install(
    call: Invocation, host: HostSetup, scope: Scope, place: SetupFolders, changes: list[Change]
) -> int:
    has_changes = any(change.is_one for change in changes)
    if call.args.server is not None and not call.args.dry_run:
        only = str(place.project) if scope == "project" else None
        Outbox(place.home).point(place.server or None, only)
    if has_changes and not call.args.dry_run:
        install(host, scope, place, changes)
        for name in (host.name, MODULE.format(host.name)):
            forget_run(call.environ, name)
    if not call.args.dry_run:
        environ_of_hosts(call, place.home)  # which notes the folders that a variable moves
    if call.args.json:
        told = {"host": host.name, "scope": scope, "is_done": not call.args.dry_run}
        call.screen.write_json(
            {
                **told,
                "files": changes_as_json(changes),
                "runs_inside": bool(host.plugin),
                "next": host.steps(scope),
            }
        )
        return 0
    if call.args.dry_run:
        say_diffs(call, changes)
        call.screen.say("nothing was changed" if has_changes else "nothing to change")
        return 0
    _say_done(call, host, scope, place, changes)
    return 0


def _say_done(
    call: Invocation, host: HostSetup, scope: Scope, place: SetupFolders, changes: list[Change]
) -> None:
    screen = call.screen
    screen.say(screen.bold(describe_scope(host, scope, place)))
    for change in changes:
        if change.is_copy:
            continue
        what = "written" if change.is_one else "already so"
        screen.say(f"  {shorten(change.path, call.environ)}: {what}")
        copy = backup_path(place.home, host.name, change.path)
        if change.is_one and copy.exists():
            screen.say(screen.dim(f"    as it was: {shorten(copy, call.environ)}"))
    copies = [change for change in changes if change.is_copy]
    if copies:
        what = "written" if any(change.is_one for change in copies) else "already so"
        where = shorten(plugin_copy(host, scope, place), call.environ)
        screen.say(f"  {where}: {what}, the plugin in {plural(len(copies), 'file')}")
    if host.plugin:
        screen.say(f"note: {_INSIDE.format(title=host.title)}")
    if host.name == CLAUDE_CODE:
        _say_around(call, place)
    if place.server:
        screen.say(f"what is recorded here goes to {place.server} too, as far as it is not there")
        screen.say(f"next: set {TOKEN} where {host.title} is started; it is written nowhere")
    for step in host.steps(scope):
        screen.say(f"next: {step}")
    screen.say(call.complete("then see whether all is well: mcp-compaction doctor"))
    where = f" --project {as_typed([str(place.project)])}" if scope == "project" else ""
    screen.say(call.complete(f"to undo it: mcp-compaction uninstall {host.name}{where}"))


def _say_around(call: Invocation, place: SetupFolders) -> None:
    around = look_around(place.environ, place.project)
    if why := around.why_no_module():
        call.screen.say(f"note: no module runs: {why}")
    for note in find_beside(around, has_setup=True):
        call.screen.say(call.complete(f"note: {note}"))


def _print_lines(call: Invocation, host: HostSetup, scope: Scope, place: SetupFolders) -> int:
    """Print what a person would add to files that are empty."""
    files = host.files(scope) or host.file
    lines: dict[str, str] = {}
    for file in files:
        path = str(file.find(call.environ, place.project))
        wanted = list(entries_for(host, file.holds, launch_for(host, scope, place)))
        lines[path] = put_in(host, file.holds, wanted, "", path)
    if call.args.json:
        call.screen.write_json({"host": host.name, "is_run": host.is_edited, "files": lines})
        return 0
    if not host.is_edited:
        call.screen.say(f"{host.title}: to be pasted by hand, as {host.source} has it")
    if host.plugin:
        source, copy = str(host.plugin_source), str(plugin_copy(host, scope, place))
        call.screen.say(f"first copy the plugin, {source}, to {copy}")
        for name in host.not_copied:
            call.screen.say(f"  without {name}: the server is in the lines below")
        call.screen.say(f"note: {_INSIDE.format(title=host.title)}")
    for path, text in lines.items():
        call.screen.say(call.screen.bold(f"{path}:"))
        call.screen.say(text.rstrip("\n"))
    for step in host.steps(scope):
        call.screen.say(f"next: {step}")
    return 0


def _list_hosts(call: Invocation, place: SetupFolders) -> int:
    rows: list[tuple[str, ...]] = []
    told: list[dict[str, object]] = []
    for host in known_setups():
        where = [_describe_place(call, host, scope, place) for scope in ("user", "project")]
        state = "; ".join(filter(None, where)) or (
            "not installed" if host.is_edited else "lines to paste, with --print"
        )
        rows.append((host.name, host.title, state))
        told.append({"host": host.name, "is_edited": host.is_edited, "state": state})
    if call.args.json:
        call.screen.write_json(told)
        return 0
    call.screen.say_rows(rows)
    return 0


def _describe_place(call: Invocation, host: HostSetup, scope: Scope, place: SetupFolders) -> str:
    try:
        found = find_installed(host, scope, place)
    except InputError as error:
        return str(error)
    if found is None:
        return ""
    state = "" if found.is_current else ", out of date"
    return f"{describe_installed(found, call.environ)}{state}"

"""What the commands on hosts share: the host that is meant, and where its files are."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path

from mcp_compaction.cli.console.arguments import add_store
from mcp_compaction.cli.console.invocation import Invocation
from mcp_compaction.cli.console.opening import settings_of
from mcp_compaction.core.wording import plural
from mcp_compaction.errors import InputError
from mcp_compaction.hosts.setup.files import Change
from mcp_compaction.hosts.setup.hosts import HostSetup, Scope, find_host, known_setups
from mcp_compaction.hosts.setup.installing import Installed, SetupFolders
from mcp_compaction.projects import find_folder
from mcp_compaction.store.outbox import Outbox


def add_host(parser: ArgumentParser) -> None:
    """Declare the host, the scope, and what both commands share."""
    names = ", ".join(host.name for host in known_setups())
    parser.add_argument("host", metavar="HOST", nargs="?", help=f"one of {names}")
    parser.add_argument(
        "--project",
        metavar="PATH",
        nargs="?",
        const="",
        help="only for one project: PATH, else the git top of this folder (default: for all)",
    )
    parser.add_argument("--dry-run", action="store_true", help="show the changes, make none")
    add_store(parser)


def host_of(call: Invocation) -> HostSetup:
    """The host that was typed."""
    name: str | None = call.args.host
    if name is None:
        names = ", ".join(host.name for host in known_setups())
        raise InputError(f"name a host: {names}.")
    return find_host(name)


def scope_of(call: Invocation) -> Scope:
    """The scope that was typed."""
    return "user" if call.args.project is None else "project"


def place_of(call: Invocation) -> SetupFolders:
    """Where the files of hosts and the copies of them are looked for."""
    typed: str | None = call.args.project
    settings = settings_of(call)
    target = Outbox(settings.home).read()
    named = call.args.home is not None or bool(call.environ.get("MCP_COMPACTION_HOME"))
    return SetupFolders(
        environ=call.environ,
        project=Path(find_folder(typed or None)),
        home=settings.home,
        named_home=str(settings.home.absolute()) if named else "",
        server="" if target is None else target.server,
    )


def describe_scope(host: HostSetup, scope: Scope, place: SetupFolders) -> str:
    """The host and the projects that are meant."""
    where = "all projects" if scope == "user" else str(place.project)
    return f"{host.title}, for {where}"


def describe_installed(installed: Installed, environ: Mapping[str, str]) -> str:
    """What stands in the files of a host."""
    parts = ["the server"] if installed.has_server else []
    parts += [plural(installed.hooks, "hook")] if installed.hooks else []
    where = ", ".join(shorten(path, environ) for path in installed.paths)
    return f"{' and '.join(parts) or 'permissions'} in {where}"


def shorten(path: Path, environ: Mapping[str, str]) -> str:
    """A path as a person writes it."""
    home = environ.get("HOME", "")
    is_below = bool(home) and path.is_relative_to(home)
    return str(Path("~") / path.relative_to(home)) if is_below else str(path)


def say_diffs(call: Invocation, changes: list[Change]) -> None:
    """Print what would change."""
    for change in changes:
        if change.is_one:
            call.screen.say(change.diff().rstrip("\n"))


def changes_as_json(changes: list[Change]) -> list[dict[str, object]]:
    """The changes for programs."""
    return [
        {"path": str(change.path), "is_changed": change.is_one, "diff": change.diff()}
        for change in changes
    ]

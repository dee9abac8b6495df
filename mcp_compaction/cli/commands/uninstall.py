"""The command that unplugs us from a host: `mcp-compaction uninstall HOST`."""

from __future__ import annotations

from argparse import ArgumentParser

from mcp_compaction.cli.console.invocation import Invocation
from mcp_compaction.cli.console.setup import (
    add_host,
    changes_as_json,
    describe_scope,
    host_of,
    place_of,
    say_diffs,
    scope_of,
    shorten,
)
from mcp_compaction.errors import InputError
from mcp_compaction.hosts.setup.installing import plan_uninstall, plugin_copy, uninstall

DESCRIPTION = """\
Take this program out of a host again: server, hooks, plugin and permissions.
Changes: removes our entries from the host's own files; what others wrote there, before or since,
stays byte for byte. What was recorded stays in the store."""
EXAMPLES = ("uninstall claude-code", "uninstall codex --dry-run", "uninstall opencode --project")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add_host(parser)


async def run(call: Invocation) -> int:
    """Take what is ours out of a host's files."""
    host, scope, place = host_of(call), scope_of(call), place_of(call)
    try:
        changes = plan_uninstall(host, scope, place)
    except InputError as error:
        raise InputError(f"{error}. Nothing was changed; mend the file and run again.") from None
    has_changes = any(change.is_one for change in changes)
    if has_changes and not call.args.dry_run:
        uninstall(host, scope, place, changes)
    screen = call.screen
    if call.args.json:
        told = {"host": host.name, "scope": scope, "is_done": not call.args.dry_run}
        screen.write_json({**told, "files": changes_as_json(changes)})
    elif call.args.dry_run:
        say_diffs(call, changes)
        screen.say("nothing was changed" if has_changes else "nothing to change")
    elif not has_changes:
        screen.say(f"{describe_scope(host, scope, place)}: nothing of ours was there")
    else:
        screen.say(screen.bold(describe_scope(host, scope, place)))
        for change in changes:
            if change.is_copy or (change.before is None and change.after is None):
                continue
            what = "removed" if change.after is None else "our entries removed"
            what = what if change.is_one else "as it was"
            screen.say(f"  {shorten(change.path, call.environ)}: {what}")
        if any(change.is_copy for change in changes):
            where = shorten(plugin_copy(host, scope, place), call.environ)
            screen.say(f"  {where}: removed")
    return 0

"""The command that makes the tables of a team's store: `mcp-compaction team migrate`."""

from __future__ import annotations

from argparse import ArgumentParser

from mcp_compaction.cli.console.invocation import Invocation
from mcp_compaction.cli.console.opening import settings_of
from mcp_compaction.wiring import team_address

DESCRIPTION = """\
Make the tables of a team's store, or bring them up to date, as the role that owns them; and let the
role of the servers use their rows. The store is named by MCP_COMPACTION_STORE.
Changes: the tables there, nothing that is in them; no file, whatever --home says elsewhere."""
EXAMPLES = ("team migrate", "team migrate --grant-to compaction_server")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--grant-to",
        metavar="ROLE",
        help="the role of the servers, made where it is not there: it owns no table",
    )
    parser.add_argument("--json", action="store_true", help="write one JSON document for programs")
    parser.set_defaults(home=None)


async def run(call: Invocation) -> int:
    """Bring the tables up to date."""
    address = team_address(settings_of(call))
    from mcp_compaction.store.postgres.database import migrate, shown_address
    from mcp_compaction.store.postgres.schema import SCHEMA_VERSION

    await migrate(address, call.args.grant_to)
    if call.args.json:
        call.screen.write_json({"store": shown_address(address), "schema": SCHEMA_VERSION})
        return 0
    call.screen.say(f"{shown_address(address)} is of schema {SCHEMA_VERSION}")
    if call.args.grant_to:
        call.screen.say(f"{call.args.grant_to} may use its rows, each owner's by itself")
    return 0

"""The command for who may use a team's store: `mcp-compaction team token`."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence

from mcp_compaction.cli.console.invocation import Invocation
from mcp_compaction.cli.console.opening import settings_of
from mcp_compaction.errors import InputError
from mcp_compaction.wiring import SystemClock, team_address

DESCRIPTION = """\
Say who may use a team's store over HTTP. A token opens the rows of one owner, with
--project those of one project only; without it, calls mean the project "team". It is shown once,
and only its hash is kept. The store is named by MCP_COMPACTION_STORE.
Changes: the list of tokens in that store; no file, whatever --home says elsewhere."""
EXAMPLES = (
    "team token add ann-laptop --owner ann --project shop",
    "team token list",
    "team token revoke ann-laptop",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("action", choices=("add", "list", "revoke"), help="what to do")
    parser.add_argument("name", nargs="?", metavar="NAME", help="the name of the token")
    parser.add_argument("--owner", metavar="NAME", help="whose rows it opens (default: its name)")
    parser.add_argument(
        "--project", metavar="NAME", default="", help="the one project it reaches (default: all)"
    )
    parser.add_argument("--json", action="store_true", help="write one JSON document for programs")
    parser.set_defaults(home=None)


async def run(call: Invocation) -> int:
    """Do what was asked with the list of tokens."""
    from mcp_compaction.store.postgres import database, tokens

    args, now = call.args, SystemClock().now()
    if (args.name is None) != (args.action == "list"):
        raise InputError(f"token {args.action} takes {'no' if args.name else 'a'} name.")
    async with database.opened(team_address(settings_of(call))) as team:
        if args.action == "list":
            return _show(call, await team.read("", tokens.list_tokens))
        if args.action == "revoke":
            await team.write("", lambda tx: tokens.revoke_token(tx, args.name, now))
            return _say(call, {"revoked": args.name}, f"{args.name} opens nothing any more")
        identity = tokens.TokenIdentity(args.owner or args.name, args.project)
        token = await team.write("", lambda tx: tokens.add_token(tx, args.name, identity, now))
    text = f"{token}\nit is shown this once; it opens the rows of {identity.owner}"
    text += f", {_reach(args.project)}"
    return _say(call, {"token": token, "owner": identity.owner, "project": args.project}, text)


def _say(call: Invocation, value: dict[str, str], text: str) -> int:
    if call.args.json:
        call.screen.write_json(value)
    else:
        call.screen.say(text)
    return 0


def _reach(project: str | None) -> str:
    return f"project {project}" if project else "all projects"


def _show(call: Invocation, listed: Sequence[tuple[str | None, ...]]) -> int:
    names = ("name", "owner", "project", "made", "revoked")
    if call.args.json:
        call.screen.write_json([dict(zip(names, line, strict=True)) for line in listed])
        return 0
    for name, owner, project, made, revoked in listed:
        state = f"revoked {(revoked or '')[:10]}" if revoked else f"since {(made or '')[:10]}"
        call.screen.say(f"{name}: owner {owner}, {_reach(project)}, {state}")
    if not listed:
        call.screen.say("nobody has a token; make one: mcp-compaction team token add NAME")
    return 0

"""The command that makes a window smaller: `mcp-compaction compress`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from mcp_compaction import compactor
from mcp_compaction.cli.console.invocation import Invocation, add_place, add_session
from mcp_compaction.cli.console.opening import OpenedPlace, open_place, tell_outcome
from mcp_compaction.cli.console.options import add_policy, add_tool, typed_as
from mcp_compaction.cli.console.speaker import read_text
from mcp_compaction.compactor.results import make_ask
from mcp_compaction.errors import InputError
from mcp_compaction.model import Ask, SessionInfo
from mcp_compaction.tools.arguments import CompressContext

DESCRIPTION = """\
Make what the model sees smaller: old steps become checked digests, nothing is lost.
Changes: the session's view; `restore` takes it back, and the log stays as it is."""
EXAMPLES = (
    "compress --session tax-2026 --dry-run",
    'compress --session tax-2026 --reason "tests are green" --focus "the rate limiter"',
    "compress --session tax-2026 --span m12..m40 --strategy archive",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    reason, percent = "asked by the user", "percent of the window: 1 to below 100"
    add_tool(
        parser,
        CompressContext,
        reason={"default": reason, "help": f'why now, for the receipt (default: "{reason}")'},
        digest={"metavar": "FILE", "help": "a digest of your own, under its headings; - for stdin"},
        span={"metavar": "M..M"},
        target_percent={"metavar": "P", "help": f"how far down to go, in {percent}"},
    )
    add_session(parser)
    add_place(parser)
    add_policy(parser)


async def run(call: Invocation) -> int:
    """Compress as asked, and print the receipt or why not."""
    ask = _ask(call.args, call)
    async with open_place(call, makes_store=_may_begin(ask)) as place:
        info, is_new = await _find_or_open(place, ask)
        outcome = await compactor.compress(place.workspace, info, ask)
    code = tell_outcome(call, outcome, info)
    if is_new and not call.args.json:
        call.screen.say(f"in the new session {info.name}")
    return code


def _ask(args: Namespace, call: Invocation) -> Ask:
    percent: float | None = args.target_percent
    if percent is not None and 0 < percent < 1:
        meant = f"{100 * percent:g}"
        is_target = 1 <= float(meant) < 100
        advice = f"did you mean --target-percent {meant}?" if is_target else "pass 1 or more."
        raise InputError(f"{percent:g} is less than one percent of the window; {advice}")
    digest = None if args.digest is None else read_text(args.digest, call.stdin)
    return make_ask(**dict(typed_as(CompressContext, args, digest=digest)))


def _may_begin(ask: Ask) -> bool:
    """Whether a session may begin with it: with a digest that is to be kept."""
    return ask.digest is not None and not ask.dry_run


async def _find_or_open(place: OpenedPlace, ask: Ask) -> tuple[SessionInfo, bool]:
    if _may_begin(ask) and (
        place.name or not await compactor.list_sessions(place.workspace, place.project, 1)
    ):
        return await place.open_session()
    return await place.session(), False

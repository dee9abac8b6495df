"""The command that makes a window smaller: `mcp-compaction compress`."""

from __future__ import annotations

from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from typing import get_args

from mcp_compaction.cli.console.arguments import add_place, add_session
from mcp_compaction.cli.console.invocation import Invocation
from mcp_compaction.cli.console.opening import OpenedPlace, open_place
from mcp_compaction.cli.console.outcome import tell_outcome
from mcp_compaction.cli.console.policy_flags import add_policy
from mcp_compaction.cli.console.reading import read_text
from mcp_compaction.core.text.refs import parse_span
from mcp_compaction.errors import InputError
from mcp_compaction.model import Ask, SessionInfo, Strategy

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
    parser.add_argument(
        "--reason",
        metavar="TEXT",
        default="asked by the user",
        help='why now, for the receipt (default: "asked by the user")',
    )
    parser.add_argument("--focus", metavar="TEXT", help="what the digest should say most about")
    parser.add_argument(
        "--strategy",
        choices=get_args(Strategy),
        default="summarize",
        help="summarize: digests with prose (default); archive: index and refs only",
    )
    parser.add_argument(
        "--preserve-markers",
        action=BooleanOptionalAction,
        default=True,
        help="keep messages with stated doubts word for word (default); --no-… does not",
    )
    parser.add_argument("--span", metavar="M..M", help="only these messages, as m12..m40")
    parser.add_argument(
        "--target-percent",
        metavar="P",
        type=float,
        help="how far down to go, in percent of the window: 1 to below 100",
    )
    parser.add_argument(
        "--digest", metavar="FILE", help="a digest of your own, under its headings; - for stdin"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what it would do, and stop")
    parser.add_argument(
        "--force", action="store_true", help="even where it hardly pays; checks stay on"
    )
    add_session(parser)
    add_place(parser)
    add_policy(parser)


async def run(call: Invocation) -> int:
    """Compress as asked, and print the receipt or why not."""
    ask = _ask(call.args, call)
    async with open_place(call, makes_store=_may_begin(ask)) as place:
        info, is_new = await _find_or_open(place, ask)
        outcome = await place.compactor.compress(info, ask)
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
    return Ask(
        reason=args.reason,
        digest=None if args.digest is None else read_text(args.digest, call.stdin),
        focus=args.focus,
        strategy=args.strategy,
        preserve_markers=args.preserve_markers,
        span=None if args.span is None else parse_span(args.span),
        target_percent=percent,
        dry_run=args.dry_run,
        force=args.force,
    )


def _may_begin(ask: Ask) -> bool:
    """Whether a session may begin with it: with a digest that will not be refused as blank."""
    return bool(ask.digest and ask.digest.strip() and ask.reason.strip() and not ask.dry_run)


async def _find_or_open(place: OpenedPlace, ask: Ask) -> tuple[SessionInfo, bool]:
    if _may_begin(ask) and (place.name or not await place.compactor.sessions(place.project, 1)):
        return await place.open_session()
    return await place.session(), False

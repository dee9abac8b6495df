"""The command that takes in what hosts have written: `mcp-compaction import`."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from pathlib import Path

from mcp_compaction.cli.console.invocation import Invocation, add_place
from mcp_compaction.cli.console.opening import open_place, settings_of
from mcp_compaction.cli.console.transcripts import (
    Intake,
    describe_intake,
    environ_of_hosts,
    intake_as_json,
    take_in,
)
from mcp_compaction.core.wording import plural
from mcp_compaction.errors import InputError
from mcp_compaction.hosts.finding import transcripts_at, transcripts_of_hosts
from mcp_compaction.hosts.folders import HostFolder, known_hosts
from mcp_compaction.hosts.transcripts.pieces import Transcript

DESCRIPTION = f"""\
Take in the chats that hosts have written to their own files, which are:
{", ".join(host.title for host in known_hosts())}; and exports of this program.
Run again, it reads only what is new.
Changes: appends what is not yet known; a chat gets a session of its own, a subagent too, in the
project it worked in. The hosts' files stay as they are. What was forgotten does not come back from
the same file; it does from a copy, and where the file was read as the agent's word and now is read
as the host's.
Only your own files in a host's own folder are its word; in any other file, who said what is kept
as the agent's word: no rule in it can become the user's."""
EXAMPLES = (
    "import",
    "import claude-code",
    "import ~/.codex/sessions/2026/11",
    "import tax-2026.jsonl --project ~/tax",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    names = ", ".join(host.name for host in known_hosts())
    parser.add_argument(
        "source",
        metavar="HOST|PATH",
        nargs="?",
        help=f"a host ({names}), a file or a folder (default: all hosts)",
    )
    add_place(parser)


async def run(call: Invocation) -> int:
    """Record what is new in the transcripts that are meant."""
    transcripts, failed = _find(call)
    intake = Intake()
    if transcripts:
        async with open_place(call, makes_store=True) as place:
            intake = await take_in(call, place, transcripts)
    intake.failed += failed
    if call.args.json:
        call.screen.write_json(intake_as_json(intake))
    elif transcripts or failed:
        for line in describe_intake(call, intake):
            call.screen.say(line)
        call.screen.say(f"{plural(intake.new, 'new message')} in all")
    else:
        for line in _explain_nothing(call):
            call.screen.say(line)
    return 1 if intake.failed else 0


def _find(call: Invocation) -> tuple[list[Transcript], list[str]]:
    """The transcripts that are meant, and why a host's file could not be opened."""
    source: str | None = call.args.source
    trusted = environ_of_hosts(call, settings_of(call).home)
    hosts = _hosts_of(call)
    if not hosts:
        return _find_at(source or "", trusted), []
    return transcripts_of_hosts(hosts, call.environ, trusted)


def _hosts_of(call: Invocation) -> list[HostFolder]:
    return [host for host in known_hosts() if call.args.source in (None, host.name)]


def _explain_nothing(call: Invocation) -> Iterator[str]:
    yield f"no transcript found in the folder of {call.args.source or 'any host'}; looked in:"
    for host in _hosts_of(call):
        files = host.base_in(call.environ) / host.files[0]
        yield f"  {files} (the folder of {host.title}; set {host.variable} where it is another)"
    yield call.complete("or name a file or folder: mcp-compaction import PATH")


def _find_at(source: str, trusted: Mapping[str, str]) -> list[Transcript]:
    path = Path(source).expanduser()
    if not path.exists():
        names = ", ".join(host.name for host in known_hosts())
        raise InputError(f"{source!r} is no host and no file; name one of {names}, or a path.")
    found = transcripts_at(path, trusted)
    if not found:
        raise InputError(
            f"there is no transcript of a host in {source!r}; messages are taken by: "
            "mcp-compaction record FILE"
        )
    return found

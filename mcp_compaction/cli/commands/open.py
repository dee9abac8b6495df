"""The command that shows sessions in a browser: `mcp-compaction open`."""

from __future__ import annotations

import webbrowser
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from mcp_compaction.cli.console.invocation import Invocation, add_place, write_html
from mcp_compaction.cli.console.opening import OpenedPlace, open_place

DESCRIPTION = """\
Show the recorded sessions on one local page: the fill over time, each compaction and what each rung
freed, pins, digests whose lines lead to what was said, receipts, and a search of the archive.
The page is served to this machine only, works without a network, and needs the token that is in the
address; it follows a session while that runs. Ctrl-C ends it.
Changes: nothing, but for undo on the page, which asks twice; with --html the file that it names."""
EXAMPLES = ("open", "open tax-2026", "open tax-2026 --html session.html", "open --no-browser")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "session", metavar="SESSION", nargs="?", help="the session to begin with (default: newest)"
    )
    parser.add_argument(
        "--html", metavar="FILE", type=Path, help="write one file and serve nothing"
    )
    parser.add_argument("--port", metavar="N", type=int, default=0, help="default: any free one")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    add_place(parser)


async def run(call: Invocation) -> int:
    """Serve the page until it is interrupted, or write it."""
    async with open_place(call) as place:
        if call.args.html is not None:
            return await _write(call, place)
        return await _serve(call, place)


async def _write(call: Invocation, place: OpenedPlace) -> int:
    from mcp_compaction.viewer import write_page

    page = await write_page(place.workspace, await place.session_or_newest())
    path: Path = call.args.html
    write_html(path, page)
    call.screen.say(f"written: {path}")
    return 0


async def _serve(call: Invocation, place: OpenedPlace) -> int:
    from mcp_compaction.door import BoundedServer, open_listener
    from mcp_compaction.viewer import PageKey, build_app

    key = PageKey()
    first = f"?session={(await place.session()).id}" if call.args.session else ""
    with open_listener(call.args.port) as listener:
        port = listener.getsockname()[1]
        page = f"http://127.0.0.1:{port}/{first}"
        url = f"{page}#token={key.token}"
        if call.args.json:
            call.screen.write_json({"url": url})
        else:
            call.screen.say(f"open: {url}")
            call.screen.say(call.screen.dim("Ctrl-C ends it"))
        call.screen.flush()
        if call.screen.is_terminal and not call.args.no_browser:
            webbrowser.open(f"{page}#code={key.make_code()}")
        app = build_app(place.workspace, key, port, lambda: _audit(call))
        await BoundedServer(app).serve(sockets=[listener])
    return 0


async def _audit(call: Invocation) -> dict[str, Any]:
    """What past compactions of hosts lost, as the page shows it."""
    from mcp_compaction.audit.auditing import WantedAudit, audit_sources
    from mcp_compaction.audit.report import (
        HOW,
        headline_of,
        hosts_own,
        lines_of,
        table_of,
        total_of,
    )

    audit = await audit_sources(WantedAudit(), call.environ, lambda _, __: None)
    return {
        "headline": headline_of(audit),
        "table": table_of(total_of(hosts_own(audit))),
        "lines": list(lines_of(audit)),
        "how": list(HOW),
    }

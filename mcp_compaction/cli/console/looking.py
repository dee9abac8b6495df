"""Where a command looks that only lists rows of the store's file, if no setting says otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from mcp_compaction.cli.console.invocation import Invocation
from mcp_compaction.home import default_home
from mcp_compaction.projects import find_project
from mcp_compaction.settings_file import PREFIX, has_settings
from mcp_compaction.store.connect import store_path

MOST_SESSIONS = 200  # whose pins are listed together


class PlainPlace(NamedTuple):
    """A folder with a store in it, and the project that is meant."""

    home: Path
    project: str


def plain_place(call: Invocation) -> PlainPlace | None:
    """The place as it was typed; None where settings, a program or a first use ask for more."""
    args, environ = call.args, call.environ
    if args.json or args.preset or has_settings(environ) or environ.get(f"{PREFIX}PROJECT"):
        return None
    home = Path(args.home).expanduser().absolute() if args.home else default_home(environ)
    if not home.is_absolute() or not store_path(home).is_file():
        return None
    return PlainPlace(home, find_project(args.project))

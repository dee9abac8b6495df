"""The arguments that several commands share."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from pathlib import Path

from mcp_compaction.errors import InputError
from mcp_compaction.home import write_whole

_MOST = 2**31 - 1


def add_place(parser: ArgumentParser) -> None:
    """Declare the options for the project, the store's folder, the preset and the output."""
    parser.add_argument(
        "--project",
        metavar="PATH",
        help="the project (default: MCP_COMPACTION_PROJECT, else the git top of this folder)",
    )
    add_store(parser)


def add_store(parser: ArgumentParser) -> None:
    """Declare the options for the store's folder, the preset and the output for programs."""
    parser.add_argument("--home", metavar="DIR", help="the folder of the store")
    parser.add_argument("--preset", metavar="NAME", help="the preset of policy settings")
    parser.add_argument("--json", action="store_true", help="write one JSON document for programs")


def check_count(flag: str, count: int | None, least: int = 1, most: int = _MOST) -> None:
    """Refuse a number of things that is too small or too large to mean anything."""
    if count is not None and count < least:
        raise InputError(f"{flag} {count} is too few; pass {least:,} or more.")
    if count is not None and count > most:
        raise InputError(f"{flag} {count} is too many; pass {most:,} or fewer.")


def add_session(parser: ArgumentParser, default: str = "the only one there is") -> None:
    """Declare the option that names the session."""
    parser.add_argument(
        "--session", metavar="NAME", help=f"the name of the session (default: {default})"
    )


def write_html(path: Path, text: str) -> None:
    """Write a page that only its owner may read; a path that cannot be written is named, with the
    way out. A link to a page stays one, and what is no file, as /dev/stdout, gets the text."""
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
        else:
            write_whole(Path(os.path.realpath(path)), text)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; pass another --html.") from None

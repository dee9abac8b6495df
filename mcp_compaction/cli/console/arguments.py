"""The arguments that several commands share."""

from __future__ import annotations

from argparse import ArgumentParser


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


def add_session(parser: ArgumentParser, default: str = "the only one there is") -> None:
    """Declare the option that names the session."""
    parser.add_argument(
        "--session", metavar="NAME", help=f"the name of the session (default: {default})"
    )

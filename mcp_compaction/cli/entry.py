"""The console script: what a host runs at every call loads nothing of the other commands."""

from __future__ import annotations

import sys


def run() -> None:
    """Run what was typed."""
    if sys.argv[1:2] == ["hook"] and sys.argv[3:4] == ["PreToolUse"]:
        from mcp_compaction.cli.bite import start

        start(sys.argv[2:])
    else:
        from mcp_compaction.cli.main import run as run_command

        run_command()

"""The options with which the Claude Agent SDK, which runs Claude Code, uses this server.

Without the SDK or a key they are only printed.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mcp_compaction import errors

TASK = "Read README.md and tell me in one sentence what it is about."


def find_command() -> str:
    """The whole path of mcp-compaction: Claude Code may look for programs elsewhere."""
    beside = Path(sys.executable).with_name("mcp-compaction")
    found = str(beside) if beside.exists() else shutil.which("mcp-compaction")
    if found is None:
        raise errors.InputError("mcp-compaction is not installed; pip install mcp-compaction.")
    return found


def make_options(command: str) -> dict[str, Any]:
    """The keywords for ClaudeAgentOptions: the server, its tools, and the hook for the pins."""
    hook = {"type": "command", "command": f'"{command}" pins', "timeout": 30}
    start = {"matcher": "compact|clear|startup", "hooks": [hook]}
    return {
        "mcp_servers": {"compaction": {"type": "stdio", "command": command, "args": []}},
        "allowed_tools": ["mcp__compaction", "Read"],
        "settings": json.dumps({"hooks": {"SessionStart": [start]}}),
    }


async def run(options: dict[str, Any]) -> None:
    """Ask Claude Code, and show what it says."""
    import claude_agent_sdk as sdk  # pyright: ignore[reportMissingImports]

    known: Any = sdk
    async for message in known.query(prompt=TASK, options=known.ClaudeAgentOptions(**options)):
        print(message)


def main() -> None:
    """Run the agent where that is possible, else show the options."""
    options = make_options(find_command())
    if find_spec("claude_agent_sdk") and os.environ.get("ANTHROPIC_API_KEY"):
        asyncio.run(run(options))
    else:
        print(json.dumps(options, indent=2))


if __name__ == "__main__":
    main()

"""What is known of hosts, kind by kind: a file of `lexicon/hosts/` for each host has all of it.

Standard library only, since hooks read it, too.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from mcp_compaction.lexicon import host_names, read_host

_MOST_BYTES = 2**22  # of a file


def hosts_with(kind: str) -> dict[str, dict[str, Any]]:
    """What is known of that kind, by the names of the hosts; each has its name and title in it."""
    told = {name: read_host(name) for name in host_names()}
    return {
        name: {"name": name, "title": host["title"], **host[kind]}
        for name, host in told.items()
        if kind in host
    }


def read_file(path: Path) -> dict[str, Any]:
    """What a file of a host's says, JSON or TOML; nothing where it cannot be read."""
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES).decode("utf-8", "replace")
        if path.suffix == ".toml":
            import tomllib

            return tomllib.loads(text)
        told: object = json.loads(text)
    except (OSError, ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", told) if isinstance(told, dict) else {}

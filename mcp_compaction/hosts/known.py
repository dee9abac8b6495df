"""What is known of hosts, kind by kind: a file of `lexicon/hosts/` for each host has all of it.

Standard library only, since hooks read it, too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from mcp_compaction.home import user_folder
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


def project_of_host(environ: Mapping[str, str]) -> str | None:
    """The project as the host that runs us names it."""
    known = (host.get("project_variable", "") for host in hosts_with("events").values())
    return next(filter(None, map(environ.get, known)), None)


def is_driven(environ: Mapping[str, str]) -> bool:
    """Whether a program drives the host that runs us, so that nobody is there to be asked."""
    known = [host.get("driven", {}).items() for host in hosts_with("events").values()]
    return any(environ.get(name, "").startswith(one) for told in known for name, one in told)


def place_of_user(file: Mapping[str, Any], environ: Mapping[str, str]) -> Path:
    """The path of a file of a host below the user's home, or where a variable has moved it."""
    folder = Path(environ.get(file.get("moved_by", ""), ""))
    is_moved = folder.is_absolute()
    return folder / file["moved"] if is_moved else user_folder(environ) / file["path"]


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

"""What is known of languages, secrets, tools and hosts, as data: tables, and how they are read.

Standard library only, since hooks read them, too.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent  # importlib.resources would take a hook longer than all else
_tables: dict[str, dict[str, Any]] = {}  # by their names


def read_source(name: str) -> str:
    """The text of a file of data beside this one."""
    return (FOLDER / name).read_text(encoding="utf-8")


def read_table(name: str) -> dict[str, Any]:
    """A file of data as it is; read once."""
    if name not in _tables:
        import tomllib

        _tables[name] = tomllib.loads(read_source(name))
    return _tables[name]


def stamp_of(name: str) -> list[int]:
    """What tells a file of data from an earlier one."""
    found = (FOLDER / name).stat()
    return [found.st_size, found.st_mtime_ns]


def take_table(name: str, table: dict[str, Any]) -> None:
    """Take a file of data as it was read before: a hook has no time for TOML."""
    _tables.setdefault(name, table)


@cache
def host_names() -> tuple[str, ...]:
    """The names of the hosts of which something is known: each has a file in `hosts`."""
    return tuple(sorted(path.stem for path in (FOLDER / "hosts").glob("*.toml")))


@cache
def read_hooked() -> dict[str, dict[str, Any]]:
    """What hooks need of hosts, by their names, as `packages/write.py` has written it down: they
    have no time for TOML. Hosts whose hooks are all tools do not stand there."""
    return json.loads(read_source("hosts/hooks.json"))


def table_of(host: str) -> str:
    """The file of data of a host; lexicon/hosts/README.md has its keys."""
    return f"hosts/{host}.toml"


def read_host(host: str) -> dict[str, Any]:
    """All that is known of a host; nothing of one that has no file."""
    return read_table(table_of(host)) if host in host_names() else {}

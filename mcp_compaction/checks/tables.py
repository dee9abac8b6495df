"""The tables of `lexicon/checks.toml` and `lexicon/tools.toml`, for checks."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import NamedTuple

from mcp_compaction.lexicon import read_table
from mcp_compaction.shell import FileChange, changes_in


class Tables(NamedTuple):
    """What is known of calls; the heads of both files explain each."""

    kinds: dict[str, str]  # of tools, by their names
    changes: dict[str, list[FileChange]]  # of files, by programs
    changes_files: re.Pattern[str]
    starts: re.Pattern[str]
    is_red: re.Pattern[str]
    runs_rest: frozenset[str]
    looks_past: frozenset[str]
    finds: frozenset[str]
    pushes_all: frozenset[str]
    valued: dict[str, list[str]]
    reads: dict[str, list[str]]
    switches: dict[str, list[str]]
    runs: dict[str, list[str]]
    same_options: dict[str, dict[str, str]]


@cache
def tables() -> Tables:
    """Both tables as one."""
    tools, checks = read_table("tools.toml"), read_table("checks.toml")
    kinds = {name: kind["kind"] for kind in tools["tool"] for name in kind["names"]}
    others = {"fetches": "fetch", "lines": "run", "shows": "read", "moves": "edit"}
    for name, kind in others.items():
        kinds |= dict.fromkeys(checks[name], kind)
    return Tables(
        kinds,
        changes_in([*tools["command"], *checks["change"]]),
        re.compile(tools["changes_files"]),
        re.compile(checks["starts"]),
        re.compile(checks["is_red"]),
        frozenset(checks["runs_rest"]),
        frozenset(checks["looks_past"]),
        frozenset(checks["finds"]),
        frozenset(checks["pushes_all"]),
        checks["valued"],
        checks["reads"],
        checks["switches"],
        checks["runs"],
        checks["same_options"],
    )


@lru_cache(maxsize=64)
def kind_of(tool: str) -> str:
    """What a tool does: read, write, edit, run, fetch …; nothing where it is not known."""
    last = tool.rpartition("__")[2]
    return tables().kinds.get(re.sub(r"[\W_]", "", last).lower(), "")

"""The hosts that can be set up: their files, and what our entry in them looks like."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from mcp_compaction.errors import InputError
from mcp_compaction.model import Value

Scope = Literal["user", "project"]
Held = Literal["server", "hooks", "permissions", "plugin"]


class Server(Value):
    """The entry that has a host start the server; see the head of `hosts.toml`."""

    at: tuple[str, ...]
    entry: dict[str, Any]


class Permission(Value):
    """What a host is told about some of the tools; see the head of `hosts.toml`."""

    tools: Literal["core", "management", "hook"]
    at: tuple[str, ...]
    item: str = ""
    value: str = ""


class SetupFile(Value):
    """A file of a host; see the head of `hosts.toml`."""

    scope: Scope
    holds: tuple[Held, ...]
    path: str
    moved_by: str = ""
    moved: str = ""
    others: tuple[str, ...] = ()
    platform: str = ""

    def find(self, environ: Mapping[str, str], project: Path) -> Path:
        """The path of the file, which need not be there."""
        folder = environ.get(self.moved_by, "") if self.moved_by else ""
        if self.scope == "project":
            path = project / self.path
        elif Path(folder).is_absolute():
            path = Path(folder, self.moved)
        else:
            home = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
            path = home / self.path
        beside = [path.with_name(name) for name in self.others]
        return next((other for other in beside if other.exists()), path)


class HostSetup(Value):
    """A host that can be set up; see the head of `hosts.toml`."""

    name: str
    title: str
    is_edited: bool
    has_comments: bool
    passes: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    next_in_project: tuple[str, ...] = ()
    plugin: str = ""
    fetches: str = ""
    source: str = ""
    server: Server
    permission: tuple[Permission, ...] = ()
    file: tuple[SetupFile, ...] = Field(min_length=1)

    def steps(self, scope: Scope) -> tuple[str, ...]:
        """What the user does next."""
        return (*(self.next_in_project if scope == "project" else ()), *self.next)

    def read_plugin(self) -> str:
        """The text of the plugin; empty for a host that has none."""
        if not self.plugin:
            return ""
        return files("mcp_compaction.hosts").joinpath(self.plugin).read_text(encoding="utf-8")

    def files(self, scope: Scope, platform: str = sys.platform) -> tuple[SetupFile, ...]:
        """The files of a scope on this platform."""
        return tuple(f for f in self.file if f.scope == scope and f.platform in ("", platform))


class OwnTools(Value):
    """The names of our tools, by what a host is to do when they are called."""

    core: tuple[str, ...]
    management: tuple[str, ...]
    hook: tuple[str, ...]

    def named(self, kind: Literal["core", "management", "hook"]) -> tuple[str, ...]:
        """The tools of a kind."""
        return {"core": self.core, "management": self.management, "hook": self.hook}[kind]


def find_host(name: str) -> HostSetup:
    """The host of that name."""
    hosts = {host.name: host for host in known_setups()}
    if name not in hosts:
        raise InputError(f"{name!r} is no host that is known; there are: {', '.join(hosts)}.")
    return hosts[name]


@cache
def known_setups() -> tuple[HostSetup, ...]:
    """The hosts that can be set up."""
    return tuple(HostSetup.model_validate(entry) for entry in _read_table()["host"])


@cache
def own_tools() -> OwnTools:
    """Our tools, by what a host is to do when they are called."""
    table = _read_table()
    return OwnTools.model_validate({kind: table[kind] for kind in OwnTools.model_fields})


@cache
def _read_table() -> dict[str, Any]:
    text = files("mcp_compaction.hosts.setup").joinpath("hosts.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)

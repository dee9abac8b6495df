"""The hosts that can be set up: their files, and what our entry in them looks like."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from mcp_compaction.errors import InputError
from mcp_compaction.hosts.known import hosts_with, place_of_user
from mcp_compaction.model import Value

Scope = Literal["user", "project"]
Held = Literal["server", "hooks", "permissions", "plugin"]


class ServerEntry(Value):
    """The entry that has a host start the server; see docs/hosts.md."""

    at: tuple[str, ...]
    entry: dict[str, Any]


class Permission(Value):
    """What a host is told about some of the tools; see docs/hosts.md."""

    tools: Literal["core", "management", "hook"]
    at: tuple[str, ...]
    item: str = ""
    value: str = ""


class Plugged(Value):
    """What names a plugin to its host; see docs/hosts.md."""

    at: tuple[str, ...]
    item: str = ""
    value: Any = None


class UserFile(Value):
    """A file of a host below the user's home, which a variable may move; see docs/hosts.md."""

    path: str
    moved_by: str = ""
    moved: str = ""

    def find_of_user(self, environ: Mapping[str, str]) -> Path:
        """The path of the file, which need not be there."""
        return place_of_user(self.model_dump(), environ)


class SetupFile(UserFile):
    """A file of a host; see docs/hosts.md."""

    scope: Scope
    holds: tuple[Held, ...]
    others: tuple[str, ...] = ()
    platform: str = ""

    def find(self, environ: Mapping[str, str], project: Path) -> Path:
        """The path of the file, which need not be there."""
        path = project / self.path if self.scope == "project" else self.find_of_user(environ)
        beside = [path.with_name(name) for name in self.others]
        return next((other for other in beside if other.exists()), path)


class PluginNote(UserFile):
    """Where a host writes down a plugin by itself; see docs/hosts.md."""

    at: tuple[str, ...]


class HostSetup(Value):
    """A host that can be set up; see docs/hosts.md."""

    name: str
    title: str
    program: str = ""
    is_edited: bool
    has_comments: bool
    passes: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    next_in_project: tuple[str, ...] = ()
    plugin: str = ""
    not_copied: tuple[str, ...] = ()
    views: str = ""
    fetches: str = ""
    source: str = ""
    server: ServerEntry
    team: ServerEntry | None = None
    plugged: tuple[Plugged, ...] = ()
    note: tuple[PluginNote, ...] = ()
    permission: tuple[Permission, ...] = ()
    file: tuple[SetupFile, ...] = Field(min_length=1)

    def steps(self, scope: Scope) -> tuple[str, ...]:
        """What the user does next."""
        return (*(self.next_in_project if scope == "project" else ()), *self.next)

    @property
    def plugin_source(self) -> Traversable:
        """The plugin as it is shipped: a file, or a folder."""
        return files("mcp_compaction.hosts").joinpath(self.plugin)

    def read_plugin(self) -> dict[str, str]:
        """The texts of the plugin that are copied, by their places below the copy's; a file has
        the place ""."""
        if not self.plugin:
            return {}
        found = _list_below(self.plugin_source, "")
        return {
            place: source.read_text(encoding="utf-8")
            for place, source in found
            if place not in self.not_copied
        }

    def files(self, scope: Scope, platform: str = sys.platform) -> tuple[SetupFile, ...]:
        """The files of a scope on this platform."""
        return tuple(f for f in self.file if f.scope == scope and f.platform in ("", platform))


def _list_below(source: Traversable, place: str) -> Iterator[tuple[str, Traversable]]:
    if source.is_file():
        yield place, source
        return
    for one in source.iterdir():
        yield from _list_below(one, f"{place}/{one.name}" if place else one.name)


def find_host(name: str) -> HostSetup:
    """The host of that name."""
    hosts = {host.name: host for host in known_setups()}
    if name not in hosts:
        raise InputError(f"{name!r} is no host that is known; there are: {', '.join(hosts)}.")
    return hosts[name]


@cache
def known_setups() -> tuple[HostSetup, ...]:
    """The hosts that can be set up, those first that are known by their programs; read once."""
    known = map(HostSetup.model_validate, hosts_with("setup").values())
    return tuple(sorted(known, key=lambda host: (not host.program, not host.is_edited)))

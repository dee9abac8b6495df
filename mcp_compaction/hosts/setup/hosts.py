"""The hosts that can be set up: their files, and what our entry in them looks like."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from mcp_compaction.errors import InputError
from mcp_compaction.home import user_folder
from mcp_compaction.model import Value

Scope = Literal["user", "project"]
Held = Literal["server", "hooks", "permissions", "plugin"]


class ServerEntry(Value):
    """The entry that has a host start the server; see the head of `hosts.toml`."""

    at: tuple[str, ...]
    entry: dict[str, Any]


class Permission(Value):
    """What a host is told about some of the tools; see the head of `hosts.toml`."""

    tools: Literal["core", "management", "hook"]
    at: tuple[str, ...]
    item: str = ""
    value: str = ""


class Plugged(Value):
    """What names a plugin to its host; see the head of `hosts.toml`."""

    at: tuple[str, ...]
    item: str = ""
    value: Any = None


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
        path = project / self.path if self.scope == "project" else _find_of_user(self, environ)
        beside = [path.with_name(name) for name in self.others]
        return next((other for other in beside if other.exists()), path)


class PluginNote(Value):
    """Where a host writes down a plugin by itself; see the head of `hosts.toml`."""

    path: str
    moved_by: str
    moved: str
    at: tuple[str, ...]

    def find(self, environ: Mapping[str, str]) -> Path:
        """The path of the file, which need not be there."""
        return _find_of_user(self, environ)


def _find_of_user(file: SetupFile | PluginNote, environ: Mapping[str, str]) -> Path:
    folder = environ.get(file.moved_by, "") if file.moved_by else ""
    if Path(folder).is_absolute():
        return Path(folder, file.moved)
    return user_folder(environ) / file.path


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

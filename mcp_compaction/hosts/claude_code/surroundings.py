"""What stands in Claude Code's own files and bears on us: other plugins, switches, its version.

Only read, and never run. What cannot be read says nothing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from mcp_compaction.hosts.folders import known_hosts
from mcp_compaction.hosts.known import read_file
from mcp_compaction.hosts.transcripts.claude_code import NAME
from mcp_compaction.hosts.transcripts.pieces import value_at

SINCE: Final = (2, 1, 287)
"""The first version of the host that loads modules by default."""

_PLUGIN = "mcp-compaction"
_OURS = f"{_PLUGIN}@mcp-compaction-local"
_MANAGED = {
    "darwin": "/Library/Application Support/ClaudeCode/managed-settings.json",
    "win32": "C:/Program Files/ClaudeCode/managed-settings.json",
}
_MANAGED_ELSEWHERE = "/etc/claude-code/managed-settings.json"
_ONLY_MANAGED = ("allowManagedHooksOnly", "allowManagedModsOnly")
_COMPACTS = re.compile(r"""['"`]session\.compact['"`]""")
_VERSION = re.compile(rb'"version":"(\d+)\.(\d+)\.(\d+)')
_MOST_BYTES = 2**22
_TAIL = 2**16


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The plugins, switches and version in the files of Claude Code."""

    plugins: tuple[str, ...] = ()  # of ours that are switched on, from whatever marketplace
    compactors: tuple[str, ...] = ()  # plugins of others that compact, too
    switch: str = ""  # a setting that keeps hooks and modules out, and its file
    version: tuple[int, ...] = ()  # of the host that wrote the newest chat
    held_back: tuple[str, ...] = ()  # servers of ours that it does not start for a while
    cache: Path = Path()  # where it notes those

    @property
    def doubles(self) -> tuple[str, ...]:
        """Our plugins that `install` has not set up."""
        return tuple(one for one in self.plugins if not one.startswith(_OURS))

    def why_no_module(self) -> str:
        """Why no module of ours can run; empty where nothing speaks against it."""
        if self.version and self.version < SINCE:
            told, first = (".".join(map(str, one)) for one in (self.version, SINCE))
            return f"Claude Code {told} has no modules, which came with {first}"
        if self.switch:
            return f"{self.switch} keeps hooks and modules out"
        return (
            "" if self.plugins else f"the plugin is off (to have it: claude plugin enable {_OURS})"
        )


def look_around(environ: Mapping[str, str], project: Path) -> Surroundings:
    """What the files of Claude Code tell, for a project."""
    config = next(one for one in known_hosts() if one.name == NAME).base_in(environ)
    managed = Path(_MANAGED.get(sys.platform, _MANAGED_ELSEWHERE))
    own = (
        config / "settings.json",
        *(project / ".claude" / f"settings{n}.json" for n in ("", ".local")),
    )
    tables = {path: read_file(path) for path in (*own, managed)}
    enabled = [name for name, is_on in _merge(tables, "enabledPlugins").items() if is_on is True]
    cache = config / "mcp-needs-auth-cache.json"
    return Surroundings(
        plugins=tuple(one for one in enabled if one.partition("@")[0] == _PLUGIN),
        compactors=tuple(
            _find_workspaces(enabled, config, _merge(tables, "extraKnownMarketplaces"))
        ),
        switch=_find_switch(tables, managed),
        version=_find_version(environ),
        held_back=tuple(name for name in read_file(cache) if _is_our_server(name)),
        cache=cache,
    )


def _is_our_server(name: str) -> bool:
    return name == "compaction" or name.startswith(f"plugin:{_PLUGIN}:")


def _find_switch(tables: Mapping[Path, dict[str, Any]], managed: Path) -> str:
    """The setting that keeps hooks and modules out; of several files the last one counts."""
    told = [
        (path, table["disableAllHooks"])
        for path, table in tables.items()
        if "disableAllHooks" in table
    ]
    if told and told[-1][1] is True:
        return f"disableAllHooks in {told[-1][0]}"
    found = (key for key in _ONLY_MANAGED if _has_switch(tables[managed], key))
    return next((f"{key} in {managed}" for key in found), "")


def _has_switch(data: object, key: str) -> bool:
    if not isinstance(data, dict):
        return False
    table = cast("dict[str, object]", data)
    return table.get(key) is True or any(_has_switch(one, key) for one in table.values())


# Plugins


def _find_workspaces(
    enabled: list[str], config: Path, declared: Mapping[str, Any]
) -> Iterator[str]:
    """The plugins of others whose modules say what stands after a compaction."""
    for name in enabled:
        folder = _find_folder(name, config, declared)
        if name.partition("@")[0] != _PLUGIN and folder is not None and _compacts(folder):
            yield name
    with suppress(OSError):
        for folder in sorted((config / "skills").iterdir()):
            if _compacts(folder):
                yield f"{folder.name}@skills-dir"


def _find_folder(name: str, config: Path, declared: Mapping[str, Any]) -> Path | None:
    """The folder that a plugin is read from: the host's copy, or a marketplace's own folder."""
    plugin, _, marketplace = name.partition("@")
    noted: Any = read_file(config / "plugins/installed_plugins.json").get("plugins")
    copies: Any = value_at(noted, [name])
    for one in cast("list[Any]", copies) if isinstance(copies, list) else []:
        path = Path(str(value_at(one, ["installPath"])))
        if (path / "hooks").is_dir():
            return path
    known = read_file(config / "plugins/known_marketplaces.json").get(marketplace)
    told = value_at(declared, [marketplace, "source", "path"])
    root = Path(str(value_at(known, ["installLocation"]) or told or ""))
    offered: Any = read_file(root / ".claude-plugin/marketplace.json").get("plugins")
    for one in cast("list[Any]", offered) if isinstance(offered, list) else []:
        if value_at(one, ["name"]) == plugin and isinstance(value_at(one, ["source"]), str):
            return root / value_at(one, ["source"])
    return None


def _compacts(folder: Path) -> bool:
    modules: Any = read_file(folder / "hooks/hooks.json").get("modules")
    for name in cast("list[Any]", modules) if isinstance(modules, list) else []:
        if _COMPACTS.search(_read_text(folder / "hooks" / str(name))):
            return True
    return False


# The version


def _find_version(environ: Mapping[str, str]) -> tuple[int, ...]:
    """The version that wrote the newest chat; empty where none is told."""
    host = next(one for one in known_hosts() if one.name == NAME)
    newest: tuple[float, Path] | None = None
    for path in host.find_transcripts(environ):
        with suppress(OSError):
            at = path.stat().st_mtime
            newest = max(newest or (at, path), (at, path))
    if newest is None:
        return ()
    with suppress(OSError), newest[1].open("rb") as file:
        file.seek(-min(_TAIL, newest[1].stat().st_size), 2)
        found = _VERSION.findall(file.read())
        return tuple(map(int, found[-1])) if found else ()
    return ()


# Reading


def _merge(tables: Mapping[Path, dict[str, Any]], key: str) -> dict[str, Any]:
    """A table of the settings as the host has it: the later file counts."""
    merged: dict[str, Any] = {}
    for table in tables.values():
        told = table.get(key)
        merged |= cast("dict[str, Any]", told) if isinstance(told, dict) else {}
    return merged


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""

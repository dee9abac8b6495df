"""What is to stand in a host's file, and what of ours stands there already."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, Final, NamedTuple, cast

from mcp_compaction.hosts.events import CHECKED, TOOL, Hook, hooked_hosts
from mcp_compaction.hosts.setup.hosts import Held, HostSetup, PluginNote
from mcp_compaction.hosts.setup.json_text import Path
from mcp_compaction.hosts.transcripts.pieces import value_at
from mcp_compaction.lexicon.host_texts import own_tools
from mcp_compaction.settings_file import TOKEN

MARKETPLACE: Final = "mcp-compaction-local"
"""The marketplace of the plugin's copy for all projects; that for one has its number behind it."""

PLUGIN_FILE: Final = "mcp-compaction.js"
"""The name of the copy of a plugin that is one file."""

_SERVER = "compaction"
_RULES = '"${XDG_DATA_HOME:-$HOME/.local/share}/mcp-compaction/checks/rules.json"'
_VIEWS = "MCP_COMPACTION_VIEWS"
_OUR_MARKETPLACE = re.compile(rf"{MARKETPLACE}(?:-[0-9a-f]+)?")
_OUR_PROGRAM = re.compile(
    r"(?:^|[\\/\s'\"])mcp-compaction(?:\.exe)?(?:$|[\s'\"])|\bmcp_compaction\."
)


class Entry(NamedTuple):
    """A value and its place; a place that ends in -1 is an item of a list."""

    at: Path
    value: Any


@dataclass(frozen=True, slots=True)
class Launch:
    """How a host starts us: the words, and the variables that it would keep from us."""

    words: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    home: str = ""  # the store's folder, where the user has named one
    plugin: str = ""  # the path of our plugin's copy
    marketplace: str = MARKETPLACE
    server: str = ""  # the address of the team's server that the store is sent on to
    store: str = ""  # the store's folder

    @property
    def names(self) -> dict[str, str]:
        """What is filled in where a plugin is named."""
        url = FilePath(self.plugin).as_uri() if self.plugin else ""
        return {"{path}": self.plugin, "{url}": url, "{marketplace}": self.marketplace}


def entries_for(host: HostSetup, holds: Sequence[Held], launch: Launch) -> Iterator[Entry]:
    """What is to stand in a file of a host, in order."""
    for held in holds:
        match held:
            case "server":
                yield Entry(host.server.at, _server_of(host, launch))
                if host.team is not None and launch.server:
                    url = {"{server}": f"{launch.server}/mcp"}
                    yield Entry(host.team.at, _fill(host.team.entry, url))
            case "permissions":
                yield from _permissions_of(host)
            case "hooks":
                yield from _hooks_of(host, launch)
            case "plugin":
                for plugged in host.plugged:
                    at = tuple(_fill(plugged.at, launch.names))
                    item: Any = plugged.item or plugged.value
                    place = (*at, -1) if plugged.item else at
                    yield Entry(place, _fill(item, launch.names))


def _fill(value: Any, names: Mapping[str, Any]) -> Any:
    """A value in which the names stand for what they mean, however deep they stand; of a text in
    which they stand beside other words, those that mean a text."""
    match value:
        case str() if value in names:
            return names[value]
        case str():
            for sign, name in names.items():
                value = value.replace(sign, name) if isinstance(name, str) else value
            return value
        case dict():
            entries = cast("dict[str, Any]", value)
            return {key: _fill(one, names) for key, one in entries.items()}
        case tuple() | list():
            return [_fill(one, names) for one in cast("Sequence[Any]", value)]
        case _:
            return value


def _server_of(host: HostSetup, launch: Launch) -> dict[str, Any]:
    """The entry that has a host start our server."""
    env = {**launch.env, **({"MCP_COMPACTION_HOME": launch.home} if launch.home else {})}
    if host.views:
        env[_VIEWS] = str(FilePath(launch.plugin, host.views))
    names = {
        "{command}": launch.words[0],
        "{args}": list(launch.words[1:]),
        "{words}": list(launch.words),
        "{env}": env,
        "{secrets}": [TOKEN] if launch.server else [],
    }
    filled = _fill(host.server.entry, names).items()
    return {key: value for key, value in filled if value not in ([], {})}


def _permissions_of(host: HostSetup) -> Iterator[Entry]:
    for permission in host.permission:
        for tool in own_tools(permission.tools):
            at = tuple(part.format(tool=tool) for part in permission.at)
            if permission.item:
                yield Entry((*at, -1), permission.item.format(tool=tool))
            else:
                yield Entry(at, permission.value)


def _hooks_of(host: HostSetup, launch: Launch) -> Iterator[Entry]:
    """The hooks, those of one event and matcher in one group; their text has no version in it."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    hooked = hooked_hosts()[host.name]
    for hook in hooked.hook:
        if hook.way == "tool":
            handler: dict[str, Any] = {"type": "mcp_tool", "server": _SERVER, "tool": TOOL}
            handler |= {"input": hook.tool_input}
        else:
            place = ("--home", launch.home) if launch.home else ()
            event = CHECKED if hook.moment == "check" else hook.event
            words = (*launch.words, "hook", host.name, event, *place)
            handler = {"type": "command", "command": _guard(hook, shlex.join(words), launch.store)}
        handler |= {"timeout": hooked.timeout, **hook.handler}
        groups.setdefault((hook.event, hook.matcher), []).append(handler)
    for (event, matcher), handlers in groups.items():
        group = {"matcher": matcher} if matcher else {}
        yield Entry(("hooks", event, -1), {**group, "hooks": handlers})


def _guard(hook: Hook, command: str, home: str) -> str:
    """The command of a hook; the one at every call is not even started where no pin has a check.
    By the whole path: a variable may come with a repository, and would be looked at too late."""
    if hook.moment != "check" or os.name == "nt":
        return command
    place = shlex.quote(f"{home}/checks/rules.json") if home else _RULES
    return f"[ ! -s {place} ] || {command}"


def is_ours(value: Any) -> bool:
    """Whether a server or the handler of a hook in a host's file runs this program."""
    if not isinstance(value, Mapping):
        return False
    entry = cast("Mapping[str, Any]", value)
    if entry.get("type") == "mcp_tool":
        return entry.get("tool") == TOOL
    if "url" in entry:
        return TOKEN in str(entry)
    command: Any = entry.get("command", "")
    words = [command] if isinstance(command, str) else list(command or ())
    return any(_OUR_PROGRAM.search(str(word)) for word in (*words, *(entry.get("args") or ())))


def server_places(host: HostSetup) -> tuple[Path, ...]:
    """The places of our servers: the one that the host starts, and the team's."""
    return (host.server.at,) if host.team is None else (host.server.at, host.team.at)


def find_ours(host: HostSetup, holds: Sequence[Held], data: Any) -> list[Path]:
    """The places in a file where something of ours stands, in the order of their keys."""
    found: list[Path] = []
    if "server" in holds:
        found += [at for at in server_places(host) if is_ours(value_at(data, at))]
    if "permissions" in holds:
        for at, value in _permissions_of(host):
            if at[-1] != -1:
                found += [at] if value_at(data, at) == value else []
                continue
            items = enumerate(_items_of(value_at(data, at[:-1])))
            found += [(*at[:-1], n) for n, item in items if item == value]
    if "hooks" in holds:
        found += _find_hooks(data)
    if "plugin" in holds:
        for plugged in host.plugged:
            found += _find_plugged(plugged.at, bool(plugged.item), data)
    return found


def _find_plugged(at: Path, is_item: bool, data: Any) -> Iterator[Path]:
    """The places at which a plugin of ours is named: by its copy, or by its marketplace."""
    if is_item:
        items = enumerate(_items_of(value_at(data, at)))
        yield from ((*at, n) for n, one in items if str(one).endswith(f"/{PLUGIN_FILE}"))
        return
    *above, last = at
    table: Any = value_at(data, tuple(above))
    for key in cast("dict[str, Any]", table) if isinstance(table, dict) else ():
        if _OUR_MARKETPLACE.fullmatch(key.removeprefix(str(last).removesuffix("{marketplace}"))):
            yield (*above, key)


def find_note(note: PluginNote, launch: Launch, data: Any) -> Path | None:
    """The place where a host has noted our plugin by itself."""
    at = tuple(_fill(note.at, launch.names))
    return at if value_at(data, at) is not None else None


def _find_hooks(data: Any) -> Iterator[Path]:
    """Our groups, and our handlers in the groups of others."""
    events: Any = value_at(data, ("hooks",))
    for event in cast("dict[str, Any]", events) if isinstance(events, dict) else ():
        for number, group in enumerate(_items_of(value_at(data, ("hooks", event)))):
            handlers = _items_of(value_at(group, ("hooks",)))
            ours = [n for n, handler in enumerate(handlers) if is_ours(handler)]
            if ours and len(ours) == len(handlers):
                yield ("hooks", event, number)
            else:
                yield from (("hooks", event, number, "hooks", n) for n in ours)


def _items_of(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []

"""The files of hosts that we write to, what is to stand in each, and what of ours stands there
already.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, cast

from pydantic import Field

from mcp_compaction.errors import InputError
from mcp_compaction.hosts.events import CHECKED, TOOL, Hook, hooked_hosts
from mcp_compaction.hosts.known import hosts_with, place_of_user
from mcp_compaction.hosts.setup.json_text import KeyPath
from mcp_compaction.hosts.transcripts.pieces import value_at
from mcp_compaction.lexicon.host_texts import own_tools
from mcp_compaction.model import Value
from mcp_compaction.settings_file import TOKEN

Scope = Literal["user", "project"]
Held = Literal["server", "hooks", "permissions", "plugin", "prompt"]

MARKETPLACE: Final = "mcp-compaction-local"
"""The marketplace of the plugin's copy for all projects; that for one has its number behind it."""

PLUGIN_FILE: Final = "mcp-compaction.js"
"""The name of the copy of a plugin that is one file."""

PROMPTS: Final = frozenset({"49fb82c2a3af1cb7977ae66f878e137b9d153a8e8b94db7d9e0724612c953b54"})
"""The SHA-256 of each prompt that a version has written to hosts; any other one is its user's."""

_SERVER = "compaction"
_RULES = '"${XDG_DATA_HOME:-$HOME/.local/share}/mcp-compaction/checks/rules.json"'
_VIEWS = "MCP_COMPACTION_VIEWS"
_OUR_MARKETPLACE = re.compile(rf"{MARKETPLACE}(?:-[0-9a-f]+)?")
_OUR_PROGRAM = re.compile(
    r"(?:^|[\\/\s'\"])mcp-compaction(?:\.exe)?(?:$|[\s'\"])|\bmcp_compaction\."
)


class ServerEntry(Value):
    """The entry that has a host start the server; see lexicon/hosts/README.md."""

    at: tuple[str, ...]
    entry: dict[str, Any]


class Permission(Value):
    """What a host is told about some of the tools; see lexicon/hosts/README.md."""

    tools: Literal["core", "management", "hook"]
    at: tuple[str, ...]
    item: str = ""
    value: str = ""


class CompactionPrompt(Value):
    """Where a host is told how to ask for its own summaries; see lexicon/hosts/README.md."""

    at: str
    unless: tuple[str, ...] = ()


class Plugged(Value):
    """What names a plugin to its host; see lexicon/hosts/README.md."""

    at: tuple[str, ...]
    item: str = ""
    value: Any = None


class UserFile(Value):
    """A file of a host below the user's home, which a variable may move."""

    path: str
    moved_by: str = ""
    moved: str = ""

    def find_of_user(self, environ: Mapping[str, str]) -> Path:
        """The path of the file, which need not be there."""
        return place_of_user(self.model_dump(), environ)


class SetupFile(UserFile):
    """A file of a host; see lexicon/hosts/README.md."""

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
    """Where a host writes down a plugin by itself; see lexicon/hosts/README.md."""

    at: tuple[str, ...]


class HostSetup(Value):
    """A host that can be set up; see lexicon/hosts/README.md."""

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
    prompt: CompactionPrompt | None = None
    plugged: tuple[Plugged, ...] = ()
    note: tuple[PluginNote, ...] = ()
    permission: tuple[Permission, ...] = ()
    file: tuple[SetupFile, ...] = Field(min_length=1)

    def steps(self, scope: Scope) -> tuple[str, ...]:
        """The step that the user takes next."""
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


class Entry(NamedTuple):
    """A value and its place; a place that ends in -1 is an item of a list."""

    at: KeyPath
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
    prompt: str = ""  # by which the host asks for its summaries; empty: by its own

    @property
    def names(self) -> dict[str, str]:
        """The values that are filled in where a plugin is named."""
        url = Path(self.plugin).as_uri() if self.plugin else ""
        return {"{path}": self.plugin, "{url}": url, "{marketplace}": self.marketplace}


def entries_for(host: HostSetup, holds: Sequence[Held], launch: Launch) -> Iterator[Entry]:
    """The entries that are to stand in a file of a host, in order."""
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
            case "prompt":
                if host.prompt is not None and launch.prompt:
                    yield Entry((host.prompt.at,), launch.prompt)
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
        env[_VIEWS] = str(Path(launch.plugin, host.views))
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


def runs_our_program(value: Any) -> bool:
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


def server_places(host: HostSetup) -> tuple[KeyPath, ...]:
    """The places of our servers: the one that the host starts, and the team's."""
    return (host.server.at,) if host.team is None else (host.server.at, host.team.at)


def find_ours(host: HostSetup, holds: Sequence[Held], data: Any) -> list[KeyPath]:
    """The places in a file where something of ours stands, in the order of their keys."""
    found: list[KeyPath] = []
    if "server" in holds:
        found += [at for at in server_places(host) if runs_our_program(value_at(data, at))]
    if "permissions" in holds:
        for at, value in _permissions_of(host):
            if at[-1] != -1:
                found += [at] if value_at(data, at) == value else []
                continue
            items = enumerate(_items_of(value_at(data, at[:-1])))
            found += [(*at[:-1], n) for n, item in items if item == value]
    if "hooks" in holds:
        found += _find_hooks(data)
    if "prompt" in holds and whose_prompt(host, data) == "ours":
        assert host.prompt is not None
        found.append((host.prompt.at,))
    if "plugin" in holds:
        for plugged in host.plugged:
            found += _find_plugged(plugged.at, bool(plugged.item), data)
    return found


def whose_prompt(host: HostSetup, data: Any) -> Literal["ours", "theirs", ""]:
    """Whose prompt a host asks for its summaries by: one that we have written, one of the user's,
    or none but its own."""
    if host.prompt is None:
        return ""
    text = value_at(data, (host.prompt.at,))
    if isinstance(text, str) and sha256(text.encode()).hexdigest() in PROMPTS:
        return "ours"
    others = (value_at(data, (one,)) for one in (host.prompt.at, *host.prompt.unless))
    return "theirs" if any(one is not None for one in others) else ""


def _find_plugged(at: KeyPath, is_item: bool, data: Any) -> Iterator[KeyPath]:
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


def find_note(note: PluginNote, launch: Launch, data: Any) -> KeyPath | None:
    """The place where a host has noted our plugin by itself."""
    at = tuple(_fill(note.at, launch.names))
    return at if value_at(data, at) is not None else None


def _find_hooks(data: Any) -> Iterator[KeyPath]:
    """Our groups, and our handlers in the groups of others."""
    events: Any = value_at(data, ("hooks",))
    for event in cast("dict[str, Any]", events) if isinstance(events, dict) else ():
        for number, group in enumerate(_items_of(value_at(data, ("hooks", event)))):
            handlers = _items_of(value_at(group, ("hooks",)))
            ours = [n for n, handler in enumerate(handlers) if runs_our_program(handler)]
            if ours and len(ours) == len(handlers):
                yield ("hooks", event, number)
            else:
                yield from (("hooks", event, number, "hooks", n) for n in ours)


def _items_of(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []

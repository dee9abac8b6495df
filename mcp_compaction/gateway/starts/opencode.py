"""How opencode is started with a gateway."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from mcp_compaction.errors import InputError
from mcp_compaction.gateway.starting import (
    ANTHROPIC,
    OPENAI,
    SERVER,
    HostToStart,
    Json,
    Named,
    Start,
    folders_of_project,
    merge,
    names_our_server,
    parse_json,
    read_json,
    refuse_others,
    table_in,
)
from mcp_compaction.home import user_folder

# Providers of opencode whose base URL is known without being configured, and their keys.
_OF_OPENCODE = {
    "anthropic": (f"{ANTHROPIC}/v1", "ANTHROPIC_API_KEY"),
    "openai": (OPENAI, "OPENAI_API_KEY"),
    "openrouter": ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
}


def plan(asked: HostToStart) -> Start:
    """How it is started."""
    own, of_project = _read_configs_of_opencode(asked)
    config = own
    for found in of_project.values():
        config = merge(config, found)
    upstreams = _upstreams_of_opencode(asked, own, of_project)
    if not upstreams:
        raise InputError(
            "no provider of opencode is known here that has a base URL; set options.baseURL of "
            "yours in opencode.json."
        )
    ours: Json = {
        "provider": {
            name: {"options": {"baseURL": asked.address.url_of(name)}} for name in upstreams
        }
    }
    if not names_our_server(config.get("mcp")):
        ours["mcp"] = {
            SERVER: {
                "type": "local",
                "enabled": True,
                "command": list(asked.server),
                "environment": dict(asked.server_environ),
            }
        }
    given = parse_json(asked.environ.get("OPENCODE_CONFIG_CONTENT", ""))
    merged = json.dumps(merge(given, ours))
    return Start(
        host="opencode",
        words=tuple(asked.words),
        environ={**asked.environ, "OPENCODE_CONFIG_CONTENT": merged},
        upstreams=upstreams,
        resume="with the gateway: mcp-compaction run -- opencode --continue; without it, first run "
        "/compact there while the gateway runs, or the host may find its history too long",
        notes=(f"through the gateway: {', '.join(upstreams)}; other providers directly",),
    )


def _read_configs_of_opencode(asked: HostToStart) -> tuple[Json, dict[Path, Json]]:
    """The user's own settings, and those of each file of the project."""
    home = user_folder(asked.environ)
    base = Path(asked.environ.get("XDG_CONFIG_HOME") or home / ".config")
    named = asked.environ.get("OPENCODE_CONFIG")
    further = asked.environ.get("OPENCODE_CONFIG_DIR")
    own_files = [
        base / "opencode/config.json",
        *_configs_in(base / "opencode"),
        *([Path(named)] if named else []),
        *_configs_in(home),
        *_configs_in(home / ".opencode"),
        *(_configs_in(Path(further)) if further else []),
    ]
    own: Json = {}
    for path in own_files:
        own = merge(own, read_json(path))
    own = merge(own, parse_json(asked.environ.get("OPENCODE_CONFIG_CONTENT", "")))
    folders = tuple(reversed(folders_of_project(asked)))
    places = [*folders, *(folder / ".opencode" for folder in folders)]
    return own, {path: read_json(path) for folder in places for path in _configs_in(folder)}


def _configs_in(folder: Path) -> list[Path]:
    return [folder / f"opencode.{end}" for end in ("json", "jsonc")]


def _upstreams_of_opencode(
    asked: HostToStart, own: Json, of_project: Mapping[Path, Json]
) -> dict[str, str]:
    if "" in asked.upstreams:
        raise InputError(
            "opencode may have several providers: name the one, as in "
            f"--upstream anthropic={asked.upstreams['']}"
        )
    base = asked.environ.get("XDG_DATA_HOME") or user_folder(asked.environ) / ".local/share"
    logged_in = read_json(Path(base) / "opencode/auth.json")
    found = dict(_urls_in(own))
    mentioned = {name for one in (own, *of_project.values()) for name in table_in(one, "provider")}
    for name, (url, key) in _OF_OPENCODE.items():
        if name in mentioned or name in logged_in or asked.environ.get(key):
            found.setdefault(name, url)
    found |= asked.upstreams
    named = (
        Named(path, url, name)
        for path, config in of_project.items()
        for name, url in _urls_in(config)
        if name not in asked.upstreams
    )
    refuse_others(found, named)
    return found


def _urls_in(config: Json) -> Iterator[tuple[str, str]]:
    """The providers in a config that have a base URL there."""
    for name, entry in table_in(config, "provider").items():
        options = table_in(cast("Json", entry), "options") if isinstance(entry, dict) else {}
        if options.get("baseURL"):
            yield name, str(options["baseURL"])

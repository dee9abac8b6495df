"""How Claude Code is started with a gateway."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

from mcp_compaction.errors import InputError
from mcp_compaction.gateway.starting import (
    ANTHROPIC,
    SERVER,
    HostToStart,
    Json,
    Named,
    Start,
    names_our_server,
    read_json,
    upstream_of,
    write_private,
)
from mcp_compaction.home import user_folder

_URL = "ANTHROPIC_BASE_URL"
_CLOUDS = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY")


def plan(asked: HostToStart) -> Start:
    """How it is started."""
    home = Path(asked.environ.get("CLAUDE_CONFIG_DIR") or user_folder(asked.environ) / ".claude")
    own, of_project = _read_settings_of_claude(home, asked)
    settings = own | {name: value for found in of_project.values() for name, value in found.items()}
    known = {**asked.environ, **settings}
    cloud = next(
        (name for name in _CLOUDS if known.get(name) not in (None, "", "0", "false")), None
    )
    if cloud is not None:
        raise InputError(
            f"{cloud} is set: this host speaks to its cloud by another API, which the gateway does "
            "not know. Start it without the gateway."
        )
    named = (Named(file, found[_URL]) for file, found in of_project.items() if found.get(_URL))
    upstream = upstream_of(asked, {**asked.environ, **own}.get(_URL) or ANTHROPIC, named)
    url = asked.address.url_of("api")
    environ = {**asked.environ, _URL: url}
    added: list[str] = []
    if _URL in settings:  # which would go over the environment
        written = write_private(asked, "settings.json", {"env": {_URL: url}})
        added.append(f"--settings={written}")
    if upstream == ANTHROPIC:
        # By another base URL the host would take its provider for one that does not know these.
        environ.setdefault("ENABLE_TOOL_SEARCH", "true")
    if not _has_server_in_claude(asked):
        program, *arguments = asked.server
        entry = {"command": program, "args": arguments, "env": dict(asked.server_environ)}
        added.append(f"--mcp-config={json.dumps({'mcpServers': {SERVER: entry}})}")
        added.append(f"--allowedTools=mcp__{SERVER}")
    return Start(
        host="claude-code",
        words=(asked.words[0], *added, *asked.words[1:]),
        environ=environ,
        upstreams={"api": upstream},
        resume="with the gateway: mcp-compaction run -- claude --continue; without it, first type "
        "/compact there while the gateway runs, or the host may find its history too long",
    )


def _read_settings_of_claude(
    home: Path, asked: HostToStart
) -> tuple[dict[str, str], dict[Path, dict[str, str]]]:
    """The environment that the user's own settings set, and that of each file of the project."""
    own = _environ_in(home / "settings.json")
    files = [asked.folder / f".claude/{name}" for name in ("settings.json", "settings.local.json")]
    if asked.folder == user_folder(asked.environ):
        for path in files:
            own |= _environ_in(path)
        return own, {}
    return own, {path: _environ_in(path) for path in files}


def _environ_in(path: Path) -> dict[str, str]:
    environ = read_json(path).get("env")
    found = cast("Json", environ) if isinstance(environ, dict) else {}
    return {str(name): str(value) for name, value in found.items()}


def _has_server_in_claude(asked: HostToStart) -> bool:
    config = read_json(user_folder(asked.environ) / ".claude.json")
    projects = config.get("projects")
    of_project: object = {}
    if isinstance(projects, dict):
        of_project = cast("Json", projects).get(str(asked.folder))
    own = cast("Json", of_project) if isinstance(of_project, dict) else {}
    lists = (config, own, read_json(asked.folder / ".mcp.json"))
    given = any("mcp-compaction" in word for word in asked.words[1:])
    return given or any(names_our_server(one.get("mcpServers")) for one in lists)

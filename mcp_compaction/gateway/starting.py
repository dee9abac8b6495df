"""How hosts are started with a gateway between them and their model.

Nothing of a user's own settings is changed: the base URL, and our server where it is not there, are
given to this one process. Where a host uses another base URL already, the gateway goes on to that.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from mcp_compaction.errors import InputError
from mcp_compaction.gateway.door import Door

Json = dict[str, Any]

SERVER = "compaction"
_ANTHROPIC = "https://api.anthropic.com"
_OPENAI = "https://api.openai.com/v1"
_CHATGPT = "https://chatgpt.com/backend-api/codex"
# Providers of opencode whose base URL is known without being configured, and their keys.
_OF_OPENCODE = {
    "anthropic": (f"{_ANTHROPIC}/v1", "ANTHROPIC_API_KEY"),
    "openai": (_OPENAI, "OPENAI_API_KEY"),
    "openrouter": ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
}
_CLOUDS = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY")


class Asked(NamedTuple):
    """A host to start, and where."""

    words: Sequence[str]  # its command line
    environ: Mapping[str, str]
    folder: Path  # the working directory
    door: Door
    server: tuple[str, ...]  # the words that start our server
    server_environ: Mapping[str, str]  # what the server has to know


class Start(NamedTuple):
    """How a host is started."""

    host: str
    words: tuple[str, ...]
    environ: dict[str, str]
    upstreams: dict[str, str]
    resume: str  # how to go on with the same conversation, with a gateway and without
    notes: tuple[str, ...] = ()


def plan_start(asked: Asked) -> Start:
    """How the host that a command line names is started; another one is refused."""
    name = Path(asked.words[0]).stem.lower()
    known: Mapping[str, Callable[[Asked], Start]] = {
        "claude": _start_claude,
        "codex": _start_codex,
        "opencode": _start_opencode,
    }
    found = next((plan for word, plan in known.items() if name.startswith(word)), None)
    if found is None:
        raise InputError(
            f"{asked.words[0]!r} is no host that can be started so; there are: {', '.join(known)}. "
            "For another one run: mcp-compaction gateway --help"
        )
    return found(asked)


# Claude Code


def _start_claude(asked: Asked) -> Start:
    home = Path(asked.environ.get("CLAUDE_CONFIG_DIR") or _home_of(asked) / ".claude")
    settings = _read_settings_of_claude(home, asked.folder)
    known = {**asked.environ, **settings}
    cloud = next(
        (name for name in _CLOUDS if known.get(name) not in (None, "", "0", "false")), None
    )
    if cloud is not None:
        raise InputError(
            f"{cloud} is set: this host speaks to its cloud by another API, which the gateway does "
            "not know. Start it without the gateway."
        )
    upstream = known.get("ANTHROPIC_BASE_URL") or _ANTHROPIC
    url = asked.door.url_of("api")
    environ = {**asked.environ, "ANTHROPIC_BASE_URL": url}
    added: list[str] = []
    if "ANTHROPIC_BASE_URL" in settings:  # which would go over the environment
        added.append(f"--settings={json.dumps({'env': {'ANTHROPIC_BASE_URL': url}})}")
    if upstream == _ANTHROPIC:
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


def _read_settings_of_claude(home: Path, folder: Path) -> dict[str, str]:
    """The environment that the host's settings set; the later file goes over the earlier."""
    files = (
        home / "settings.json",
        folder / ".claude/settings.json",
        folder / ".claude/settings.local.json",
    )
    found: dict[str, str] = {}
    for path in files:
        environ = _read_json(path).get("env")
        if isinstance(environ, dict):
            found |= {str(k): str(v) for k, v in cast("Json", environ).items()}
    return found


def _has_server_in_claude(asked: Asked) -> bool:
    config = _read_json(_home_of(asked) / ".claude.json")
    projects = config.get("projects")
    of_project: object = {}
    if isinstance(projects, dict):
        of_project = cast("Json", projects).get(str(asked.folder))
    own = cast("Json", of_project) if isinstance(of_project, dict) else {}
    lists = (config, own, _read_json(asked.folder / ".mcp.json"))
    given = any("mcp-compaction" in word for word in asked.words[1:])
    return given or any(_names_our_server(one.get("mcpServers")) for one in lists)


# Codex


def _start_codex(asked: Asked) -> Start:
    home = Path(asked.environ.get("CODEX_HOME") or _home_of(asked) / ".codex")
    config = _read_toml(home / "config.toml")
    providers = config.get("model_providers")
    known = cast("Json", providers) if isinstance(providers, dict) else {}
    name = str(config.get("model_provider") or "openai")
    url = asked.door.url_of("api")
    if name in known:
        upstream = str(cast("Json", known[name]).get("base_url") or _OPENAI)
        settings: dict[str, object] = {
            f"model_providers.{name}.base_url": url,
            f"model_providers.{name}.supports_websockets": False,
        }
    else:
        logged_in = _read_json(home / "auth.json")
        is_chatgpt = bool(logged_in.get("tokens")) and not logged_in.get("OPENAI_API_KEY")
        usual = _CHATGPT if is_chatgpt else _OPENAI
        upstream = asked.environ.get("OPENAI_BASE_URL") or str(
            config.get("openai_base_url") or usual
        )
        settings = {
            "model_provider": SERVER,
            f"model_providers.{SERVER}.name": "OpenAI by mcp-compaction",
            f"model_providers.{SERVER}.base_url": url,
            f"model_providers.{SERVER}.wire_api": "responses",
            f"model_providers.{SERVER}.requires_openai_auth": True,
            f"model_providers.{SERVER}.supports_websockets": False,
        }
    # A compressed request could not be read on its way.
    settings["features.enable_request_compression"] = False
    if not _names_our_server(config.get("mcp_servers")):
        program, *arguments = asked.server
        settings |= {
            f"mcp_servers.{SERVER}.command": program,
            f"mcp_servers.{SERVER}.args": arguments,
            f"mcp_servers.{SERVER}.required": True,
        }
    servers = config.get("mcp_servers")
    if f"mcp_servers.{SERVER}.command" in settings or (
        isinstance(servers, dict) and SERVER in servers
    ):
        # This host starts its servers without its own environment.
        environ = asked.server_environ.items()
        settings |= {f"mcp_servers.{SERVER}.env.{name}": value for name, value in environ}
    # JSON texts, numbers and lists of them are TOML too.
    flags = [word for k, v in settings.items() for word in ("-c", f"{k}={json.dumps(v)}")]
    return Start(
        host="codex",
        words=(asked.words[0], *flags, *asked.words[1:]),
        environ=dict(asked.environ),
        upstreams={"api": upstream},
        resume="with the gateway: mcp-compaction run -- codex resume --last; without it, first "
        "type /compact there while the gateway runs, or the host may find its history too long",
    )


# opencode


def _start_opencode(asked: Asked) -> Start:
    config = _read_config_of_opencode(asked)
    upstreams = _providers_of_opencode(asked, config)
    if not upstreams:
        raise InputError(
            "no provider of opencode is known here that has a base URL; set options.baseURL of "
            "yours in opencode.json."
        )
    ours: Json = {
        "provider": {name: {"options": {"baseURL": asked.door.url_of(name)}} for name in upstreams}
    }
    if not _names_our_server(config.get("mcp")):
        ours["mcp"] = {
            SERVER: {
                "type": "local",
                "enabled": True,
                "command": list(asked.server),
                "environment": dict(asked.server_environ),
            }
        }
    given = _parse_json(asked.environ.get("OPENCODE_CONFIG_CONTENT", ""))
    merged = json.dumps(_merge(given, ours))
    return Start(
        host="opencode",
        words=tuple(asked.words),
        environ={**asked.environ, "OPENCODE_CONFIG_CONTENT": merged},
        upstreams=upstreams,
        resume="with the gateway: mcp-compaction run -- opencode --continue; without it, first run "
        "/compact there while the gateway runs, or the host may find its history too long",
        notes=(f"through the gateway: {', '.join(upstreams)}; other providers directly",),
    )


def _read_config_of_opencode(asked: Asked) -> Json:
    base = asked.environ.get("XDG_CONFIG_HOME") or _home_of(asked) / ".config"
    folders = (Path(base) / "opencode", *reversed((asked.folder, *asked.folder.parents)))
    files = [folder / f"opencode.{end}" for folder in folders for end in ("json", "jsonc")]
    named = asked.environ.get("OPENCODE_CONFIG")
    config: Json = {}
    for path in (*files, *([Path(named)] if named else [])):
        config = _merge(config, _read_json(path))
    return _merge(config, _parse_json(asked.environ.get("OPENCODE_CONFIG_CONTENT", "")))


def _providers_of_opencode(asked: Asked, config: Json) -> dict[str, str]:
    base = asked.environ.get("XDG_DATA_HOME") or _home_of(asked) / ".local/share"
    logged_in = _read_json(Path(base) / "opencode/auth.json")
    configured = config.get("provider")
    known = cast("dict[str, Json]", configured) if isinstance(configured, dict) else {}
    found: dict[str, str] = {}
    for name, entry in known.items():
        options = entry.get("options")
        url = cast("Json", options).get("baseURL") if isinstance(options, dict) else None
        if url:
            found[name] = str(url)
    for name, (url, key) in _OF_OPENCODE.items():
        if name in known or name in logged_in or asked.environ.get(key):
            found.setdefault(name, url)
    return found


# What all of them need


def _home_of(asked: Asked) -> Path:
    return Path(asked.environ.get("HOME") or Path.home())


def _names_our_server(servers: object) -> bool:
    """Whether one of the servers in a host's settings is this program."""
    known = cast("Json", servers).values() if isinstance(servers, dict) else ()
    return any("mcp-compaction" in json.dumps(entry) for entry in known)


def _read_json(path: Path) -> Json:
    try:
        return _parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _parse_json(text: str) -> Json:
    """The object in a text; lines that are comments are left out."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("//"))
    try:
        found: object = json.loads("\n".join(lines))
    except ValueError:
        return {}
    return cast("Json", found) if isinstance(found, dict) else {}


def _read_toml(path: Path) -> Json:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _merge(under: Json, over: Json) -> Json:
    """Two settings, the second over the first, table by table."""
    merged = dict(under)
    for name, value in over.items():
        below = merged.get(name)
        if isinstance(below, dict) and isinstance(value, dict):
            merged[name] = _merge(cast("Json", below), cast("Json", value))
        else:
            merged[name] = value
    return merged

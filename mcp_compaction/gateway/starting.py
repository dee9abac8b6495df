"""How hosts are started with a gateway between them and their model.

Nothing of a user's own settings is changed: the base URL, and our server where it is not there, are
given to this one process. Where the user's settings or environment name another base URL already,
the gateway goes on to that; where a file of the project does, the user has to say so. The secret of
the base URL is in no command line, which every user of the machine may read.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from mcp_compaction.errors import InputError
from mcp_compaction.gateway.address import HEADER, GatewayAddress
from mcp_compaction.home import user_folder, write_whole
from mcp_compaction.hosts.setup import json_text

Json = dict[str, Any]

SERVER = "compaction"
SECRET = "COMPACTION_GATEWAY_SECRET"  # the variable that has the secret of the address
_URL = "ANTHROPIC_BASE_URL"
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


class HostToStart(NamedTuple):
    """A host to start, and where."""

    words: Sequence[str]  # its command line
    environ: Mapping[str, str]
    folder: Path  # the working directory
    address: GatewayAddress
    server: tuple[str, ...]  # the words that start our server
    server_environ: Mapping[str, str]  # what the server has to know
    private: Path  # a folder that nobody else reads, which is there as long as the host
    upstreams: Mapping[str, str] = {}  # that the user typed, by provider; the host's only one: ""


class Named(NamedTuple):
    """A base URL that a file of a project names, and the provider it is for."""

    file: Path
    url: str
    provider: str = ""  # of a host that has several


class Start(NamedTuple):
    """How a host is started."""

    host: str
    words: tuple[str, ...]
    environ: dict[str, str]
    upstreams: dict[str, str]
    resume: str  # how to go on with the same conversation, with a gateway and without
    notes: tuple[str, ...] = ()


def plan_start(asked: HostToStart) -> Start:
    """How the host that a command line names is started; another one is refused."""
    name = Path(asked.words[0]).stem.lower()
    known: Mapping[str, Callable[[HostToStart], Start]] = {
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


# Where requests go


def _upstream_of(asked: HostToStart, own: str, named: Iterator[Named]) -> str:
    """Where a host with one provider sends to: what the user typed, else what is the user's own."""
    if asked.upstreams.keys() - {""}:
        raise InputError(
            f"{asked.words[0]} has one provider: pass its base URL alone, as in --upstream {own}"
        )
    typed = asked.upstreams.get("")
    if typed is None:
        _refuse_others({"": own}, named)
    return typed or own


def _refuse_others(own: Mapping[str, str], named: Iterator[Named]) -> None:
    """Refuse to start where a file of a project names a base URL that is not the user's own.

    Keys and logins go there, and the host may not even have asked whether the folder is trusted.
    """
    for one in named:
        known = own.get(one.provider)
        if known is not None and known.rstrip("/") == one.url.rstrip("/"):
            continue
        before = f"{one.provider}=" if one.provider else ""
        instead = f", or stay with yours: --upstream {before}{known}" if known else ""
        raise InputError(
            f"{one.file} would have your key sent to {one.url!r}, which neither your own settings "
            "nor your environment name. Nothing was started. If you trust that address, run it "
            f"again with --upstream {before}{one.url}{instead}"
        )


def _folders_of_project(asked: HostToStart) -> tuple[Path, ...]:
    """The working directory and those above it, up to the repository's; never the user's own."""
    home, found = user_folder(asked.environ), list[Path]()
    for folder in (asked.folder, *asked.folder.parents):
        if folder != home:
            found.append(folder)
        if (folder / ".git").exists():
            break
    return tuple(found)


# Claude Code


def _start_claude(asked: HostToStart) -> Start:
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
    upstream = _upstream_of(asked, {**asked.environ, **own}.get(_URL) or _ANTHROPIC, named)
    url = asked.address.url_of("api")
    environ = {**asked.environ, _URL: url}
    added: list[str] = []
    if _URL in settings:  # which would go over the environment
        written = _write_private(asked, "settings.json", {"env": {_URL: url}})
        added.append(f"--settings={written}")
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
    environ = _read_json(path).get("env")
    found = cast("Json", environ) if isinstance(environ, dict) else {}
    return {str(name): str(value) for name, value in found.items()}


def _has_server_in_claude(asked: HostToStart) -> bool:
    config = _read_json(user_folder(asked.environ) / ".claude.json")
    projects = config.get("projects")
    of_project: object = {}
    if isinstance(projects, dict):
        of_project = cast("Json", projects).get(str(asked.folder))
    own = cast("Json", of_project) if isinstance(of_project, dict) else {}
    lists = (config, own, _read_json(asked.folder / ".mcp.json"))
    given = any("mcp-compaction" in word for word in asked.words[1:])
    return given or any(_names_our_server(one.get("mcpServers")) for one in lists)


# Codex


def _start_codex(asked: HostToStart) -> Start:
    home = Path(asked.environ.get("CODEX_HOME") or user_folder(asked.environ) / ".codex")
    config = _read_toml(home / "config.toml")
    known = _table_in(config, "model_providers")
    name = str(config.get("model_provider") or "openai")
    settings: dict[str, object] = {}
    if name in known:
        own = str(cast("Json", known[name]).get("base_url") or _OPENAI)
    else:
        logged_in = _read_json(home / "auth.json")
        is_chatgpt = bool(logged_in.get("tokens")) and not logged_in.get("OPENAI_API_KEY")
        usual = _CHATGPT if is_chatgpt else _OPENAI
        own = asked.environ.get("OPENAI_BASE_URL") or str(config.get("openai_base_url") or usual)
        name = SERVER
        settings = {
            "model_provider": name,
            f"model_providers.{name}.name": "OpenAI by mcp-compaction",
            f"model_providers.{name}.wire_api": "responses",
            f"model_providers.{name}.requires_openai_auth": True,
        }
    upstream = _upstream_of(asked, own, _named_for_codex(asked, home))
    settings |= {
        f"model_providers.{name}.base_url": asked.address.open_url_of("api"),
        f"model_providers.{name}.env_http_headers.{HEADER}": SECRET,
        f"model_providers.{name}.supports_websockets": False,
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
        environ={**asked.environ, SECRET: asked.address.secret},
        upstreams={"api": upstream},
        resume="with the gateway: mcp-compaction run -- codex resume --last; without it, first "
        "type /compact there while the gateway runs, or the host may find its history too long",
    )


def _named_for_codex(asked: HostToStart, home: Path) -> Iterator[Named]:
    """The base URLs in files of the project; newer versions of the host leave them out, too."""
    for folder in _folders_of_project(asked):
        path = folder / ".codex/config.toml"
        if path == home / "config.toml":
            continue
        config = _read_toml(path)
        providers = _table_in(config, "model_providers").values()
        tables = [config, *(cast("Json", one) for one in providers if isinstance(one, dict))]
        for table in tables:
            for name, url in table.items():
                if name.endswith("base_url"):
                    yield Named(path, str(url))


# opencode


def _start_opencode(asked: HostToStart) -> Start:
    own, of_project = _read_configs_of_opencode(asked)
    config = own
    for found in of_project.values():
        config = _merge(config, found)
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
        own = _merge(own, _read_json(path))
    own = _merge(own, _parse_json(asked.environ.get("OPENCODE_CONFIG_CONTENT", "")))
    folders = tuple(reversed(_folders_of_project(asked)))
    places = [*folders, *(folder / ".opencode" for folder in folders)]
    return own, {path: _read_json(path) for folder in places for path in _configs_in(folder)}


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
    logged_in = _read_json(Path(base) / "opencode/auth.json")
    found = dict(_urls_in(own))
    mentioned = {name for one in (own, *of_project.values()) for name in _table_in(one, "provider")}
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
    _refuse_others(found, named)
    return found


def _urls_in(config: Json) -> Iterator[tuple[str, str]]:
    """The providers in a config that have a base URL there."""
    for name, entry in _table_in(config, "provider").items():
        options = _table_in(cast("Json", entry), "options") if isinstance(entry, dict) else {}
        if options.get("baseURL"):
            yield name, str(options["baseURL"])


# What all of them need


def _write_private(asked: HostToStart, name: str, settings: Json) -> Path:
    """Write a file of settings that only its owner reads."""
    path = asked.private / name
    write_whole(path, json.dumps(settings))
    return path


def _table_in(config: Json, name: str) -> Json:
    found = config.get(name)
    return cast("Json", found) if isinstance(found, dict) else {}


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
    """The object in a text, which may have comments; none where it cannot be read."""
    try:
        found: object = json_text.parse(text).data
    except json_text.UnreadableJson:
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

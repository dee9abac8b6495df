"""How Codex is started with a gateway."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from mcp_compaction.gateway.starting import (
    HEADER,
    OPENAI,
    SECRET,
    SERVER,
    HostToStart,
    Json,
    Named,
    Start,
    folders_of_project,
    names_our_server,
    read_json,
    read_toml,
    table_in,
    upstream_of,
)
from mcp_compaction.home import user_folder

_CHATGPT = "https://chatgpt.com/backend-api/codex"


def plan(asked: HostToStart) -> Start:
    """How it is started."""
    home = Path(asked.environ.get("CODEX_HOME") or user_folder(asked.environ) / ".codex")
    config = read_toml(home / "config.toml")
    known = table_in(config, "model_providers")
    name = str(config.get("model_provider") or "openai")
    settings: dict[str, object] = {}
    if name in known:
        own = str(cast("Json", known[name]).get("base_url") or OPENAI)
    else:
        logged_in = read_json(home / "auth.json")
        is_chatgpt = bool(logged_in.get("tokens")) and not logged_in.get("OPENAI_API_KEY")
        usual = _CHATGPT if is_chatgpt else OPENAI
        own = asked.environ.get("OPENAI_BASE_URL") or str(config.get("openai_base_url") or usual)
        name = SERVER
        settings = {
            "model_provider": name,
            f"model_providers.{name}.name": "OpenAI by mcp-compaction",
            f"model_providers.{name}.wire_api": "responses",
            f"model_providers.{name}.requires_openai_auth": True,
        }
    upstream = upstream_of(asked, own, _named_for_codex(asked, home))
    settings |= {
        f"model_providers.{name}.base_url": asked.address.open_url_of("api"),
        f"model_providers.{name}.env_http_headers.{HEADER}": SECRET,
        f"model_providers.{name}.supports_websockets": False,
    }
    # A compressed request could not be read on its way.
    settings["features.enable_request_compression"] = False
    if not names_our_server(config.get("mcp_servers")):
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
    for folder in folders_of_project(asked):
        path = folder / ".codex/config.toml"
        if path == home / "config.toml":
            continue
        config = read_toml(path)
        providers = table_in(config, "model_providers").values()
        tables = [config, *(cast("Json", one) for one in providers if isinstance(one, dict))]
        for table in tables:
            for name, url in table.items():
                if name.endswith("base_url"):
                    yield Named(path, str(url))

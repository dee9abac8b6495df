"""How hosts are started with a gateway between them and their model, and where that gateway is: who
knows the path of this run may speak to it.

Nothing of a user's own settings is changed: the base URL, and our server where it is not there, are
given to this one process. Where the user's settings or environment name another base URL already,
the gateway goes on to that; where a file of the project does, the user has to say so. The secret of
the base URL is in no command line, which every user of the machine may read.
"""

from __future__ import annotations

import json
import secrets
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

from starlette.types import Scope

from mcp_compaction.door import LOOPBACK, header_of, is_secret, without_header
from mcp_compaction.errors import InputError
from mcp_compaction.gateway.calls import known_hosts
from mcp_compaction.home import user_folder, write_whole
from mcp_compaction.hosts.known import hosts_with
from mcp_compaction.hosts.setup import json_text

HEADER = "x-compaction-secret"
"""The header that may carry the secret in place of the path."""
_IN_HEADER = "-"  # the segment of a path whose secret is in the header

Json = dict[str, Any]

SERVER = "compaction"
SECRET = "COMPACTION_GATEWAY_SECRET"  # the variable that has the secret of the address
ANTHROPIC = "https://api.anthropic.com"
OPENAI = "https://api.openai.com/v1"


class GatewayAddress(NamedTuple):
    """The port of one gateway, and the secret of this run: in every path, or in a header."""

    port: int
    secret: str

    def url_of(self, upstream: str) -> str:
        """The base URL that a host gets for one of the upstreams."""
        return f"http://{LOOPBACK}:{self.port}/{self.secret}/{upstream}"

    def open_url_of(self, upstream: str) -> str:
        """The base URL for a host that sends the secret in a header: anyone may read it."""
        return f"http://{LOOPBACK}:{self.port}/{_IN_HEADER}/{upstream}"

    async def admit(self, scope: Scope) -> Scope | None:
        """A request whose path begins behind the secret; None without it."""
        path = bytes(scope.get("raw_path") or scope["path"].encode())
        given, _, rest = path.partition(b"/")[2].decode("latin-1").partition("/")
        if given == _IN_HEADER:
            given = header_of(scope, HEADER.encode()) or ""
        if not is_secret(given, self.secret):
            return None
        return {**without_header(scope, HEADER.encode()), "raw_path": rest.encode("latin-1")}


def check_upstream(url: str) -> str:
    """A base URL that a user typed; one over which keys would go for all to read is refused."""
    try:
        parts = urlsplit(url)
        scheme, host = parts.scheme, parts.hostname
    except ValueError:
        scheme, host = "", None
    if scheme not in ("http", "https") or host is None:
        raise InputError(
            f"{url!r} is no base URL of a provider: pass one as in "
            "--upstream https://api.anthropic.com"
        )
    if scheme == "http" and not _is_loopback(host):
        raise InputError(
            f"{url!r} is not encrypted: your key could be read on its way to {host}. "
            "Pass it with https, or an address of this machine."
        )
    return url


def _is_loopback(name: str) -> bool:
    try:
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


def make_secret() -> str:
    """A path segment that nobody guesses."""
    return secrets.token_urlsafe(24)


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
    setups = hosts_with("setup")
    known = {setups[host.name]["program"]: host for host in known_hosts() if host.starter}
    found = next((host for word, host in known.items() if name.startswith(word)), None)
    if found is None:
        raise InputError(
            f"{asked.words[0]!r} is no host that can be started so; there are: {', '.join(known)}. "
            "For another one run: mcp-compaction gateway --help"
        )
    plan: Callable[[HostToStart], Start] = import_module(found.starter).plan
    return plan(asked)


# Where requests go


def upstream_of(asked: HostToStart, own: str, named: Iterator[Named]) -> str:
    """Where a host with one provider sends to: what the user typed, else what is the user's own."""
    if asked.upstreams.keys() - {""}:
        raise InputError(
            f"{asked.words[0]} has one provider: pass its base URL alone, as in --upstream {own}"
        )
    typed = asked.upstreams.get("")
    if typed is None:
        refuse_others({"": own}, named)
    return typed or own


def refuse_others(own: Mapping[str, str], named: Iterator[Named]) -> None:
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


def folders_of_project(asked: HostToStart) -> tuple[Path, ...]:
    """The working directory and those above it, up to the repository's; never the user's own."""
    home, found = user_folder(asked.environ), list[Path]()
    for folder in (asked.folder, *asked.folder.parents):
        if folder != home:
            found.append(folder)
        if (folder / ".git").exists():
            break
    return tuple(found)


def write_private(asked: HostToStart, name: str, settings: Json) -> Path:
    """Write a file of settings that only its owner reads."""
    path = asked.private / name
    write_whole(path, json.dumps(settings))
    return path


def table_in(config: Json, name: str) -> Json:
    """The table of that name in a config; empty where there is none."""
    found = config.get(name)
    return cast("Json", found) if isinstance(found, dict) else {}


def names_our_server(servers: object) -> bool:
    """Whether one of the servers in a host's settings is this program."""
    known = cast("Json", servers).values() if isinstance(servers, dict) else ()
    return any("mcp-compaction" in json.dumps(entry) for entry in known)


def read_json(path: Path) -> Json:
    """The object in a file, which may have comments; none where it cannot be read."""
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def parse_json(text: str) -> Json:
    """The object in a text, which may have comments; none where it cannot be read."""
    try:
        found: object = json_text.parse(text).data
    except json_text.UnreadableJson:
        return {}
    return cast("Json", found) if isinstance(found, dict) else {}


def read_toml(path: Path) -> Json:
    """The tables in a file; none where it cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def merge(under: Json, over: Json) -> Json:
    """Two settings, the second over the first, table by table."""
    merged = dict(under)
    for name, value in over.items():
        below = merged.get(name)
        if isinstance(below, dict) and isinstance(value, dict):
            merged[name] = merge(cast("Json", below), cast("Json", value))
        else:
            merged[name] = value
    return merged

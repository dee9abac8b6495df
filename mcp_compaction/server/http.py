"""Serves over streamable HTTP: to this machine, to who holds the token, for named sessions only.

A token is asked for on loopback too, since any program of any user may connect there. The door
checks it, with Host and Origin; the SDK, which would do so at some addresses only, is told not to.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import re
import secrets
import shlex
import signal
import stat
import sys
import threading
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, CallToolResult, TextContent
from starlette.applications import Starlette
from starlette.routing import Route

from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.door import BoundedServer, Door, Names, bearer, open_listener, own_names
from mcp_compaction.errors import InputError, SettingsError
from mcp_compaction.home import TOKEN, make_folder, write_whole
from mcp_compaction.server.app import build_server
from mcp_compaction.settings import Settings
from mcp_compaction.store.connect import store_errors

PATH = "/mcp"
MOST_BODY = 4 * 2**20
MOST_CHARS = 2**16
SHORTEST_TOKEN = 16

_MOST_SESSIONS = 100
_HOST = re.compile(r"(?:[\w.-]+|\[[0-9a-fA-F:.]+\])(?::(?:\d+|\*))?")
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # what RFC 6750 lets a bearer token be


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The address the server listens on, and the names that it may be called by."""

    host: str = "127.0.0.1"
    port: int = 8765
    allowed_hosts: tuple[str, ...] = ()
    allow_remote: bool = False

    @property
    def url(self) -> str:
        """The address to give to a client."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{PATH}"

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def serve_http(
    settings: Settings,
    project: str,
    environ: Mapping[str, str],
    door: ServerAddress,
    *,
    only_core: bool = False,
) -> int:
    """Serve until a signal asks for the end; an unsafe way to start is refused with a safe one."""
    check_door(door)
    token = ensure_token(settings.home)
    with open_listener(door.port, door.host) as listener:
        door = replace(door, port=listener.getsockname()[1])
        app = build_app(settings, project, environ, door, token, only_core=only_core)
        _announce(door, token_path(settings.home))
        with end_on_signals():
            BoundedServer(app).run(sockets=[listener])
    return 0


def build_app(
    settings: Settings,
    project: str,
    environ: Mapping[str, str],
    door: ServerAddress,
    token: str,
    *,
    only_core: bool = False,
) -> Starlette:
    """The ASGI application behind a door; there is none without a token."""
    check_door(door)
    _check_token(token, token_path(settings.home))
    app = build_mcp_app(settings, project, environ, only_core=only_core)
    guarded = Door(app, names_of(door), bearer(token), MOST_BODY)
    return Starlette(routes=[Route(PATH, guarded)], lifespan=lambda _: run_inside(app))


def build_mcp_app(
    settings: Settings,
    project: str,
    environ: Mapping[str, str],
    *,
    only_core: bool = False,
    opens: Callable[[Settings], Awaitable[Workspace]] | None = None,
) -> Starlette:
    """The MCP server as an ASGI application, which only a door may stand before.

    `opens`: who opens the workspace of one owner among several; it then keeps nothing between
    requests, so that any process may answer the next one.
    """
    server = build_server(
        settings, project, environ, only_core=only_core, must_name=True, opens=opens
    )
    server.middleware.append(_refuse_long)
    return server.streamable_http_app(
        streamable_http_path=PATH,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        max_request_body_size=MOST_BODY,
        max_sessions=_MOST_SESSIONS,
        stateless_http=opens is not None,
    )


def run_inside(app: Starlette) -> AbstractAsyncContextManager[Any]:
    """Holds an application open that another one passes requests on to."""
    return app.router.lifespan_context(app)


# Who may call


def check_door(door: ServerAddress) -> None:
    """Refuse what would let others in."""
    if not 0 <= door.port <= 65535:
        raise InputError(f"{door.port} is no port: pass one from 1 to 65535, or 0 for a free one.")
    for name in door.allowed_hosts:
        if _HOST.fullmatch(name) is None:
            raise InputError(f"{name!r} is no host to allow: write it as box.lan or box.lan:8765.")
    if not door.is_local and not (door.allow_remote and door.allowed_hosts):
        raise SettingsError(
            f"{door.host!r} can be reached from other machines. Leave the host at 127.0.0.1, or "
            "pass --allow-remote together with --allowed-host NAME, the name clients will use."
        )


def names_of(door: ServerAddress) -> Names:
    """The Host and Origin headers that are accepted: the door's own, and those asked for."""
    own = own_names(door.port, has_pages=True) if door.is_local else Names(())
    hosts = [name for asked in door.allowed_hosts for name in _spellings_of(asked, door.port)]
    return Names((*own.hosts, *hosts), own.origins)


def _spellings_of(host: str, port: int) -> tuple[str, ...]:
    has_port = re.search(r":(?:\d+|\*)$", host) is not None
    return (host,) if has_port else (host, f"{host}:{port}")


async def _refuse_long(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    params = cast("dict[str, Any]", ctx.params or {})
    given = params.get("arguments")
    texts = {**(cast("dict[str, Any]", given) if isinstance(given, dict) else {})}
    texts["uri"] = params.get("uri")
    for name, text in texts.items():
        if isinstance(text, str) and len(text) > MOST_CHARS:
            said = (
                f"{name[:80]}: {len(text):,} characters, over the limit of {MOST_CHARS:,}. "
                "Nothing was done; shorten it, or record it with record_messages."
            )
            if ctx.method != "tools/call":
                raise MCPError(INVALID_PARAMS, said)
            return CallToolResult(content=[TextContent(type="text", text=said)], is_error=True)
    return await call_next(ctx)


# The token


def token_path(home: Path) -> Path:
    """The file of the token, which only its owner may read."""
    return TOKEN.path(home)


def ensure_token(home: Path) -> str:
    """The token, made on the first start; one that others may know is refused."""
    path = token_path(home)
    with store_errors(path):
        make_folder(home)
        if not os.path.lexists(path):
            write_whole(path, secrets.token_urlsafe(32) + "\n", replaces=False)
        token = _read_token(path)
    _check_token(token, path)
    return token


def _read_token(path: Path) -> str:
    # Neither a link to another file nor a pipe that never answers.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise SettingsError(f"{path} is a link, not a token. {_how_to_renew(path)}") from None
        raise
    try:
        _check_file(path, os.fstat(descriptor))
        return os.read(descriptor, 4096).decode("utf-8", "replace").strip()
    finally:
        os.close(descriptor)


def _check_file(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise SettingsError(f"{path} is not a file. {_how_to_renew(path)}")
    if sys.platform == "win32":
        return
    if found.st_uid != os.geteuid():
        raise SettingsError(
            f"{path} belongs to another user, who may know it. {_how_to_renew(path)}"
        )
    if found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise SettingsError(
            f"{path} can be read or changed by others (mode {mode:03o}). {_how_to_renew(path)} "
            f"If nobody else can have read it, this is enough: chmod 600 {_quote(path)}"
        )


def _check_token(token: str, path: Path) -> None:
    if len(token) < SHORTEST_TOKEN:
        what = (
            f"{path} is shorter than {SHORTEST_TOKEN} characters" if token else f"{path} is empty"
        )
        raise SettingsError(f"{what}, which protects nothing. {_how_to_renew(path)}")
    if _TOKEN.fullmatch(token) is None:
        raise SettingsError(f"{path} holds signs that no header can carry. {_how_to_renew(path)}")


def _how_to_renew(path: Path) -> str:
    return f"Remove it and start again, a new one is made: rm {_quote(path)}"


def _quote(path: Path) -> str:
    return shlex.quote(str(path))


# From start to end


def _announce(door: ServerAddress, path: Path) -> None:
    lines = [
        f"mcp-compaction serves {door.url}",
        f'every request needs the header "Authorization: Bearer TOKEN"; the token is in {path}',
    ]
    if not door.is_local:
        lines.append("what is said, the token too, can be read on the way: put TLS in front of it")
    sys.stderr.write("\n".join([*lines, ""]))
    sys.stderr.flush()


@contextmanager
def end_on_signals() -> Generator[None]:
    """Signals end the block quietly: uvicorn raises them once more when all is closed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with suppress(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGTERM, before)

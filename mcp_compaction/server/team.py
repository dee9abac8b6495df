"""Serves a team over HTTP: each token opens the rows of its owner, by an application of its own.

Nothing of a session is kept between requests, so that any process may answer any of them.
"""

from __future__ import annotations

import secrets
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import anyio
from anyio.abc import TaskGroup, TaskStatus
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from mcp_compaction.compactor import Compactor
from mcp_compaction.connections import TOO_MANY, ConnectionLimits, may_stay
from mcp_compaction.errors import CompactionError, InputError, SettingsError, StoreError
from mcp_compaction.sending.parcel import MOST_BODY
from mcp_compaction.sending.parcel import PATH as SENT
from mcp_compaction.server.http import (
    PATH,
    ServerAddress,
    build_app,
    check_door,
    end_on_signals,
    open_listener,
    uvicorn_server,
)
from mcp_compaction.server.receiving import list_pins, take_parcel
from mcp_compaction.settings import Settings
from mcp_compaction.store.postgres import tokens
from mcp_compaction.store.postgres.database import TeamDatabase, open_database
from mcp_compaction.store.postgres.store import PostgresStore
from mcp_compaction.store.postgres.tokens import TokenIdentity
from mcp_compaction.wiring import open_compactor
from mcp_compaction.worker import client as worker

RETRY_SECONDS = 2
_BEARER = "bearer "
_PATIENCE = 2.0  # seconds; a connection without a token is not held for long
_SECONDS_TO_SECRET = 60.0  # a token is looked up in a database, which may be busy
_NOT_STARTED = 3  # as other commands end whose store cannot be used


def serve_team(
    settings: Settings,
    environ: Mapping[str, str],
    door: ServerAddress,
    *,
    tls_front: str = "",
    only_core: bool = False,
) -> int:
    """Serve until a signal asks for the end; an unsafe way to start is refused with a safe one."""
    check_door(door)
    check_front(door, tls_front)
    with open_listener(door) as listener:
        door = replace(door, port=listener.getsockname()[1])
        # What a host told this process is nobody's word here.
        plain = {name: environ[name] for name in ("PATH", "HOME") if name in environ}
        app = build_team_app(settings, plain, door, only_core=only_core)
        server = uvicorn_server(app, ConnectionLimits(seconds_to_secret=_SECONDS_TO_SECRET))
        sys.stderr.write(
            f"mcp-compaction serves a team at {door.url}\nevery request needs a token: "
            "mcp-compaction token add NAME\n"
        )
        sys.stderr.flush()
        with end_on_signals():
            server.run(sockets=[listener])
    return 0 if server.started else _NOT_STARTED


def check_front(door: ServerAddress, tls_front: str) -> None:
    """Refuse to let a team's machines in where nobody says that TLS stands in front."""
    if tls_front and not tls_front.startswith("https://"):
        raise InputError(f"{tls_front!r} is no address of TLS: write it as https://box.lan.")
    if not door.is_local and not tls_front:
        raise SettingsError(
            f"{door.host!r} can be reached from other machines, and tokens could be read on the "
            "way. Put TLS in front and say where: --tls-front https://NAME"
        )


async def check_tokens(database: TeamDatabase, door: ServerAddress) -> None:
    """Refuse to let other machines in where nobody has a token yet."""
    if not door.is_local and not await database.read("", tokens.has_tokens):
        raise SettingsError(
            "Other machines are to be let in, but nobody has a token; first run: "
            "mcp-compaction token add NAME"
        )


def build_team_app(
    settings: Settings, environ: Mapping[str, str], door: ServerAddress, *, only_core: bool = False
) -> Starlette:
    """The ASGI application for all owners of a store; its store is opened when it starts."""
    team = _Team(settings, environ, door, only_core)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with team.opened():
            yield

    return Starlette(
        routes=[
            Route("/healthz", _say_alive),
            Route("/readyz", team.say_ready),
            Route("/metrics", team.say_metrics),
            Route(PATH, _Calls(team)),
            Route(SENT, team.take_sent, methods=["GET", "POST"]),
        ],
        lifespan=lifespan,
    )


async def _say_alive(_: Request) -> Response:
    return PlainTextResponse("ok\n")


@dataclass
class _Team:
    """The applications of the owners who have called this process, and what they share."""

    settings: Settings
    environ: Mapping[str, str]
    door: ServerAddress
    only_core: bool
    statuses: Counter[int] = field(default_factory=Counter[int])
    in_flight: int = 0
    _database: TeamDatabase | None = None
    _tasks: TaskGroup | None = None
    _apps: dict[TokenIdentity, tuple[Starlette, str]] = field(
        default_factory=dict[TokenIdentity, tuple[Starlette, str]]
    )
    _compactors: dict[str, Compactor] = field(default_factory=dict[str, Compactor])  # by owner
    _making: anyio.Lock = field(default_factory=anyio.Lock)

    @property
    def database(self) -> TeamDatabase:
        """The store that all owners share."""
        assert self._database is not None  # the application has been started
        return self._database

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        """Holds the store, and the owners' applications, for the block."""
        assert self.settings.store is not None
        self._database = await open_database(self.settings.store.get_secret_value())
        try:
            await check_tokens(self._database, self.door)
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                yield
                tasks.cancel_scope.cancel()
        finally:
            await self._database.close()

    async def identify(self, scope: Scope) -> TokenIdentity | None:
        """Whose call it is, by its token."""
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        given = next((value for name, value in headers if name == b"authorization"), b"")
        text = given.decode("latin-1")
        if not text.lower().startswith(_BEARER):
            return None
        token = text[len(_BEARER) :].strip()
        return await self.database.read("", lambda tx: tokens.find_identity(tx, token), _PATIENCE)

    async def app_of(self, identity: TokenIdentity) -> tuple[Starlette, str]:
        """The application of an owner, and the secret by which it knows that we ask."""
        async with self._making:
            if identity not in self._apps:
                secret = secrets.token_urlsafe(32)
                app = build_app(
                    self.settings.model_copy(update={"owner": identity.owner}),
                    identity.project,
                    self.environ,
                    self.door,
                    secret,
                    only_core=self.only_core,
                    opens=self._open_compactor,
                )
                assert self._tasks is not None
                await self._tasks.start(_run, app)
                self._apps[identity] = (app, secret)
            return self._apps[identity]

    async def take_sent(self, request: Request) -> Response:
        """Keep what a machine of an owner sends on, or give it the pins of a project."""
        self.in_flight += 1
        try:
            answer = await self._answer_sender(request)
        except StoreError as error:
            answer = _unavailable(str(error))
        except CompactionError as error:
            answer = PlainTextResponse(f"{error}\n", status_code=422)
        except ClientDisconnect:
            answer = Response(status_code=400)  # nobody is there to read it; it comes again
        finally:
            self.in_flight -= 1
        self.statuses[answer.status_code] += 1
        return answer

    async def _answer_sender(self, request: Request) -> Response:
        identity = await self.identify(request.scope)
        if identity is None:
            return _unauthorized()
        if not may_stay(request.scope):
            return _unavailable(TOO_MANY)
        compactor = await self._compactor_of(identity.owner)
        if request.method == "GET":
            project = request.query_params.get("project", identity.project)
            pins = await list_pins(compactor, project)
            return Response(pins.model_dump_json(), media_type="application/json")
        body = await _read_body(request)
        if body is None:
            return PlainTextResponse(f"over {MOST_BODY:,} bytes\n", status_code=413)
        taken = await take_parcel(compactor, body)
        return Response(taken.model_dump_json(), media_type="application/json")

    async def _compactor_of(self, owner: str) -> Compactor:
        """The compactor for what is sent to an owner's rows."""
        async with self._making:
            if owner not in self._compactors:
                settings = self.settings.model_copy(update={"owner": owner})
                self._compactors[owner] = await self._open_compactor(settings)
            return self._compactors[owner]

    async def _open_compactor(self, settings: Settings) -> Compactor:
        store = PostgresStore(self.database, settings.owner, is_shared=True)
        return await open_compactor(settings, store=store)

    async def say_ready(self, _: Request) -> Response:
        """Whether the store answers."""
        try:
            await self.database.read("", tokens.has_tokens, _PATIENCE)
        except StoreError as error:
            return _unavailable(str(error))
        return PlainTextResponse("ready\n")

    async def say_metrics(self, request: Request) -> Response:
        """What this process has done, in Prometheus' text; for any token."""
        if await self.identify(request.scope) is None:
            return _unauthorized()
        pool = self.database.pool.get_stats()
        counts = self.database.counts
        compactions = counts["compactions"] + worker.counts["compactions"]
        lines = [
            "# TYPE mcp_compaction_requests_total counter",
            *(
                f'mcp_compaction_requests_total{{status="{status}"}} {number}'
                for status, number in sorted(self.statuses.items())
            ),
            *_metric("requests_in_flight", "gauge", self.in_flight),
            *_metric("compactions_total", "counter", compactions),
            *_metric("transactions_total", "counter", counts["transactions"]),
            *_metric("transactions_retried_total", "counter", counts["retried"]),
            *_metric("owners", "gauge", len(self._apps)),
            *_metric("pool_connections", "gauge", pool.get("pool_size", 0)),
            *_metric("pool_connections_free", "gauge", pool.get("pool_available", 0)),
            *_metric("pool_waiting", "gauge", pool.get("requests_waiting", 0)),
            *_metric("pool_waits_total", "counter", pool.get("requests_queued", 0)),
            *_metric("pool_wait_seconds_total", "counter", pool.get("requests_wait_ms", 0) / 1000),
        ]
        return PlainTextResponse("\n".join([*lines, ""]), media_type="text/plain; version=0.0.4")


async def _read_body(request: Request) -> bytes | None:
    """The body of a request; None where it is too long."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BODY:
            return None
    return bytes(body)


def _metric(name: str, kind: str, value: float) -> tuple[str, str]:
    return f"# TYPE mcp_compaction_{name} {kind}", f"mcp_compaction_{name} {value:g}"


async def _run(app: Starlette, *, task_status: TaskStatus[None]) -> None:
    """Hold an application open until the process ends."""
    async with app.router.lifespan_context(app):
        task_status.started()
        await anyio.sleep_forever()


@dataclass(frozen=True)
class _Calls:
    """Passes each call on to the application of its owner."""

    team: _Team

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        team = self.team

        async def note(message: Message) -> None:
            if message["type"] == "http.response.start":
                team.statuses[message["status"]] += 1
            await send(message)

        team.in_flight += 1
        try:
            await self._pass_on(scope, receive, note)
        except ClientDisconnect:
            pass  # nobody is there to be answered
        finally:
            team.in_flight -= 1

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            identity = await self.team.identify(scope)
        except StoreError as error:
            await _unavailable(str(error))(scope, receive, send)
            return
        if identity is None:
            await _unauthorized()(scope, receive, send)
            return
        # At once: what comes before the application is ready may take longer than a stranger has.
        if not may_stay(scope):
            await _unavailable(TOO_MANY)(scope, receive, send)
            return
        app, secret = await self.team.app_of(identity)
        # The token goes no further, so that nothing behind this can log it.
        headers = [pair for pair in scope["headers"] if pair[0] != b"authorization"]
        headers.append((b"authorization", f"Bearer {secret}".encode()))
        await app({**scope, "headers": headers, "app": app}, receive, send)


def _unauthorized() -> Response:
    return PlainTextResponse(
        "This needs a token: Authorization: Bearer TOKEN\n",
        status_code=401,
        headers={"WWW-Authenticate": 'Bearer error="invalid_token"'},
    )


def _unavailable(why: str) -> Response:
    return PlainTextResponse(
        f"{why}\n", status_code=503, headers={"Retry-After": str(RETRY_SECONDS)}
    )

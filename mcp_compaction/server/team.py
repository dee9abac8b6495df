"""Serves a team over HTTP: each token opens the rows of its owner, by an application of its own.

Nothing of a session is kept between requests, so that any process may answer any of them.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import anyio
from anyio.abc import TaskGroup, TaskStatus
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, request_response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_compaction import worker
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.door import (
    BoundedServer,
    ConnectionLimits,
    Door,
    bearer_of,
    open_listener,
    without_header,
)
from mcp_compaction.errors import CompactionError, InputError, SettingsError, StoreBusy, StoreError
from mcp_compaction.sending.parcel import MOST_BODY as MOST_SENT
from mcp_compaction.sending.parcel import PATH as SENT
from mcp_compaction.server.http import (
    MOST_BODY,
    PATH,
    ServerAddress,
    build_mcp_app,
    check_door,
    end_on_signals,
    names_of,
    run_inside,
)
from mcp_compaction.server.receiving import check_project, list_pins, take_parcel
from mcp_compaction.settings import Settings
from mcp_compaction.store.postgres import tokens
from mcp_compaction.store.postgres.database import TeamDatabase, open_database
from mcp_compaction.store.postgres.store import PostgresStore
from mcp_compaction.store.postgres.tokens import TokenIdentity, hash_token
from mcp_compaction.wiring import open_workspace

_PATIENCE = 2.0  # seconds; a connection without a token is not held for long
_SECONDS_TO_SECRET = 60.0  # a token is looked up in a database, which may be busy
_NOT_STARTED = 3  # as other commands end whose store cannot be used
_PROJECT = "team"  # that calls mean whose token reaches all
_IDENTITY = "mcp_compaction.identity"


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
    with open_listener(door.port, door.host) as listener:
        door = replace(door, port=listener.getsockname()[1])
        # What a host told this process is nobody's word here.
        plain = {name: environ[name] for name in ("PATH", "HOME") if name in environ}
        app = build_team_app(settings, plain, door, only_core=only_core)
        server = BoundedServer(app, ConnectionLimits(seconds_to_secret=_SECONDS_TO_SECRET))
        sys.stderr.write(
            f"mcp-compaction serves a team at {door.url}\nevery request needs a token: "
            "mcp-compaction team token add NAME\n"
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
            "mcp-compaction team token add NAME"
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
            Route("/readyz", Door(request_response(team.say_ready), None, None)),
            team.route("/metrics", request_response(team.say_metrics), 0),
            team.route(PATH, team.pass_on, MOST_BODY),
            team.route(SENT, request_response(team.take_sent), MOST_SENT, "GET", "POST"),
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
    _apps: dict[TokenIdentity, Starlette] = field(default_factory=dict[TokenIdentity, Starlette])
    _workspaces: dict[str, Workspace] = field(default_factory=dict[str, Workspace])  # by owner
    _making: anyio.Lock = field(default_factory=anyio.Lock)

    def __post_init__(self) -> None:
        self.known = KnownTokens(
            lambda: self.database.read("", tokens.list_hashes, _PATIENCE),
            lambda token: self.database.read(
                "", lambda tx: tokens.find_identity(tx, token), _PATIENCE
            ),
        )

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
        self._database.place = "the team's store"  # those who call need not know where it is
        try:
            await check_tokens(self._database, self.door)
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                yield
                tasks.cancel_scope.cancel()
        finally:
            await self._database.close()

    def route(self, path: str, app: ASGIApp, most_body: int, *methods: str) -> Route:
        """A path behind the door, whose requests are counted."""
        door = Door(app, names_of(self.door), self.admit, most_body)

        async def count(scope: Scope, receive: Receive, send: Send) -> None:
            async def note(message: Message) -> None:
                if message["type"] == "http.response.start":
                    self.statuses[message["status"]] += 1
                await send(message)

            self.in_flight += 1
            try:
                await door(scope, receive, note)
            finally:
                self.in_flight -= 1

        # Not the function itself, which a route would take for a handler of requests.
        return Route(path, Door(count, None, None), methods=methods or None)

    async def say_ready(self, _: Request) -> Response:
        """Whether the store answers; however many ask, the list alone is read."""
        await self.known.read()
        return PlainTextResponse("ready\n")

    async def admit(self, scope: Scope) -> Scope | None:
        """A request with the identity of its token in the token's place; None without one."""
        token = bearer_of(scope)
        identity = await self.known.identify(token) if token else None
        if identity is None:
            return None
        return {**without_header(scope, b"authorization"), _IDENTITY: identity}

    async def pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a call on to the application of its owner."""
        app = await self._app_of(scope[_IDENTITY])
        await app({**scope, "app": app}, receive, send)

    async def _app_of(self, identity: TokenIdentity) -> Starlette:
        async with self._making:
            if identity not in self._apps:
                app = build_mcp_app(
                    self.settings.model_copy(update={"owner": identity.owner}),
                    identity.project or _PROJECT,
                    self.environ,
                    only_core=self.only_core,
                    opens=self._open_workspace,
                )
                assert self._tasks is not None
                await self._tasks.start(_run, app)
                self._apps[identity] = app
            return self._apps[identity]

    async def take_sent(self, request: Request) -> Response:
        """Keep what a machine of an owner sends on, or give it the pins of a project."""
        identity: TokenIdentity = request.scope[_IDENTITY]
        work = await self._workspace_of(identity.owner)
        try:
            if request.method == "POST":
                told = await take_parcel(work, await request.body(), identity.project)
            else:
                project = request.query_params.get("project", identity.project or _PROJECT)
                check_project(project, identity.project)
                told = await list_pins(work, project)
        except StoreError:
            raise
        except CompactionError as error:
            return PlainTextResponse(f"{error}\n", status_code=422)
        return Response(told.model_dump_json(), media_type="application/json")

    async def _workspace_of(self, owner: str) -> Workspace:
        """The workspace for what is sent to an owner's rows."""
        async with self._making:
            if owner not in self._workspaces:
                settings = self.settings.model_copy(update={"owner": owner})
                self._workspaces[owner] = await self._open_workspace(settings)
            return self._workspaces[owner]

    async def _open_workspace(self, settings: Settings) -> Workspace:
        store = PostgresStore(self.database, settings.owner, is_shared=True)
        return await open_workspace(settings, store=store)

    async def say_metrics(self, _: Request) -> Response:
        """What this process has done, in Prometheus' text; for any token."""
        pool = self.database.use_of_pool()
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
            *_metric("pool_connections", "gauge", pool["size"]),
            *_metric("pool_connections_free", "gauge", pool["free"]),
            *_metric("pool_waiting", "gauge", pool["waiting"]),
            *_metric("pool_waits_total", "counter", pool["waits"]),
            *_metric("pool_wait_seconds_total", "counter", pool["milliseconds"] / 1000),
        ]
        return PlainTextResponse("\n".join([*lines, ""]), media_type="text/plain; version=0.0.4")


def _metric(name: str, kind: str, value: float) -> tuple[str, str]:
    return f"# TYPE mcp_compaction_{name} {kind}", f"mcp_compaction_{name} {value:g}"


async def _run(app: Starlette, *, task_status: TaskStatus[None]) -> None:
    """Hold an application open until the process ends."""
    async with run_inside(app):
        task_status.started()
        await anyio.sleep_forever()


_BETWEEN = 0.25  # seconds from one reading of the list to the next


@dataclass(slots=True)
class KnownTokens:
    """The hashes of the tokens in force when the list was last read."""

    read_list: Callable[[], Awaitable[Iterable[str]]]
    find: Callable[[str], Awaitable[TokenIdentity | None]]
    between: float = _BETWEEN
    _hashes: set[str] = field(default_factory=set[str])
    _readings: int = 0  # begun so far
    _has_failed: bool = False  # the last one
    _turn: anyio.Lock = field(default_factory=anyio.Lock)
    _next: float = 0.0

    async def identify(self, token: str) -> TokenIdentity | None:
        """Whose token it is; None where it is nobody's, or was revoked."""
        wanted = hash_token(token)
        if wanted not in self._hashes:
            await self.read()
        if wanted not in self._hashes:
            return None
        found = await self.find(token)
        if found is None:
            self._hashes.discard(wanted)
        return found

    async def read(self) -> None:
        """Read the list, or wait for somebody who has begun to since; StoreBusy if that failed."""
        asked = self._readings
        async with self._turn:
            if self._readings == asked:
                await anyio.sleep(max(0.0, self._next - anyio.current_time()))
                self._readings += 1
                self._has_failed = True
                self._hashes = set(await self.read_list())
                self._has_failed = False
                self._next = anyio.current_time() + self.between
        if self._has_failed:
            raise StoreBusy("The tokens cannot be read; try again later.")

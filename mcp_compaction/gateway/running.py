"""Runs a gateway on a store, alone or around one process of a host."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from mcp_compaction.api.handles import OpenStore
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.policy import Policy
from mcp_compaction.door import ConnectionLimits, open_listener, serve
from mcp_compaction.errors import InputError, StoreError
from mcp_compaction.gateway import forwarding
from mcp_compaction.gateway.app import Gateway
from mcp_compaction.gateway.starting import (
    GatewayAddress,
    HostToStart,
    Start,
    make_secret,
    plan_start,
)
from mcp_compaction.gateway.turns import CallTurns
from mcp_compaction.hosts.events import hooked_hosts
from mcp_compaction.hosts.folders import trusted_environ
from mcp_compaction.hosts.limits import find_limit
from mcp_compaction.hosts.serving import PROCESS, RunningGateway, forget_gateway, note_gateway
from mcp_compaction.model import Traits
from mcp_compaction.sending.sender import sending
from mcp_compaction.settings import Settings
from mcp_compaction.wiring import SystemClock, open_workspace

RELEASE_PERCENT = 40.0  # of the window, that a compaction leaves
_LEAVING = 5.0  # seconds for what is still to be recorded when a host has ended
_ENDING = 0.4  # seconds for it when a signal asks for the end
_SWITCHING = 0.001  # seconds: requests go between the steps of a compaction in a thread
_OPENING = 3.0  # seconds for which a host is not yet started, since the store is in use
_UNTIL_THEN = (
    "Until it can be used nothing is recorded, and requests go out with the last records that were "
    "sent before, or as they come."
)
_LIMITS = ConnectionLimits(admitted=200)  # each with one to the provider
_LOGS = ("mcp_compaction", "asyncio", "uvicorn")
_NONE: Mapping[str, str] = {}
_FORWARDED = ("SIGTERM", "SIGHUP", "SIGQUIT")


@dataclass(frozen=True, slots=True)
class GatewayPlace:
    """The settings of a gateway, and the project whose sessions it serves."""

    settings: Settings
    project: str
    is_shadow: bool = False  # it only reports what it would do


@dataclass(slots=True)
class Ran:
    """A host that ran with a gateway: its exit code, requests and turns, and how it was started."""

    code: int
    requests: int
    turns: CallTurns
    start: Start


def with_large_steps(settings: Settings) -> Settings:
    """The settings with compactions that go further down, unless the user has said how far.

    Each makes the provider read the window anew: many small ones cost more than none.
    """
    policy = settings.policy
    if policy.release_percent != Policy().release_percent:
        return settings
    return settings.model_copy(
        update={"policy": policy.model_copy(update={"release_percent": RELEASE_PERCENT})}
    )


def within_limit(settings: Settings, program: str, environ: Mapping[str, str]) -> Settings:
    """The settings with the window that a host reckons with, where the user has set it there.

    Beyond it the host would compact before us. A window that is set for us counts over it.
    """
    name = Path(program).stem.lower()
    known = hooked_hosts().values()
    host = next((one for one in known if name.startswith(one.name.partition("-")[0])), None)
    if host is None or settings.policy.window_set is not None:
        return settings
    limit = find_limit(host, Traits(), environ, trusted_environ(environ, settings.home))
    if limit is None:
        return settings
    policy = settings.policy.model_copy(update={"window_tokens": limit.tokens})
    return settings.model_copy(update={"policy": policy})


@asynccontextmanager
async def open_turns(place: GatewayPlace, environ: Mapping[str, str]) -> AsyncGenerator[CallTurns]:
    """The conversations of a gateway on its store; a shadow has a store of its own, for now."""
    with TemporaryDirectory(prefix="mcp-compaction-") as folder, _keep_log_from_screen():
        settings = with_large_steps(place.settings)
        if place.is_shadow:
            settings = settings.model_copy(update={"home": Path(folder)})
        opening = StoreOpening(settings, place.project)
        sys.setswitchinterval(_SWITCHING)
        try:
            trouble = await opening.first_trouble()
            turns = CallTurns(
                opening.store,
                settings,
                is_shadow=place.is_shadow,
                trouble=trouble,
                environ=None if place.is_shadow else trusted_environ(environ, settings.home),
            )
            async with AsyncExitStack() as stack:
                if not place.is_shadow:
                    await stack.enter_async_context(sending(settings, environ))
                yield turns
            with anyio.move_on_after(_ENDING):
                await turns.close()
            await turns.give_up()
        finally:
            await opening.close()


@contextmanager
def _keep_log_from_screen() -> Generator[None]:
    """Have what is logged go only to handlers that somebody set, until the end of the block.

    The host has the screen; compactions, also those that failed, and connections that were cut are
    counted and told at the end.
    """
    logs, handler = [logging.getLogger(name) for name in _LOGS], logging.NullHandler()
    for log in logs:
        log.addHandler(handler)
    try:
        yield
    finally:
        for log in logs:
            log.removeHandler(handler)


class StoreOpening:
    """Opens the store of a gateway; where that fails, it is tried again when it is next asked for.

    A host whose history is longer than the window needs its gateway also where the store is locked
    or damaged.
    """

    def __init__(self, settings: Settings, project: str) -> None:
        self._settings = settings
        self._project = project
        self._task: asyncio.Task[Workspace] | None = None

    async def store(self) -> OpenStore:
        """The store; its errors are those of opening it."""
        work = await asyncio.shield(self._begin())
        return OpenStore(work, self._settings, self._project)

    async def first_trouble(self) -> str:
        """Why the store is not open, after a moment; empty: it is."""
        opening = self._begin()
        done, _ = await asyncio.wait({opening}, timeout=_OPENING)
        if not done:
            return f"the store is in use by another process. {_UNTIL_THEN}"
        error = opening.exception()
        if error is not None and not isinstance(error, StoreError):
            raise error
        return f"{str(error).rstrip('.')}. {_UNTIL_THEN}" if error is not None else ""

    def _begin(self) -> asyncio.Task[Workspace]:
        task = self._task
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._task = asyncio.create_task(open_workspace(self._settings))
        return task

    async def close(self) -> None:
        """Close the store, if it was opened."""
        if self._task is None:
            return
        self._task.cancel()
        with suppress(asyncio.CancelledError, StoreError):
            await (await self._task).store.close()


async def run_host(
    place: GatewayPlace,
    words: Sequence[str],
    environ: Mapping[str, str],
    server: tuple[str, ...],
    tell: Callable[[str], None],
    upstreams: Mapping[str, str] = _NONE,
) -> Ran:
    """Run a host with a gateway for this process only; gives how it ended.

    `tell`: hears what the user should know before the host has the screen. `upstreams`: the base
    URLs that the user typed, by provider; see `HostToStart`.
    """
    place = replace(place, settings=within_limit(place.settings, words[0], environ))
    with TemporaryDirectory(prefix="mcp-compaction-") as private, open_listener() as listener:
        address = GatewayAddress(listener.getsockname()[1], make_secret())
        wanted = {"MCP_COMPACTION_PROJECT": place.project, PROCESS: str(os.getpid())}
        wanted["MCP_COMPACTION_HOME"] = str(place.settings.home)
        release = with_large_steps(place.settings).policy.release_percent
        wanted["MCP_COMPACTION_RELEASE_PERCENT"] = f"{release:g}"
        if place.settings.policy.window_set is not None:
            wanted["MCP_COMPACTION_WINDOW_TOKENS"] = str(place.settings.policy.window_set)
        own = {k: v for k, v in environ.items() if k.startswith("MCP_COMPACTION_")}
        around = {**environ, **wanted}
        start = plan_start(
            HostToStart(
                words=words,
                environ=around,
                folder=Path.cwd(),
                address=address,
                server=server,
                server_environ={**own, **wanted},
                private=Path(private),
                upstreams=upstreams,
            )
        )
        async with open_turns(place, environ) as turns:
            if turns.trouble:
                tell(turns.trouble)
            gateway = Gateway(address, start.upstreams, turns)
            serving = serve(gateway, listener, _LIMITS, partial(_count_cut, turns))
            async with serving, _noted(place, address, turns, start.host):
                code, is_told_to_end = await _run_process(start)
            if not is_told_to_end:
                with anyio.move_on_after(_LEAVING):
                    await turns.close()
        return Ran(code, gateway.requests, turns, start)


@asynccontextmanager
async def serve_gateway(
    place: GatewayPlace, upstreams: Mapping[str, str], port: int, environ: Mapping[str, str]
) -> AsyncGenerator[tuple[Gateway, CallTurns]]:
    """Serve a gateway until the end of the block, for whichever host."""
    with open_listener(port) as listener:
        address = GatewayAddress(listener.getsockname()[1], make_secret())
        async with open_turns(place, environ) as turns:
            gateway = Gateway(address, upstreams, turns)
            serving = serve(gateway, listener, _LIMITS, partial(_count_cut, turns))
            async with serving, _noted(place, address, turns, ""):
                yield gateway, turns


def _count_cut(turns: CallTurns) -> None:
    turns.tally[forwarding.CUT] += 1


@asynccontextmanager
async def _noted(
    place: GatewayPlace, address: GatewayAddress, turns: CallTurns, host: str
) -> AsyncGenerator[None]:
    """Have servers, hooks and `gateway status` know of a gateway until the end of the block."""
    home, process = place.settings.home, os.getpid()
    started = SystemClock().now().isoformat(timespec="seconds")

    def note() -> None:
        running = RunningGateway(
            process=process,
            port=address.port,
            project=place.project,
            host=host,
            started=started,
            chats=dict(turns.chats),
            counts=dict(turns.tally),
            acts=not (turns.is_shadow or turns.is_aside),
        )
        with suppress(OSError):  # a disk that is full stops no host
            note_gateway(home, running)

    turns.on_change = note
    note()
    try:
        yield
    finally:
        turns.on_change = lambda: None
        forget_gateway(home, process)


async def _run_process(start: Start) -> tuple[int, bool]:
    """The exit code of a host, and whether a signal has asked for its end."""
    try:
        process = await asyncio.create_subprocess_exec(*start.words, env=start.environ)
    except OSError as error:
        raise InputError(
            f"{start.words[0]} cannot be started ({error.strerror}); is it installed?"
        ) from error
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    if sys.platform != "win32":
        # The terminal tells the host too, which decides what it means.
        loop.add_signal_handler(signal.SIGINT, lambda: None)
        for name in _FORWARDED:
            number = getattr(signal, name)
            loop.add_signal_handler(number, _send, process, number, told)
    try:
        code = await process.wait()
    finally:
        if sys.platform != "win32":
            for name in ("SIGINT", *_FORWARDED):
                loop.remove_signal_handler(getattr(signal, name))
    return (code if code >= 0 else 128 - code), told.is_set()


def _send(process: asyncio.subprocess.Process, number: int, told: asyncio.Event) -> None:
    told.set()
    if process.returncode is None:
        process.send_signal(number)

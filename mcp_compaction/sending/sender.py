"""Sends on what hooks, plugins, the gateway and tools have recorded here, beside all of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import PurePath

import anyio
import httpx2
from pydantic import ValidationError

from mcp_compaction.compactor import Compactor
from mcp_compaction.errors import CompactionError, InputError, NotSent, StoreError
from mcp_compaction.model import SessionInfo
from mcp_compaction.ports import Clock, Scope, Store
from mcp_compaction.sending.parcel import (
    MOST_BYTES,
    MOST_MESSAGES,
    PATH,
    Parcel,
    SentMessage,
    SharedPin,
    SharedPins,
    sent_message,
)
from mcp_compaction.settings import Settings
from mcp_compaction.settings_file import TOKEN
from mcp_compaction.store.columns import stamp
from mcp_compaction.store.outbox import Outbox, Target, source_of
from mcp_compaction.threads import Threads
from mcp_compaction.wiring import SystemClock, open_compactor, open_store_of

logger = logging.getLogger(__name__)

_LOOK_EVERY = 2.0  # seconds between looks at the store
_WATCH_EVERY = 10.0  # seconds between looks whether a server is named, and nobody else sends
_LONGEST_PAUSE = 60.0  # seconds while the server does not answer
_WHOLE_EVERY = 30.0  # seconds between looks at all sessions and at the server's pins
_USED_LAST = 20  # sessions that are looked at in between
_IN_USE = timedelta(days=1)  # a project whose pins are asked for
_TIMEOUT = httpx2.Timeout(30.0, connect=10.0)
_ALL = 1_000_000


@dataclass(slots=True)
class Sender:
    """Sends what waits of one store to one server."""

    settings: Settings
    store: Store
    compactor: Compactor
    outbox: Outbox
    target: Target
    http: httpx2.AsyncClient
    clock: Clock = field(default_factory=SystemClock)
    threads: Threads = field(default_factory=Threads)
    refused: set[int] = field(default_factory=set[int])  # sessions the server takes nothing of

    async def send(self, newest: int = _ALL) -> int:
        """Send all that waits of the sessions used last, the oldest of these first; how many
        messages that were."""
        sent = await self.threads.run(self.outbox.sent, self.target.server)
        scope = Scope(project=self.target.project)
        found = await self.store.sessions(scope, newest)
        if any(info.parent is not None for info in found) and newest < _ALL:
            found = await self.store.sessions(scope, _ALL)  # one of them may be the parent
        sessions = sorted(found, key=lambda info: info.id)
        by_id = {info.id: info for info in sessions}
        number = 0
        for info in sessions:
            if info.messages > sent.get(info.id, 0) and info.id not in self.refused:
                parent = None if info.parent is None else by_id.get(info.parent)
                number += await self._send_session(info, parent, sent.get(info.id, 0))
        return number

    async def _send_session(self, info: SessionInfo, parent: SessionInfo | None, after: int) -> int:
        number = 0
        async for messages in self._read(info, after):
            parcel = Parcel(
                source=source_of(self.target, info),
                parent="" if parent is None else source_of(self.target, parent),
                project=name_of_project(info.project),
                name=info.name,
                host=info.host,
                agent=info.agent,
                messages=tuple(messages),
            )
            try:
                await self._call("POST", content=parcel.model_dump_json())
            except InputError as error:  # the others need not wait for what never goes
                self.refused.add(info.id)
                why = f"{info.name} from m{messages[0].seq} on is not taken: {error}"
                await self.threads.run(self.outbox.note_trouble, why)
                break
            # Only now: killed before this line, the same messages go again and are known there.
            newest, now = messages[-1].seq, stamp(self.clock.now())
            await self.threads.run(self.outbox.note_sent, self.target.server, info.id, newest, now)
            number += len(messages)
        return number

    async def _read(self, info: SessionInfo, after: int) -> AsyncIterator[list[SentMessage]]:
        """The messages after one, in parcels of a bounded size."""
        scope = Scope(project=info.project, session=info.id)
        waiting: list[SentMessage] = []
        size = 0
        while found := await self.store.originals(scope, after=after, limit=MOST_MESSAGES):
            after = found[-1].message.seq
            for original in found:
                message = sent_message(original.message)
                if waiting and size + len(message.raw) > MOST_BYTES:
                    yield waiting
                    waiting, size = [], 0
                waiting.append(message)
                size += len(message.raw)
            if waiting:
                yield waiting
                waiting, size = [], 0

    async def fetch_pins(self) -> None:
        """Bring the server's pins of the projects in use here, and release those that it did."""
        scope = Scope(project=self.target.project)
        newest: dict[str, SessionInfo] = {}
        for info in await self.store.sessions(scope, _ALL):
            if info.updated > self.clock.now() - _IN_USE and info.parent is None:
                newest.setdefault(info.project, info)
        for project, info in newest.items():
            answer = await self._call("GET", params={"project": name_of_project(project)})
            with suppress(ValidationError):
                await self._take_pins(info, SharedPins.model_validate_json(answer.content).pins)

    async def _take_pins(self, info: SessionInfo, pins: Sequence[SharedPin]) -> None:
        server = self.target.server
        known = await self.threads.run(self.outbox.pins, server, info.project)
        for pin in pins:
            if pin.number in known:
                continue
            try:
                done = await self.compactor.pin(
                    info, pin.text, by=pin.author, kind=pin.kind, scope="project", channel="program"
                )
            except CompactionError as error:
                why = f"p{pin.number} of the server is not shown here: {error}"
                await self.threads.run(self.outbox.note_trouble, why)
                continue
            here = done.pin.number if done.is_new else None
            await self.threads.run(self.outbox.note_pin, server, info.project, pin.number, here)
        for number in known.keys() - {pin.number for pin in pins}:
            here = known[number]
            if here is not None:
                with suppress(CompactionError):  # the user has released it here before
                    await self.compactor.unpin(info, f"p{here}", by="user")
            await self.threads.run(self.outbox.drop_pin, server, info.project, number)

    async def _call(
        self, method: str, content: str = "", params: Mapping[str, str] | None = None
    ) -> httpx2.Response:
        try:
            answer = await self.http.request(
                method, f"{self.target.server}{PATH}", content=content.encode(), params=params
            )
        except (httpx2.HTTPError, OSError) as error:
            why = f"does not answer ({type(error).__name__})"
            raise NotSent(
                f"{self.target.server} {why}; what waits is kept and goes later"
            ) from error
        told = answer.text.strip()[:300]
        match answer.status_code:
            case 200:
                return answer
            case 401 | 403:
                raise NotSent(
                    f"{self.target.server} does not know the token in {TOKEN}; set another"
                )
            case 400 | 413 | 422:
                raise InputError(told)
            case status:
                raise NotSent(f"{self.target.server} answers {status}, so it goes later: {told}")


def name_of_project(project: str) -> str:
    """The name that a project has on a server: its folder's, which is the same on each machine."""
    return PurePath(project).name or project


async def send_once(settings: Settings, environ: Mapping[str, str], target: Target) -> int:
    """Send all that waits, and bring the pins; NotSent where the server does not take it."""
    store = await open_store_of(settings)
    try:
        compactor = await open_compactor(settings, store=store)
        async with _client(environ) as http:
            outbox = Outbox(settings.home)
            sender = Sender(settings, store, compactor, outbox, target, http)
            return await _try(sender, is_whole=True)
    finally:
        await store.close()


@asynccontextmanager
async def sending(settings: Settings, environ: Mapping[str, str]) -> AsyncGenerator[None]:
    """Send what is recorded for as long as the block lasts."""
    task = asyncio.create_task(keep_sending(settings, environ))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def keep_sending(settings: Settings, environ: Mapping[str, str]) -> None:
    """Send what is recorded for as long as this process lives; of several processes one does.

    Nobody waits for it, and nothing that goes wrong here reaches the caller.
    """
    if settings.store is not None:
        return
    outbox, threads = Outbox(settings.home), Threads()
    lock = outbox.lock
    try:
        while True:
            try:
                target = await threads.run(outbox.read)
                if target is not None and await threads.run(lock.try_acquire):
                    await _send_while_pointed(settings, environ, outbox, target)
            except Exception as error:  # noqa: BLE001  # it never stops the host's server
                logger.warning("nothing is sent: %r", error)
            lock.release()
            await anyio.sleep(_WATCH_EVERY)
    finally:
        lock.close()


async def _send_while_pointed(
    settings: Settings, environ: Mapping[str, str], outbox: Outbox, target: Target
) -> None:
    """Send until another server, or none, is named."""
    store = await open_store_of(settings)
    threads = Threads()
    try:
        compactor = await open_compactor(settings, store=store)
        async with _client(environ) as http:
            sender = Sender(settings, store, compactor, outbox, target, http)
            pause, whole_at = _LOOK_EVERY, -_WHOLE_EVERY
            while True:
                is_whole = anyio.current_time() - whole_at >= _WHOLE_EVERY
                try:
                    await _try(sender, is_whole=is_whole)
                    whole_at = anyio.current_time() if is_whole else whole_at
                    pause = _LOOK_EVERY
                except NotSent:
                    pause = min(pause * 2, _LONGEST_PAUSE)
                await anyio.sleep(pause)
                now = await threads.run(outbox.read)
                if now is None or (now.server, now.project) != (target.server, target.project):
                    return
    finally:
        with anyio.CancelScope(shield=True):
            await store.close()


async def _try(sender: Sender, *, is_whole: bool) -> int:
    """One pass; why it failed is noted for `doctor`."""
    try:
        if "authorization" not in sender.http.headers:
            raise NotSent(f"{TOKEN} is not set where the host was started")
        number = await sender.send(_ALL if is_whole else _USED_LAST)
        if is_whole:
            await sender.fetch_pins()
        if not sender.refused:
            await sender.threads.run(sender.outbox.note_trouble, "")
        return number
    except (NotSent, StoreError) as error:
        await sender.threads.run(sender.outbox.note_trouble, str(error))
        raise


def _client(environ: Mapping[str, str]) -> httpx2.AsyncClient:
    token = environ.get(TOKEN, "").strip()
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return httpx2.AsyncClient(headers=headers, timeout=_TIMEOUT, follow_redirects=False)

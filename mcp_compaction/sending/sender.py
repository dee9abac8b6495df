"""Sends on what hooks, plugins, the gateway and tools have recorded here, beside all of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import PurePath
from typing import Any, NamedTuple, TypeVar

import anyio
import httpx2
from pydantic import ValidationError

from mcp_compaction import compactor
from mcp_compaction.compactor.results import PinWish
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.errors import InputError, NotSent, ServerAway, StoreError
from mcp_compaction.model import Pin, SessionInfo
from mcp_compaction.ports import Clock, Scope, Store
from mcp_compaction.sending.parcel import (
    MOST_BODY,
    MOST_BYTES,
    MOST_MESSAGES,
    PATH,
    Parcel,
    SentMessage,
    ServerAnswer,
    SharedPin,
    SharedPins,
    TakenParcel,
    sent_message,
    sent_pin,
)
from mcp_compaction.settings import Settings
from mcp_compaction.settings_file import TOKEN
from mcp_compaction.store.outbox import Outbox, SentPinNote, Target, source_of
from mcp_compaction.store.sql import stamp
from mcp_compaction.threads import Threads
from mcp_compaction.wiring import SystemClock, open_store_of, open_workspace

logger = logging.getLogger(__name__)

_LOOK_EVERY = 2.0  # seconds between looks at the store
_WATCH_EVERY = 10.0  # seconds between looks whether a server is named, and nobody else sends
_LONGEST_PAUSE = 60.0  # seconds while the server does not answer
_WHOLE_EVERY = 30.0  # seconds between looks at all sessions and at the server's pins
_USED_LAST = 20  # sessions that are looked at in between
_IN_USE = timedelta(days=1)  # a project whose pins are asked for
_TIMEOUT = httpx2.Timeout(30.0, connect=10.0)
_REFUSED_AGAIN = 3600.0  # seconds until what was refused is tried again
_ALL = 1_000_000
_NO_TOKEN = f"{TOKEN} is not set where the host was started"

A = TypeVar("A", bound=ServerAnswer)


@dataclass(slots=True)
class Sender:
    """Sends what waits of one store to one server."""

    settings: Settings
    store: Store
    workspace: Workspace
    outbox: Outbox
    target: Target
    http: httpx2.AsyncClient
    clock: Clock = field(default_factory=SystemClock)
    threads: Threads = field(default_factory=Threads)
    refused: dict[str, str] = field(default_factory=dict[str, str])  # sessions by source: why not
    refused_pins: dict[str, str] = field(default_factory=dict[str, str])  # here or there: why not
    _tried: float = -_REFUSED_AGAIN  # when all sessions were last tried

    async def send(self, newest: int = _ALL) -> int:
        """Send all that waits of the sessions used last, the oldest of these first; how many
        messages that were."""
        if newest == _ALL:
            self.refused_pins.clear()
        if anyio.current_time() - self._tried >= _REFUSED_AGAIN:
            self._tried = anyio.current_time()
            self.refused.clear()
        scope = Scope(project=self.target.project)
        found = await self.store.sessions(scope, newest)
        sent = await self.threads.run(self.outbox.sent, self.target.server)
        waiting = [info for info in found if info.messages > sent.get(self._source(info), 0)]
        by_id = {info.id: info for info in found}
        if newest < _ALL and any(info.parent not in (None, *by_id) for info in waiting):
            by_id = {info.id: info for info in await self.store.sessions(scope, _ALL)}
        number = 0
        for info in sorted(waiting, key=lambda info: info.id):
            if self._source(info) not in self.refused:
                parent = None if info.parent is None else by_id.get(info.parent)
                number += await self._send_session(info, parent, sent.get(self._source(info), 0))
        await self._send_pins(found)
        return number

    def _source(self, info: SessionInfo) -> str:
        return source_of(self.target, info.id, stamp(info.created))

    def _parcel_of(self, info: SessionInfo, **what: Any) -> Parcel:
        """A parcel of one session, with what it brings."""
        return Parcel(
            source=self._source(info),
            project=name_of_project(info.project),
            name=info.name,
            host=info.host,
            agent=info.agent,
            **what,
        )

    async def _send_session(self, info: SessionInfo, parent: SessionInfo | None, after: int) -> int:
        number, source = 0, self._source(info)
        async for messages in self._read(info, after):
            of_parent = "" if parent is None else self._source(parent)
            parcel = self._parcel_of(info, parent=of_parent, messages=tuple(messages))
            try:
                await self._post(parcel)
            except _NotTaken as error:  # the others need not wait for what never goes
                first = f"{info.name} from m{messages[0].seq} on"
                self.refused[source] = f"{first} is not taken: {error}"
                break
            # Only now: killed before this line, the same messages go again and are known there.
            newest, now = messages[-1].seq, stamp(self.clock.now())
            await self.threads.run(self.outbox.note_sent, self.target.server, source, newest, now)
            number += len(messages)
        return number

    async def _read(self, info: SessionInfo, after: int) -> AsyncIterator[list[SentMessage]]:
        """The messages after one, in parcels of a bounded size."""
        scope = Scope(project=info.project, session=info.id)
        waiting: list[SentMessage] = []
        size = 0
        while found := await self.store.originals(scope, after=after, limit=MOST_MESSAGES):
            after = found[-1].message.seq
            heard = await compactor.tell_programs(
                self.workspace, info, [one.message for one in found]
            )
            for message in map(sent_message, heard):
                if waiting and size + len(message.raw) > MOST_BYTES:
                    yield waiting
                    waiting, size = [], 0
                waiting.append(message)
                size += len(message.raw)
            if waiting:
                yield waiting
                waiting, size = [], 0

    async def _send_pins(self, sessions: Sequence[SessionInfo]) -> None:
        """Send the pins made in some projects, and that those which went before are released."""
        now = self.clock.now()
        sent = await self.threads.run(self.outbox.sent_pins, self.target.server)
        in_use = {info.project for info in sessions} | {note.project for note in sent}
        for project in sorted(in_use):
            pins = await self.store.pins(Scope(project=project), now)
            here = {pin.number: pin for pin in pins if not _is_teams(pin) and pin.used is None}
            for note in sent:
                if note.project == project and note.number not in here:
                    await self._release_there(note)
            known = {(note.number, note.checks) for note in sent}
            made_in = {info.name: info for info in sessions if info.project == project}
            for pin in here.values():
                if (pin.number, pin.checks) not in known and pin.session in made_in:
                    await self._send_pin(made_in[pin.session], pin)

    async def _send_pin(self, info: SessionInfo, pin: Pin) -> None:
        source = self._source(info)
        if pin.ref in self.refused_pins or source in self.refused:
            return
        try:
            taken = await self._post(self._parcel_of(info, pins=(sent_pin(pin),)))
        except _NotTaken as error:
            taken = TakenParcel(new=0, refused={pin.number: str(error)})
        if pin.number in taken.pins:
            # Killed before this line it goes again, and the server answers with the same number.
            there = taken.pins[pin.number]
            note = SentPinNote(pin.number, there, source, info.project, pin.checks)
            await self.threads.run(self.outbox.note_sent_pin, self.target.server, note)
        else:
            why = taken.refused.get(pin.number, "no reason is told")
            self.refused_pins[pin.ref] = f"{pin.ref} is not taken: {why}"

    async def _release_there(self, note: SentPinNote) -> None:
        project = name_of_project(note.project)
        parcel = Parcel(source=note.source, project=project, name="", released=(note.there,))
        try:
            await self._post(parcel)
        except _NotTaken as error:
            ref = f"p{note.number}"
            self.refused_pins[ref] = f"that {ref} is released is not taken: {error}"
            return
        await self.threads.run(self.outbox.drop_sent_pin, self.target.server, note.number)

    async def fetch_pins(self) -> None:
        """Bring the server's pins of the projects in use here, and release those that it did."""
        scope = Scope(project=self.target.project)
        newest: dict[str, SessionInfo] = {}
        for info in await self.store.sessions(scope, _ALL):
            if info.updated > self.clock.now() - _IN_USE and info.parent is None:
                newest.setdefault(info.project, info)
        for project, info in newest.items():
            try:
                shared = await self._get(name_of_project(project))
            except _NotTaken as error:
                self.refused_pins[project] = f"pins of {project} do not come: {error}"
                continue
            await self._take_pins(info, shared.pins)

    async def _take_pins(self, info: SessionInfo, pins: Sequence[SharedPin]) -> None:
        server = self.target.server
        known = await self.threads.run(self.outbox.pins, server, info.project)
        own = {note.there for note in await self.threads.run(self.outbox.sent_pins, server)}
        for pin in pins:
            if pin.number in known or pin.number in own:
                continue
            try:
                done = await compactor.pin(
                    self.workspace,
                    info,
                    PinWish(
                        pin.text, by=pin.author, kind=pin.kind, scope="project", channel="team"
                    ),
                )
            except InputError as error:
                why = f"p{pin.number} of the server is not shown here: {error}"
                self.refused_pins[f"{info.project} p{pin.number}"] = why
                continue
            # One that is not new may be ours of a pass that was killed before this line.
            here = done.pin.number if done.is_new or _is_teams(done.pin) else None
            await self.threads.run(self.outbox.note_pin, server, info.project, pin.number, here)
        known = await self.threads.run(self.outbox.pins, server, info.project)
        brought = {pin.number: pin for pin in await self.workspace.pins(info) if _is_teams(pin)}
        there = {pin.number: pin for pin in pins}
        for number, own_number in known.items():
            pin, shared = brought.get(own_number or 0), there.get(number)
            if shared is None:
                if pin is not None:
                    await compactor.unpin(self.workspace, info, pin.ref, by="user")
                await self.threads.run(self.outbox.drop_pin, server, info.project, number)
            elif pin is not None and pin.checks != shared.checks:
                try:
                    await compactor.set_checks(
                        self.workspace, info, pin.ref, shared.checks, by="user"
                    )
                except InputError as error:
                    why = f"the checks of p{number} of the server do not hold here: {error}"
                    self.refused_pins[f"{info.project} p{number}"] = why

    def list_refused(self) -> tuple[str, ...]:
        """What alone is not taken, and why."""
        return (*self.refused.values(), *self.refused_pins.values())

    async def _post(self, parcel: Parcel) -> TakenParcel:
        body = parcel.model_dump_json().encode()
        if len(body) > MOST_BODY:
            raise _NotTaken(f"it is longer than {MOST_BODY >> 20} MB")
        return self._read_answer(TakenParcel, await self._call("POST", body))

    async def _get(self, project: str) -> SharedPins:
        answer = await self._call("GET", b"", {"project": project})
        return self._read_answer(SharedPins, answer)

    def _read_answer(self, kind: type[A], answer: httpx2.Response) -> A:
        try:
            return kind.model_validate_json(answer.content)
        except ValidationError:  # whoever that is, it has kept nothing
            raise NotSent(
                f"{self.target.server} answers, but not as a team's server does; see its address: "
                "mcp-compaction install HOST --server URL"
            ) from None

    async def _call(
        self, method: str, body: bytes, params: Mapping[str, str] | None = None
    ) -> httpx2.Response:
        try:
            answer = await self.http.request(
                method, f"{self.target.server}{PATH}", content=body, params=params
            )
        except (httpx2.HTTPError, OSError) as error:
            why = f"does not answer ({type(error).__name__})"
            raise ServerAway(
                f"{self.target.server} {why}; what waits is kept and goes later"
            ) from error
        told = answer.text.strip()[:300]
        match answer.status_code:
            case 200:
                return answer
            case 401 | 403:
                raise NotSent(
                    f"{self.target.server} does not know the token in {TOKEN}; set another where "
                    "hosts are started, and start them again"
                )
            case 400 | 413 | 422 | 500:  # which another try would meet again
                raise _NotTaken(told)
            case status:
                raise NotSent(f"{self.target.server} answers {status}, so it goes later: {told}")


class _NotTaken(Exception):
    """The server refuses this parcel, and may take others."""


def _is_teams(pin: Pin) -> bool:
    return pin.channel == "team"


def name_of_project(project: str) -> str:
    """The name that a project has on a server: its folder's, which is the same on each machine."""
    return PurePath(project).name or project


class SentNow(NamedTuple):
    """How many messages one pass has sent, and why a server refused others."""

    messages: int
    refused: tuple[str, ...]


async def send_once(settings: Settings, environ: Mapping[str, str], target: Target) -> SentNow:
    """Send all that waits, and bring the pins; NotSent where the server does not take it."""
    if not _token_of(environ):
        raise NotSent(_NO_TOKEN)
    store = await open_store_of(settings)
    try:
        work = await open_workspace(settings, store=store)
        async with _client(environ) as http:
            outbox = Outbox(settings.home)
            sender = Sender(settings, store, work, outbox, target, http)
            number = await send_pass(sender, is_whole=True)
            return SentNow(number, sender.list_refused())
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
                    if _token_of(environ):
                        await _send_while_pointed(settings, environ, outbox, target)
                    else:  # not held on to: another host may have been started with it
                        await threads.run(outbox.note_trouble, _NO_TOKEN)
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
        work = await open_workspace(settings, store=store)
        async with _client(environ) as http:
            sender = Sender(settings, store, work, outbox, target, http)
            pause, whole_at = _LOOK_EVERY, -_WHOLE_EVERY
            while True:
                is_whole = anyio.current_time() - whole_at >= _WHOLE_EVERY
                try:
                    await send_pass(sender, is_whole=is_whole)
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


async def send_pass(sender: Sender, *, is_whole: bool) -> int:
    """One pass; why it failed is noted for `doctor`."""
    outbox, run = sender.outbox, sender.threads.run
    is_all_sent = False
    try:
        number = await sender.send(_ALL if is_whole else _USED_LAST)
        is_all_sent = True
        if is_whole:
            await sender.fetch_pins()
        if is_whole or number:  # a pass that asked the server nothing has learned nothing
            await run(outbox.note_trouble, "")
        return number
    except (NotSent, StoreError) as error:
        # A server that is away while nothing waits is nobody's trouble.
        is_idle = is_all_sent and isinstance(error, ServerAway)
        await run(outbox.note_trouble, "" if is_idle else str(error))
        raise
    finally:
        await run(outbox.note_refused, sender.list_refused())


def _token_of(environ: Mapping[str, str]) -> str:
    return environ.get(TOKEN, "").strip()


def _client(environ: Mapping[str, str]) -> httpx2.AsyncClient:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {_token_of(environ)}"}
    return httpx2.AsyncClient(headers=headers, timeout=_TIMEOUT, follow_redirects=False)

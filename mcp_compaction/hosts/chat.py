"""The chats of hosts that a process hears of, whoever tells of them: a hook, a module, a plugin.

Those only say that there is something new. What was said is read here in the host's transcripts: of
the chat, of the subagents that it started, and of the chats before it whose last words came after
their hosts had ended. So is what users typed: a request says only what some process sent, and the
words in it are the user's once they stand in the transcript as typed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from mcp_compaction import compactor
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.errors import CompactionError, InputError
from mcp_compaction.formats import FORMATS, IncomingMessage
from mcp_compaction.formats.content import parse_object
from mcp_compaction.hosts.finding import (
    chats_before,
    own_transcript,
    subagents_of,
    transcript_of_chat,
)
from mcp_compaction.hosts.recording import (
    RecordedPart,
    check_history,
    open_chat,
    project_of_chat,
    record_new,
)
from mcp_compaction.hosts.transcripts.files import FileTranscript
from mcp_compaction.hosts.transcripts.pieces import Transcript
from mcp_compaction.model import Pin, SessionInfo, Text, Traits
from mcp_compaction.ports import Mark, SessionKey
from mcp_compaction.threads import Threads

_MOST_CHATS = 64

T = TypeVar("T")

logger = logging.getLogger(__name__)

_MOST_EARLIER = 3  # chats whose last words may have come after all else


class UsersWords:
    """The texts that were typed in chats; `environ` tells where hosts keep their transcripts."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._typed: dict[int, _TypedWords] = {}  # by session, the newest is the last
        self._threads = Threads()

    async def vouch(self, work: Workspace, info: SessionInfo) -> None:
        """Count those messages of a chat's session as the user's that were typed there."""
        if info.host_session is None or info.agent or not await work.store.hearsay(info.id):
            return
        typed = self._typed.pop(info.id, None)
        chat = (info.host, info.host_session, self._environ)
        typed = typed or _TypedWords(info.project, chat)
        self._typed[info.id] = typed
        if len(self._typed) > _MOST_CHATS:
            self._typed.pop(next(iter(self._typed)))
        await compactor.vouch(work, info, await self._threads.run(typed.read))


class _TypedWords:
    """The texts that were typed in one chat of a project; each line of the transcript is read once,
    and none where the chat is another project's."""

    def __init__(self, project: str, chat: tuple[str, str, Mapping[str, str]]) -> None:
        self._project, self._chat = project, chat
        self._found: Transcript | None = None
        self._mark: Mark | None = None
        self._is_headless = False
        self._texts: dict[str, bool] = {}  # whether a person has typed each

    def read(self) -> dict[str, bool]:
        """All prompts so far."""
        found = transcript_of_chat(*self._chat) if self._found is None else None
        if found is not None and not (chat := found.chat()).is_subagent:
            is_ours = project_of_chat(found, chat, self._project) == self._project
            self._found, self._is_headless = found if is_ours else None, chat.is_headless
        while (found := self._found) is not None:
            try:
                piece = found.read(self._mark)
            except InputError:  # it was removed, or is no file any more
                self._found = self._mark = None
                break
            told = piece.agents.get("")
            for message in told.messages if told is not None else ():
                is_typed = message.via is None and not self._is_headless
                for text in _prompts_in(message):
                    self._texts[text] = is_typed or self._texts.get(text, False)
            self._mark = Mark(address=found.address, position=piece.position, tail=piece.tail)
            if piece.is_last:
                break
        return self._texts


def _prompts_in(message: IncomingMessage) -> list[str]:
    """The texts of a prompt; none where the host or an agent wrote it."""
    if message.via == "tool":
        return []
    role, parts = FORMATS[message.shape].read(
        parse_object(message.raw, "the message"), "the message"
    )
    return [part.text for part in parts if isinstance(part, Text)] if role == "user" else []


@dataclass(slots=True)
class HostChat:
    """One chat as one process knows it."""

    host: str
    session: str  # the host's own id for it
    agent: str = ""  # the subagent of that chat whose window it is
    transcript: Transcript | None = None
    named: Path | None = None  # the file that a hook names, which may not be there yet
    has_to_be_found: bool = False  # its transcript, since no hook names it
    info: SessionInfo | None = None
    has_news: bool = False  # recorded since somebody last looked at them
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    sizes: dict[Path, int] = field(default_factory=dict[Path, int])  # of subagents' transcripts


@dataclass(slots=True)
class HostChats:
    """The chats of one project; `environ` tells where hosts keep their transcripts."""

    project: str
    environ: Mapping[str, str]
    may_record: Callable[[str], bool] = lambda _: True
    # A gateway that a chat goes through records it, and shows its pins.
    has_gateway: Callable[[str], bool] = lambda _: False
    # A module of ours inside the host comes before a gateway.
    has_mod: Callable[[str], bool] = lambda _: False
    threads: Threads = field(default_factory=Threads)
    words: UsersWords = field(init=False)
    _known: dict[str, HostChat] = field(default_factory=dict[str, HostChat])
    _has_looked_back: bool = False
    _under_way: set[asyncio.Task[Any]] = field(default_factory=set[asyncio.Task[Any]])

    def __post_init__(self) -> None:
        self.words = UsersWords(self.environ)

    def hear_of(self, host: str, session: str, named: Path | None = None) -> HostChat:
        """The chat that somebody tells of; `named`: its transcript, as a hook says."""
        chat = self._known.setdefault(session, HostChat(host, session))
        chat.named = named or chat.named
        chat.has_to_be_found |= named is None
        return chat

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Do something that may go on when nobody waits for it any more, until `close`."""
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task

    async def close(self) -> None:
        """End what is under way; each session is as before or as after."""
        self._has_looked_back = True
        running = set(self._under_way)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    # Which session it is

    def _key_of(self, chat: HostChat) -> SessionKey:
        return SessionKey(
            project=self.project, host=chat.host, host_session=chat.session, agent=chat.agent
        )

    async def open(self, work: Workspace, chat: HostChat) -> SessionInfo:
        """The session of a chat; its window is the host's."""
        chat.info, _ = await open_chat(work, self._key_of(chat))
        return chat.info

    async def open_with_history(
        self, work: Workspace, chat: HostChat, window_tokens: object = None
    ) -> SessionInfo:
        """The session of a chat whose whole history comes, with the window that its host tells."""
        await check_history(work, self._key_of(chat))
        info = chat.info or await self.open(work, chat)
        told = window_tokens if isinstance(window_tokens, int) and window_tokens > 0 else None
        if work.policy.window_set is None and told not in (None, info.traits.window_tokens):
            info = await work.store.set_traits(info.id, Traits(window_tokens=told))
        chat.info = info
        return info

    async def pins(self, work: Workspace, info: SessionInfo | None) -> list[Pin]:
        """The pins in force in a chat; without a session those of the project."""
        every = await (work.pins(info) if info else work.project_pins(self.project))
        return [pin for pin in every if pin.kind != "note"]

    # Recording

    async def take(self, chat: HostChat, transcript: Transcript) -> bool:
        """Take a transcript for that of a chat, as a hook names it; False where it is another's."""
        if chat.transcript != transcript:
            told = await self.threads.run(transcript.chat)
            if told.session != chat.session or told.is_subagent:
                return False
            chat.transcript = transcript
        return True

    async def find_transcript(self, chat: HostChat) -> Transcript | None:
        """The transcript of a chat, as a hook names it, or by the host's own id for it."""
        if chat.transcript is None and chat.named is not None:
            found = await self.threads.run(own_transcript, chat.named, self.environ)
            if found is not None and found.host == chat.host:
                await self.take(chat, found)
        if chat.transcript is None and chat.has_to_be_found:
            chat.transcript = await self.threads.run(
                transcript_of_chat, chat.host, chat.session, self.environ
            )
        return chat.transcript

    async def record_if_known(self, work: Workspace, session: str | None) -> None:
        """Record what is new of a chat that somebody has told of, before a tool looks at it."""
        chat = self._known.get(session or "")
        if chat is None or (self.has_gateway(chat.session) and not self.has_mod(chat.session)):
            return
        try:
            await self.record(work, chat)
        except CompactionError as error:
            logger.warning("a chat of %s was not recorded: %s", chat.host, error)

    async def record_last(self, work: Workspace, is_meant: Callable[[str], bool]) -> None:
        """Record the last words of those chats that somebody has told of which are meant."""
        for session in filter(is_meant, tuple(self._known)):
            await self.record_if_known(work, session)

    async def record(
        self, work: Workspace, chat: HostChat, most_pieces: int | None = None
    ) -> RecordedPart:
        """Record what is new in the host's own transcripts of a chat and of its subagents."""
        async with chat.lock:
            return await self.record_locked(work, chat, most_pieces)

    async def record_locked(
        self, work: Workspace, chat: HostChat, most_pieces: int | None = None
    ) -> RecordedPart:
        """The same for one who holds the chat's lock."""
        transcript = await self.find_transcript(chat)
        if transcript is None or not self.may_record(self.project):
            return RecordedPart()
        taken = await self._record_new(work, transcript, most_pieces)
        chat.info = taken.session or chat.info
        chat.has_news |= taken.new > 0
        if isinstance(transcript, FileTranscript):
            if not self._has_looked_back and not chat.agent:
                self._has_looked_back = True
                self.start(self._look_back(work, transcript))
            await self._record_subagents(work, transcript, chat.sizes, most_pieces)
        return taken

    def _record_new(
        self, work: Workspace, transcript: Transcript, most: int | None = None
    ) -> Awaitable[RecordedPart]:
        project_of, may = partial(project_of_chat, transcript, asked=self.project), self.may_record
        return record_new(work, transcript, project_of, may_record=may, most_pieces=most)

    async def _record_subagents(
        self,
        work: Workspace,
        transcript: FileTranscript,
        sizes: dict[Path, int],
        most_pieces: int | None = None,
    ) -> None:
        for one in await self.threads.run(subagents_of, transcript, self.environ):
            size = await self.threads.run(one.size)
            if sizes.get(one.path) != size:
                taken = await self._record_new(work, one, most_pieces)
                if taken.is_complete:
                    sizes[one.path] = size

    async def _look_back(self, work: Workspace, transcript: FileTranscript) -> None:
        """Record the last words of earlier chats: their hosts ended before these were there. One
        that was never recorded, or was forgotten, stays so."""
        try:
            for one in await self.threads.run(
                chats_before, transcript, self.environ, _MOST_EARLIER
            ):
                known = await work.store.find_transcript(one.address)
                info = known.session if known is not None else None
                if info is not None and not self.has_gateway(info.host_session or ""):
                    await self._record_new(work, one)
                    await self._record_subagents(work, one, {})
        except CompactionError as error:
            logger.warning("earlier chats of %s were not recorded: %s", transcript.host, error)

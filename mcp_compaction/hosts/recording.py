"""Records what is new in a transcript: only the new bytes are read, and each message once, in the
session of ours that the host's chat is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import count
from pathlib import Path

from mcp_compaction import compactor
from mcp_compaction.compactor.sessions import read_name
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.errors import ForgottenChat, InputError, UnknownSession
from mcp_compaction.formats import Incoming
from mcp_compaction.git_folders import git_top_of
from mcp_compaction.hosts.events import hooked_hosts
from mcp_compaction.hosts.finding import subagents_of, transcripts_of_chat
from mcp_compaction.hosts.transcripts.files import FileTranscript, address_of
from mcp_compaction.hosts.transcripts.pieces import Chat, Told, Transcript, TranscriptPart
from mcp_compaction.model import SessionInfo, Traits
from mcp_compaction.ports import Mark, SessionKey
from mcp_compaction.projects import find_project
from mcp_compaction.threads import Threads

_FORGOTTEN = (
    "what was said in this chat was forgotten, and its history holds it; nothing was recorded. "
    "Begin another chat."
)

FindProject = Callable[[Chat], str | None]

_FIRST_REQUEST = timedelta(minutes=1)  # may pass between a first line and its request


def project_of_chat(transcript: Transcript, chat: Chat, asked: str | None = None) -> str | None:
    """The project in which a chat's words count, by the folder it worked in, as the host's server
    sees it: the one asked for where that folder is below it in the same repository, or not told."""
    if chat.folder is None:
        return asked
    host = hooked_hosts().get(transcript.host)
    is_told = host is not None and host.project_variable != ""
    try:
        own = find_project(chat.folder if is_told else None, chat.folder)
    except InputError as error:
        if asked is not None:
            return ""  # no project: its folder cannot be
        raise InputError(f"{str(transcript.path)!r} is not taken in: {error}") from None
    is_below = asked is not None and Path(own).is_relative_to(asked)
    return asked if is_below and git_top_of(own) == git_top_of(asked or "") else own


async def open_chat(
    work: Workspace,
    key: SessionKey,
    traits: Traits | None = None,
    started: datetime | None = None,
) -> tuple[SessionInfo, bool]:
    """The session of a host's chat, made where it is not there yet, and whether it is new."""
    info, is_new = await compactor.open_session(
        work, key, traits or Traits(owns_window=False), started
    )
    if key.host_session is not None:
        address = _address_of(key.host, key.host_session, key.agent)
        if await work.store.find_transcript(address) is None:
            mark = Mark(address=address, position=0, tail="")
            await compactor.record_transcript(
                work, info, Incoming(messages=()), via="host", mark=mark
            )
    return info, is_new


async def check_history(work: Workspace, key: SessionKey) -> None:
    """Refuse the history of a chat that was ever forgotten: it still holds what went."""
    if await is_forgotten(work, key.host, key.host_session, key.agent):
        raise ForgottenChat(_FORGOTTEN)


async def is_forgotten(work: Workspace, host: str, session: str | None, agent: str = "") -> bool:
    """Whether a chat, or the one that a subagent serves, was ever forgotten."""
    for name in {"", agent} if session is not None else ():
        known = await work.store.find_transcript(_address_of(host, session or "", name))
        if known is not None and known.session is None:
            return True
    return False


def _address_of(host: str, session: str, agent: str) -> str:
    place = "\0".join(("chat", host, session, agent))
    return "sha256:" + sha256(place.encode("utf-8", "surrogateescape")).hexdigest()


@dataclass(slots=True)
class RecordedPart:
    """A recorded part of a transcript: its session, and how many messages are new or left out."""

    session: SessionInfo | None = None  # None: it says nothing yet, or may not be recorded
    is_new: bool = False
    new: int = 0
    skipped: int = 0
    masked: Counter[str] = field(default_factory=Counter[str])
    refused: str | None = None  # the project of which nothing may be recorded
    is_complete: bool = True  # False: there is more, which the next call takes
    is_left_to_host: bool = False  # it was read as the host's word, and now is not
    typed_in: str = ""  # the chat's own project, where another was asked for


async def record_new(
    work: Workspace,
    transcript: Transcript,
    project_of: FindProject,
    *,
    name: str | None = None,
    may_record: Callable[[str], bool] = lambda _: True,
    on_progress: Callable[[int], None] = lambda _: None,
    most_pieces: int | None = None,
) -> RecordedPart:
    """Record what came since the last time; called twice, or after a kill, nothing is doubled.

    `project_of` names the project of a chat that is not known yet. What is not the host's word, or
    was said in another project, goes into a session of its own, where nobody's words are the
    user's; nothing of it is recorded where the same file was read as the host's word before. Where
    it is read as that later, such a session becomes the chat's, as far as it holds nothing else.
    `most_pieces` is for those who must not wait: a piece is at most 500 messages.
    """
    recording = _Recording(work, transcript, project_of, name, may_record)
    return await recording.run(on_progress, most_pieces)


async def note_chat_as_recorded(
    work: Workspace, info: SessionInfo, environ: Mapping[str, str], *, is_to_go: bool = False
) -> None:
    """Note that the transcripts of a session's chat are recorded to their ends: its messages came
    by another way. A transcript that begins long before the session has more, and stays as it is.

    `is_to_go`: the session is forgotten next, so that nothing which stands there now may come back,
    nor what its subagents did that have no session of their own.
    """
    if info.host_session is None:
        return
    threads = Threads()
    for one in await threads.run(transcripts_of_chat, info.host, info.host_session, environ):
        if one.chat().agent == info.agent:
            await _note_as_recorded(work, one, info, is_to_go=is_to_go)
        if is_to_go and not info.agent and isinstance(one, FileTranscript):
            for agents in await threads.run(subagents_of, one, environ):
                if await work.store.find_transcript(agents.address) is None:
                    await _note_as_recorded(work, agents, info, is_to_go=True)


async def _note_as_recorded(
    work: Workspace, transcript: Transcript, info: SessionInfo, *, is_to_go: bool
) -> None:
    known = await work.store.find_transcript(transcript.address)
    mark = known.mark if known is not None else None
    threads = Threads()
    while True:
        piece = await threads.run(transcript.read, mark)
        first = None if is_to_go or mark is not None else _first_moment(piece)
        if first is not None and first < info.created - _FIRST_REQUEST:
            return
        mark = Mark(address=transcript.address, position=piece.position, tail=piece.tail)
        await compactor.record_transcript(work, info, Incoming(messages=()), via="host", mark=mark)
        if piece.is_last:
            return


@dataclass(slots=True)
class _Recording:
    """One transcript while what is new in it is recorded."""

    _work: Workspace
    _transcript: Transcript
    _project_of: FindProject
    _name: str | None
    _may_record: Callable[[str], bool]
    _chat: Chat | None = None
    _is_hosts_word: bool = False
    _threads: Threads = field(default_factory=Threads)
    _taken: RecordedPart = field(default_factory=RecordedPart)
    _newest: Told = field(default_factory=Told)

    async def run(
        self, on_progress: Callable[[int], None], most_pieces: int | None
    ) -> RecordedPart:
        known = await self._work.store.find_transcript(self._transcript.address_if(True))
        self._is_hosts_word = self._transcript.is_hosts_word
        if self._is_hosts_word and (known is None or known.session is None):
            chat = await self._read_chat()
            asked = None if await self._find_parent(chat) else self._project_of(chat)
            own = project_of_chat(self._transcript, chat, asked)
            self._is_hosts_word = asked in (None, own)
            self._taken.typed_in = "" if self._is_hosts_word else own or "a folder that cannot be"
        address = self._transcript.address_if(self._is_hosts_word)
        if known is not None and not self._is_hosts_word:
            # Whoever vouches for it goes on with it: as the agent's word it would be there twice.
            self._taken.session, self._taken.is_left_to_host = known.session, True
            return self._taken
        known = await self._work.store.find_transcript(address)
        if known is None and await self._is_forgotten():
            return self._taken
        mark = known.mark if known is not None else None
        info = known.session if known is not None else None
        self._taken.session = info
        if info is not None and not self._may_record(info.project):
            self._taken.refused = info.project
            return self._taken
        for number in count(1):
            piece = await self._threads.run(self._transcript.read, mark)
            if piece.is_anew and await self._is_forgotten():
                break  # it may still hold what went
            self._taken.skipped += piece.skipped
            if mark is not None and piece.position == mark.position and not piece.agents:
                break
            mark = Mark(address=address, position=piece.position, tail=piece.tail)
            await self._save(piece, mark)
            on_progress(piece.position)
            self._taken.is_complete = piece.is_last
            if piece.is_last or number == most_pieces or self._taken.refused is not None:
                break
        return self._taken

    async def _save(self, piece: TranscriptPart, mark: Mark) -> None:
        if self._taken.session is None and not piece.agents:
            return
        info = await self._session(piece)
        if info is None:
            return
        own = piece.agents.pop(info.agent, Told())
        self._leave_to_last_piece(own, piece.is_last)
        for agent, told in piece.agents.items():
            await self._append(await self._open_subagent(info, agent, told), told, None)
        # Last, since it brings the mark: what was not saved before it is read again.
        await self._append(info, own, mark)

    def _leave_to_last_piece(self, own: Told, is_last: bool) -> None:
        """Let only the last piece tell of the window, which is as its newest line says."""
        newest = self._newest
        newest.reported = own.reported or newest.reported
        newest.model = own.model or newest.model
        newest.window_tokens = own.window_tokens or newest.window_tokens
        said = newest if is_last else Told()
        own.reported, own.model = said.reported, said.model
        own.window_tokens = said.window_tokens

    async def _append(self, info: SessionInfo, told: Told, mark: Mark | None) -> None:
        is_first = info.messages == 0 and mark is not None and self._taken.new == 0
        chat = await self._read_chat()
        came = Incoming(
            messages=tuple(told.messages),
            sections=chat.sections if is_first else None,
            reported=told.reported,
            first_reported=told.first_reported,
            model=told.model,
            window_tokens=told.window_tokens,
            title=told.title,
        )
        is_users = self._is_hosts_word and not await self._is_subagent(info)
        done = await compactor.record_transcript(
            self._work,
            info,
            came,
            via="tool" if not is_users else "program" if chat.is_headless else "host",
            mark=mark,
            events=tuple(told.events),
        )
        self._taken.new += done.new
        self._taken.masked += Counter(done.masked)

    # Which session it is

    async def _is_forgotten(self) -> bool:
        """Whether a file holds a chat that was ever forgotten, or its subagent."""
        if not self._transcript.is_hosts_word:
            return False
        chat, host = await self._read_chat(), self._transcript.host
        every = ((chat.session, chat.agent), (chat.parent, ""))
        return any([await is_forgotten(self._work, host, *one) for one in every])

    async def _session(self, piece: TranscriptPart) -> SessionInfo | None:
        if self._taken.session is not None:
            return self._taken.session
        chat = await self._read_chat()
        parent = await self._find_parent(chat)
        project = parent.project if parent is not None else self._project_of(chat)
        if not project:
            return None
        if not self._may_record(project):
            self._taken.refused = project
            return None
        key = await self._key_of(chat, project, parent)
        await self._take_over(key)
        started = _first_moment(piece)
        info, is_new = await open_chat(self._work, key, started=started)
        self._taken.session, self._taken.is_new = info, is_new
        return info

    async def _take_over(self, key: SessionKey) -> None:
        """Give the session that has the same chat as the agent's word to the host."""
        known = await self._work.store.find_transcript(self._transcript.address_if(False))
        copy = None if known is None else known.session
        if not self._is_hosts_word or copy is None:
            return
        lines = await self._threads.run(list, self._transcript.lines())
        said = tuple(one for line in lines for one in line.messages)
        await compactor.take_over(self._work, copy, key, Incoming(messages=said))

    async def _read_chat(self) -> Chat:
        if self._chat is None:
            self._chat = await self._threads.run(self._transcript.chat)
        return self._chat

    async def _key_of(self, chat: Chat, project: str, parent: SessionInfo | None) -> SessionKey:
        host = self._transcript.host
        if not self._is_hosts_word:
            name = self._name or await self._free_name(chat, project)
            return SessionKey(project=project, name=name, host=host, agent=chat.agent)
        if parent is None and (chat.agent or chat.parent):
            started_by = chat.parent or chat.session
            key = SessionKey(project=project, host=host, host_session=started_by)
            parent, _ = await open_chat(self._work, key)
        return SessionKey(
            project=project,
            name=self._name,
            host=host,
            host_session=chat.session,
            agent=chat.agent,
            parent=None if parent is None else parent.id,
        )

    async def _find_parent(self, chat: Chat) -> SessionInfo | None:
        """The session of the chat that started this one, where it is known."""
        if not self._is_hosts_word or chat.parent_file is None:
            return None
        known = await self._work.store.find_transcript(address_of(chat.parent_file, True))
        return None if known is None else known.session

    async def _free_name(self, chat: Chat, project: str) -> str | None:
        """The name that an export has, unless a session here has it already."""
        if chat.name is None:
            return None
        try:
            await compactor.find_session(self._work, project, read_name(chat.name))
        except UnknownSession:
            return chat.name
        except InputError:
            pass  # no session may be called so
        return None

    async def _open_subagent(self, info: SessionInfo, agent: str, told: Told) -> SessionInfo:
        """The session of a subagent whose lines stand among those of the chat that started it."""
        key = SessionKey(
            project=info.project,
            host=info.host,
            host_session=info.host_session or self._transcript.address,
            agent=agent,
            parent=info.id,
        )
        opened, _ = await open_chat(self._work, key, started=_first_moment_of(told))
        return opened

    async def _is_subagent(self, info: SessionInfo) -> bool:
        return info.parent is not None or (await self._read_chat()).is_subagent


def _first_moment(piece: TranscriptPart) -> datetime | None:
    moments = [_first_moment_of(told) for told in piece.agents.values()]
    return min((moment for moment in moments if moment is not None), default=None)


def _first_moment_of(told: Told) -> datetime | None:
    return next((message.at for message in told.messages if message.at is not None), None)

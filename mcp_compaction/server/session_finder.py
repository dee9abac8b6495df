"""The session that a call means: by its name or by the host's word, never by a guess."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_compaction import compactor
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.errors import InputError, NothingRecorded, UnknownSession
from mcp_compaction.hosts.events import closed_clients, hooked_hosts
from mcp_compaction.hosts.folders import known_hosts
from mcp_compaction.hosts.recording import open_chat
from mcp_compaction.model import SessionInfo, Traits
from mcp_compaction.ports import SessionKey
from mcp_compaction.tools.answers import name_and_title
from mcp_compaction.tools.place import Purpose


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller, as far as the host tells: its name and its own id for the conversation."""

    name: str = ""
    session: str | None = None
    is_closed: bool = False  # known to keep its window to itself
    client: str = ""  # as it calls itself

    @property
    def has_session(self) -> bool:
        """Whether the host says which conversation this is."""
        return self.session is not None

    @property
    def names_first_chat(self) -> bool:
        """Whether the host goes on naming the chat that it began with, whichever is calling."""
        host = hooked_hosts().get(self.name)
        return host is not None and host.session_variable != ""

    def named_by_hook(self, name: str) -> Caller | None:
        """The chat that a plugin or a hook of this host names in a call, as `opencode:ses_1`."""
        host, _, session = name.partition(":")
        is_known = any(known.name == host for known in known_hosts())
        if not (is_known and session and self.client.startswith(host)):
            return None
        return Caller(host, session, is_closed=True, client=self.client)


def host_of(meta: Mapping[str, Any] | None, environ: Mapping[str, str], client: str = "") -> Caller:
    """The host's own word in a call's metadata, else in the environment it started us in."""
    client = client.strip().lower()
    is_closed = client.startswith(closed_clients())
    hosts = hooked_hosts().values()
    for host in hosts:
        told = next(filter(None, map((meta or {}).get, host.session_keys)), None)
        if isinstance(told, str):
            return Caller(host.name, told, is_closed=True, client=client)
    for host in hosts:
        if told := environ.get(host.session_variable):
            return Caller(host.name, told, is_closed or not client, client)
    return Caller(is_closed=is_closed, client=client)


@dataclass(slots=True)
class SessionFinder:
    """Finds the session a call means; remembers those this process has made or gone on with."""

    project: str
    must_name: bool = False  # over HTTP nobody's session is the default
    by_agent: bool = True  # compress_context is offered
    known: dict[str, None] = field(default_factory=dict[str, None])

    @property
    def ways_to_start(self) -> str:
        """The calls that begin a session."""
        own = " or compress_context with a digest" if self.by_agent else ""
        return f"pin_constraint{own}"

    async def find(
        self, work: Workspace, host: Caller, name: str | None, purpose: Purpose
    ) -> tuple[SessionInfo, bool]:
        """The session, and whether it was made just now; asks back rather than guess."""
        told = host.named_by_hook(name.strip()) if name is not None else None
        if told is not None and not self.must_name:
            return await self._find_of_host(work, told, purpose)
        if name is not None:
            return await self._find_named(work, name, purpose)
        if self.must_name:
            raise InputError('pass session="NAME": over HTTP every call names its session.')
        if host.has_session:
            return await self._find_of_host(work, host, purpose)
        if (only := await self._only_known(work)) is not None:
            return only, False
        if self.known or purpose == "look":
            raise UnknownSession(await self._question_which(work))
        return self._remember(
            *await compactor.open_session(
                work, SessionKey(project=self.project), Traits(owns_window=False)
            )
        )

    async def _find_named(
        self, work: Workspace, name: str, purpose: Purpose
    ) -> tuple[SessionInfo, bool]:
        try:
            found = await compactor.find_session(
                work, self.project, name, by_title=purpose == "look"
            )
            return self._remember(found, False) if purpose == "make" else (found, False)
        except UnknownSession as unknown:
            await self._refuse_if_elsewhere(work, name)
            if purpose == "look":
                raise unknown
        key = SessionKey(project=self.project, name=name)
        return self._remember(*await compactor.open_session(work, key, Traits(owns_window=False)))

    async def _refuse_if_elsewhere(self, work: Workspace, name: str) -> None:
        """Name the session of another project that may be meant, rather than begin a second."""
        elsewhere = None if self.must_name else await compactor.find_named(work, None, name)
        if elsewhere is not None:
            raise UnknownSession(
                f'"{elsewhere.name}" is a session of another project, {elsewhere.project}; '
                f'recall_archived with session="{elsewhere.name}" and scope="all" reads it from '
                "here. For a session of this project pass another name."
            )

    async def _find_of_host(
        self, work: Workspace, host: Caller, purpose: Purpose
    ) -> tuple[SessionInfo, bool]:
        if purpose == "make":
            key = SessionKey(project=self.project, host=host.name, host_session=host.session)
            return self._remember(*await open_chat(work, key))
        info = await work.store.find_host_session(self.project, host.session or "", host.name)
        if info is None:
            raise NothingRecorded(
                f"nothing of this chat is kept yet; {self.ways_to_start} starts it. What other "
                'chats kept: recall_archived with scope="project", or by session=NAME.'
            )
        return self._remember(info, False)

    async def _question_which(self, work: Workspace) -> str:
        recent = await compactor.list_sessions(work, self.project, 5)
        if not recent:
            return f"no session is recorded here yet; {self.ways_to_start} starts one."
        names = ", ".join(map(name_and_title, recent))
        return (
            "which session? This host does not say which chat is calling. Known here: "
            f'{names}. Pass session="NAME": one of these, or a new name for a new chat.'
        )

    def remember(self, info: SessionInfo) -> None:
        """Take a session of this project for one that this process goes on with."""
        if info.project == self.project:
            self.known[info.name] = None

    async def _only_known(self, work: Workspace) -> SessionInfo | None:
        """The one session this process has made or gone on with, if it is still there."""
        if len(self.known) != 1:
            return None
        (name,) = self.known
        try:
            return await compactor.find_session(work, self.project, name)
        except UnknownSession:  # its owner has forgotten it
            self.known.clear()
            return None

    def _remember(self, info: SessionInfo, is_new: bool) -> tuple[SessionInfo, bool]:
        self.remember(info)
        return info, is_new

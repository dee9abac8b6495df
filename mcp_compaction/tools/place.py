"""Where a tool is called: the session that is meant, and all that differs between callers."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

from mcp_compaction import compactor
from mcp_compaction.api.handles import OpenSession, check_records
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.errors import InputError, NeedsUser
from mcp_compaction.home import default_home
from mcp_compaction.model import Ask, Mode, Outcome, SessionInfo
from mcp_compaction.program import complete, typed_command
from mcp_compaction.threads import Threads
from mcp_compaction.tools.answers import HookedChat

Purpose = Literal["make", "look"]


class CallAnswer(NamedTuple):
    """The answer of a tool, the session it is of, and the value that came of it."""

    text: str
    info: SessionInfo | None
    done: Any = None
    is_new: bool = False  # the session was made just now
    shows_pins: bool = False  # where the window is not the caller's own, pins come first


class CallPlace:
    """The call of a loop in this process, whose session is open; that of a server differs."""

    is_named = True  # the caller has said which session is meant
    must_name = False  # nobody's session is the default, and no other project's is read
    environ: Mapping[str, str] = os.environ

    def __init__(self, session: OpenSession) -> None:
        self._session = session
        self.settings, self.project = session.store.settings, session.store.project
        self.threads = Threads()

    async def workspace(self) -> Workspace:
        """The workspace; where it cannot be opened, the call fails."""
        return self._session.store.workspace

    async def session(self, purpose: Purpose) -> tuple[SessionInfo, bool]:
        """The session that is meant, and whether it was made just now."""
        return self._session.info, False

    async def session_if_any(self) -> SessionInfo | None:
        """The session that is meant, if it is there already."""
        try:
            return (await self.session("look"))[0]
        except InputError:
            return None

    async def session_to_pin(self, known: SessionInfo | None) -> tuple[SessionInfo, bool]:
        """The session of a new pin, and whether it was made just now; `known`: as it was found."""
        return await self.session("make")

    async def find(self, scope: str) -> SessionInfo:
        """The session that a recall means."""
        return (await self.session("look"))[0]

    async def find_to_resume(self, scope: str) -> SessionInfo:
        """The session of which a brief is wanted."""
        return await self.find(scope)

    def check_records(self) -> None:
        """Refuse to keep what the user asked not to have kept."""
        check_records(self._session.store)

    def mode(self, info: SessionInfo) -> Mode:
        """Who can make the session's window smaller, and what becomes of pins."""
        return "own"

    @property
    def by_agent(self) -> bool:
        """Whether the agent decides when to compress; else the system does."""
        return self.settings.policy.agent_controlled

    def is_prepared(self, info: SessionInfo) -> bool:
        """Whether hooks put back what is prepared, once the host has compacted by itself."""
        return False

    def is_of_another_chat(self, info: SessionInfo) -> bool:
        """Whether a host says which chat is calling, and it is not that session's."""
        return False

    async def hooked(self, info: SessionInfo, tokens: int) -> HookedChat | None:
        """What is known of a chat of which its host tells; None where no host does."""
        return None

    async def hear_words(self, info: SessionInfo, text: str) -> None:
        """Wait a moment until the user's words are recorded that an agent pins at once."""

    async def compress(self, info: SessionInfo, ask: Ask) -> Outcome:
        """Compact the session as asked."""
        return await compactor.compress(await self.workspace(), info, ask)

    @contextmanager
    def asking_user(self, info: SessionInfo | None) -> Generator[None]:
        """Have what only the user may run work in the user's terminal, in whatever folder."""
        try:
            yield
        except NeedsUser as error:
            raise NeedsUser(self.complete_commands(str(error), info)) from error

    def complete_commands(self, text: str, info: SessionInfo | None) -> str:
        """The text with its commands as the user can run them, in whatever folder."""
        options = {"--project": self.project}
        if info is not None:
            options = {"--project": info.project, "--session": info.name}
        unset = {name: v for name, v in self.environ.items() if name != "MCP_COMPACTION_HOME"}
        # A team's store is in no folder of whoever asks.
        if self.settings.store is None and self.settings.home != default_home(unset):
            options = {"--home": str(self.settings.home), **options}
        return complete(text, typed_command(self.environ.get("PATH")), options)

"""What users typed in chats, or programs sent, as the hosts' own transcripts have it.

A request says only what some process sent. The words in it are the user's once they stand in the
transcript as typed.
"""

from __future__ import annotations

from collections.abc import Mapping

from mcp_compaction import compactor
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.errors import InputError
from mcp_compaction.formats import FORMATS, IncomingMessage
from mcp_compaction.formats.jsontext import parse_object
from mcp_compaction.hosts.finding import transcript_of_chat
from mcp_compaction.hosts.identity import project_of_chat
from mcp_compaction.hosts.transcripts.pieces import Transcript
from mcp_compaction.model import SessionInfo, Text
from mcp_compaction.ports import Mark
from mcp_compaction.threads import Threads

_MOST_CHATS = 64


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

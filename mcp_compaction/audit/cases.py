"""Finds the compactions in a transcript: what the window held before each, and what came after."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from mcp_compaction.evals.handover.turns import turns_of
from mcp_compaction.formats import IncomingMessage
from mcp_compaction.hosts.transcripts.pieces import Compacted, Transcript, TranscriptLine


@dataclass(slots=True)
class AuditCase:
    """One compaction of a chat.

    `fresh` was said since the compaction before; of what was said earlier, the window held only
    what that one left.
    """

    host: str
    chat: str
    number: int  # in its chat, from 1 on
    at: datetime | None
    told: Compacted
    model: str | None
    fresh: list[IncomingMessage]
    window_before: str  # what the compaction before has left
    everything: str  # all that was said in the chat before
    folder: str = ""  # of the project, where the file says it
    summary: str = ""
    kept: list[IncomingMessage] = field(default_factory=list[IncomingMessage])
    later: list[IncomingMessage] = field(default_factory=list[IncomingMessage])
    is_ours: bool = False
    tokens_after: int | None = None  # as the host's next count has it

    @property
    def left(self) -> str:
        """What stood in the window after it: the summary, and what was kept."""
        kept = [turn.text for turn in turns_of(self.kept)]
        return "\n".join((self.summary, self.told.kept_text, *kept))


def cases_of(transcript: Transcript) -> Iterator[AuditCase]:
    """The compactions of a chat in their order; all of them are held at once."""
    reader = _Reader(transcript)
    for line in transcript.lines():
        reader.take(line)
    yield from reader.cases


class _Reader:
    """Cuts what a transcript tells at its compactions."""

    def __init__(self, transcript: Transcript) -> None:
        chat = transcript.chat()
        self.cases: list[AuditCase] = []
        self._host = transcript.host
        self._agent = chat.agent
        self._folder = chat.folder or ""
        self._chat = f"{chat.session or transcript.path.stem}{f' {chat.agent}' * bool(chat.agent)}"
        self._fresh: list[IncomingMessage] = []
        self._by_id: dict[str, IncomingMessage] = {}
        self._said: list[str] = []
        self._tokens: int | None = None
        self._model: str | None = None

    def take(self, line: TranscriptLine) -> None:
        """Take in what one line tells."""
        if line.agent != self._agent:
            return
        self._model = line.model or self._model
        if line.compacted is not None:
            self._begin(line, line.compacted)
        elif line.reported is not None:
            self._count(line.reported)
        if line.summary and self.cases:
            self.cases[-1].summary = line.summary
            return  # it is the host's, and nobody said it
        for message in line.messages:
            self._add(message)

    def _begin(self, line: TranscriptLine, told: Compacted) -> None:
        before = self.cases[-1].left if self.cases else ""
        case = AuditCase(
            host=self._host,
            chat=self._chat,
            number=len(self.cases) + 1,
            at=line.events[0].at if line.events else None,
            told=told if told.before else told._replace(before=self._tokens),
            model=self._model,
            fresh=self._fresh,
            window_before=before,
            everything="\n".join(self._said),
            folder=self._folder,
            is_ours=line.is_ours,
            kept=[self._by_id[one] for one in told.kept if one in self._by_id],
        )
        self.cases.append(case)
        self._fresh = []
        self._tokens = None

    def _count(self, tokens: int) -> None:
        self._tokens = tokens
        if self.cases and self.cases[-1].tokens_after is None:
            self.cases[-1].tokens_after = tokens

    def _add(self, message: IncomingMessage) -> None:
        known = self._by_id.get(message.host_id or "")
        if known is not None:  # a compaction wrote it down once more
            if self.cases and known not in self.cases[-1].kept:
                self.cases[-1].kept.append(known)
            return
        if message.host_id:
            self._by_id[message.host_id] = message
        self._fresh.append(message)
        self._said += [turn.text for turn in turns_of([message])]
        if self.cases:
            self.cases[-1].later.append(message)

"""Finds the compactions of what hosts keep, or of what is at a path, and audits them: what each
compaction lost, what it cost, and what ours would have left; one chat after another, the newest
first."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from mcp_compaction.audit.report import (
    RULES,
    Audit,
    Audited,
    CompactionCost,
    Ours,
    Things,
    WindowText,
    carry,
    count_again,
    count_things,
    find_broken,
    find_invented,
    needed_of,
    things_of,
    window_of,
)
from mcp_compaction.core.text.host_texts import without_host_texts
from mcp_compaction.core.text.words import fold
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.counters.o200k import best_counter
from mcp_compaction.errors import InputError
from mcp_compaction.evals.handover import SMALLEST_WINDOW
from mcp_compaction.evals.handover_sessions import files_of, turns_of
from mcp_compaction.evals.subject import Subject, subject
from mcp_compaction.formats import Incoming, IncomingMessage
from mcp_compaction.formats.content import dump_original
from mcp_compaction.formats.usage import Usage
from mcp_compaction.gateway.money import price_of
from mcp_compaction.hosts.finding import transcripts_at
from mcp_compaction.hosts.folders import known_hosts
from mcp_compaction.hosts.transcripts.pieces import Compacted, Transcript, TranscriptLine
from mcp_compaction.ports import TokenCounter
from mcp_compaction.store.listing import short_title

HOSTS: Final = tuple(host.name for host in known_hosts() if host.is_audited)


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
    title: str = ""  # the host's, else the first words of the chat
    summary: str = ""
    kept: list[IncomingMessage] = field(default_factory=list[IncomingMessage])
    later: list[IncomingMessage] = field(default_factory=list[IncomingMessage])
    is_ours: bool = False
    tokens_after: int | None = None  # as the host's next count has it

    @property
    def came(self) -> list[IncomingMessage]:
        """All that the window held before: what the compaction before left, which is the host's own
        word, and what was said since."""
        if not self.window_before.strip():
            return self.fresh
        raw = dump_original({"role": "user", "content": self.window_before}, "the summary")
        return [IncomingMessage(shape="anthropic", raw=raw, via="tool"), *self.fresh]

    @property
    def left(self) -> str:
        """The text of the window after the compaction: the summary, and messages that were kept."""
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
        self._title = self._first_words = ""
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
        self._title = line.title or self._title
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
            title=short_title(self._title or self._first_words),
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
        (turn,) = turns_of([message])
        self._said.append(turn.text)
        if turn.role == "user" and message.via != "tool":
            self._first_words = self._first_words or without_host_texts(turn.said).strip()
        if self.cases:
            self.cases[-1].later.append(message)


MOST: Final = 50  # compactions, where nobody says how many

Tell = Callable[[float, str], None]
"""Hears how many percent are done, and what is looked at."""


@dataclass(frozen=True, slots=True)
class WantedAudit:
    """The chats that are to be audited, and how."""

    sources: tuple[str, ...] = HOSTS  # hosts, files or folders
    since: datetime | None = None
    most: int = MOST
    chat: str = ""  # how its id begins, where only one is wanted


async def audit_sources(wanted: WantedAudit, environ: Mapping[str, str], tell: Tell) -> Audit:
    """The audit of all chats; a file that cannot be read is named and left out."""
    counter = best_counter()
    looked = LookedAt()
    findings: list[Audited] = []
    for percent, cases in find_cases(wanted, environ, tell, looked):
        findings += await audit_chat(
            cases, counter, counter.count, lambda words, percent=percent: tell(percent, words)
        )
    skipped = tuple(looked.skipped)
    return Audit(chats=looked.chats, findings=tuple(findings), skipped=skipped, left=looked.left)


@dataclass(slots=True)
class LookedAt:
    """What was looked at for compactions, and what was left out."""

    chats: int = 0
    left: int = 0  # compactions beyond those that were wanted
    skipped: list[str] = field(default_factory=list[str])  # files, and why


def find_cases(
    wanted: WantedAudit, environ: Mapping[str, str], tell: Tell, looked: LookedAt
) -> Iterator[tuple[float, list[AuditCase]]]:
    """The compactions of one chat after another, the newest first, with the percent that is done;
    a file that cannot be read is noted and left out."""
    found = 0
    transcripts = sorted(_transcripts(wanted, environ, looked.skipped), key=_changed, reverse=True)
    for number, transcript in enumerate(transcripts):
        percent = 100 * number / len(transcripts)
        tell(percent, transcript.path.name)
        try:
            cases = [case for case in cases_of(transcript) if case.chat.startswith(wanted.chat)]
            if wanted.since is not None:
                cases = [case for case in cases if case.at is None or case.at >= wanted.since]
        except InputError as error:
            looked.skipped.append(str(error))
            continue
        looked.chats += 1
        room = min(len(cases), wanted.most - found)
        looked.left += len(cases) - room
        found += room
        yield percent, cases[len(cases) - room :]


def _transcripts(
    wanted: WantedAudit, environ: Mapping[str, str], skipped: list[str]
) -> Iterator[Transcript]:
    for source in wanted.sources:
        for path in files_of(source, environ, HOSTS):
            try:
                found = transcripts_at(path, environ)
            except InputError as error:
                skipped.append(str(error))
                continue
            if not found:
                skipped.append(f"{path}: no transcript of a host")
            yield from found


def _changed(transcript: Transcript) -> float:
    try:
        return transcript.path.stat().st_mtime
    except OSError:
        return 0.0


async def audit_chat(
    cases: Sequence[AuditCase],
    counter: TokenCounter,
    count: CountTokens,
    tell: Callable[[str], None],
) -> list[Audited]:
    """The findings for each compaction of one chat."""
    findings: list[Audited] = []
    held: Things = {}
    for case in cases:
        tell(f"{case.chat}, compaction {case.number}")
        async with subject(None, counter) as ours:
            came = case.came
            if came:
                await ours.record(Incoming(messages=tuple(came)))
            said = (await ours.workspace.load(ours.info)).messages[len(came) - len(case.fresh) :]
            held = carry(things_of(said), held, window_of(case.window_before))
            seen, told = await _compress(case, ours, came, count)
        findings.append(_finding_of(case, held, seen, told, count))
    return findings


async def _compress(
    case: AuditCase, ours: Subject, came: Sequence[IncomingMessage], count: CountTokens
) -> tuple[WindowText | None, Ours | None]:
    """Our view of the same input in as many tokens as the host's compaction left of it."""
    before = sum(count(turn.text) for turn in turns_of(came))
    size = count(case.left)
    if case.is_ours or not before or not size:
        return None, None
    window = max(before, SMALLEST_WINDOW)
    await ours.set_window(window)
    began = time.perf_counter()
    if size < window:  # else all of it would have fitted
        await ours.compress(100 * size / window)
    seconds = time.perf_counter() - began
    view = "\n".join(line.text for line in await ours.read_lines())
    return window_of(view), Ours(tokens=count(view), of_tokens=size, seconds=round(seconds, 3))


def _finding_of(
    case: AuditCase, held: Things, ours: WindowText | None, told: Ours | None, count: CountTokens
) -> Audited:
    left = window_of(case.left)
    early, later = turns_of(case.fresh), turns_of(case.later)
    gone = [rule for rule in sorted(held.get(RULES, ())) if not left.holds(RULES, rule)]
    said = [
        (message.host_id or "", fold(turn.said))
        for message, turn in zip(case.fresh, early, strict=True)
    ]
    places = {rule: next((at for at, s in said if fold(rule) in s), "") for rule in gone}
    broken = () if case.is_ours else find_broken(places.items(), case.later, case.folder)
    return Audited(
        host=case.host,
        chat=case.chat,
        title=case.title,
        number=case.number,
        at=case.at.isoformat() if case.at else None,
        trigger=case.told.trigger or "not told",
        is_ours=case.is_ours,
        tokens_before=case.told.before,
        tokens_after=case.told.after or case.tokens_after,
        counts=()
        if case.is_ours
        else count_things(held, needed_of(held, early, later), left, ours),
        invented=find_invented(case.summary, case.everything, case.chat),
        again=count_again(early, later, held.get(RULES, ()), count),
        broken=tuple(broken),
        lost_rules=() if case.is_ours else tuple(gone),
        cost=_cost_of(case, count),
        ours=told,
    )


def _cost_of(case: AuditCase, count: CountTokens) -> CompactionCost:
    """The price of a compaction by the model's list price: its summary's call, whose beginning the
    cache had, and the new beginning, which it had not."""
    read_anew = case.told.after or case.tokens_after
    written = count(case.summary) if case.summary else None
    price = price_of(case.model or "")
    dollars = None
    if price.is_money and not case.is_ours and case.told.before and written and read_anew:
        summary = Usage(cached=case.told.before, output=written)
        dollars = price.cost_of(summary) + price.cost_of(Usage(written=read_anew))
    return CompactionCost(
        seconds=case.told.seconds,
        read_anew=read_anew,
        summary_read=case.told.before if written else None,
        summary_written=written,
        dollars=None if dollars is None else round(dollars, 4),
    )

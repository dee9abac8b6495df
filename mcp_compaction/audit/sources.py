"""Audits what hosts keep, or what is at a path: one chat after another, the newest first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from mcp_compaction.audit.auditing import audit_chat
from mcp_compaction.audit.cases import AuditCase, cases_of
from mcp_compaction.audit.results import Audit, Audited
from mcp_compaction.counters.o200k import best_counter
from mcp_compaction.errors import InputError
from mcp_compaction.evals.handover.sessions import files_at
from mcp_compaction.hosts.finding import transcripts_at
from mcp_compaction.hosts.folders import known_hosts
from mcp_compaction.hosts.transcripts.pieces import Transcript

HOSTS: Final = ("claude-code", "codex", "opencode")
MOST: Final = 50  # compactions, where nobody says how many

Tell = Callable[[float, str], None]
"""Hears how many percent are done, and what is looked at."""


@dataclass(frozen=True, slots=True)
class WantedAudit:
    """What is to be audited."""

    sources: tuple[str, ...] = HOSTS  # hosts, files or folders
    since: datetime | None = None
    most: int = MOST
    chat: str = ""  # how its id begins, where only one is wanted


async def audit_sources(wanted: WantedAudit, environ: Mapping[str, str], tell: Tell) -> Audit:
    """What was found; what cannot be read is named and passed over."""
    counter = best_counter()
    skipped: list[str] = []
    chats = left = 0
    findings: list[Audited] = []
    transcripts = sorted(_transcripts(wanted, environ, skipped), key=_changed, reverse=True)
    for number, transcript in enumerate(transcripts):
        percent = 100 * number / len(transcripts)
        tell(percent, transcript.path.name)
        try:
            cases = [case for case in cases_of(transcript) if _is_wanted(case, wanted)]
        except InputError as error:
            skipped.append(str(error))
            continue
        chats += 1
        room = min(len(cases), wanted.most - len(findings))
        left += len(cases) - room
        newest = cases[len(cases) - room :]
        findings += await audit_chat(
            newest, counter, counter.count, lambda words, percent=percent: tell(percent, words)
        )
    return Audit(chats=chats, findings=tuple(findings), skipped=tuple(skipped), left=left)


def _transcripts(
    wanted: WantedAudit, environ: Mapping[str, str], skipped: list[str]
) -> Iterator[Transcript]:
    for source in wanted.sources:
        host = next((one for one in known_hosts() if one.name == source), None)
        paths = host.find_transcripts(environ) if host else files_at(source, HOSTS)
        for path in paths:
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


def _is_wanted(case: AuditCase, wanted: WantedAudit) -> bool:
    is_late = wanted.since is None or case.at is None or case.at >= wanted.since
    return is_late and case.chat.startswith(wanted.chat)

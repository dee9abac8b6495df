"""Finds transcripts: all of a host, or those at a path, whoever wrote them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from mcp_compaction.errors import InputError
from mcp_compaction.formats.foreign import name_foreign
from mcp_compaction.hosts.folders import HostFolder, host_of_file, known_hosts
from mcp_compaction.hosts.transcripts import claude_code, codex, gemini, opencode, own_export
from mcp_compaction.hosts.transcripts.files import (
    FileTranscript,
    LineFormat,
    first_object_of,
)
from mcp_compaction.hosts.transcripts.opencode import DatabaseTranscript
from mcp_compaction.hosts.transcripts.pieces import Chat, Transcript

LINE_FORMATS: Final[Mapping[str, LineFormat]] = {
    "a Claude Code transcript": claude_code,
    "a Codex rollout": codex,
    "a Gemini chat file": gemini,
    "an export of mcp-compaction": own_export,
}
"""The formats of JSON lines, by the names that `formats.foreign` gives their files."""
_BY_HOST: Final = {form.NAME: form for form in LINE_FORMATS.values()}


def transcripts_at(path: Path, environ: Mapping[str, str]) -> list[Transcript]:
    """The transcripts in a file or a folder; none where there is nothing of the kind.

    `environ` tells where hosts keep theirs: what lies elsewhere is not their word.
    """
    real = Path(os.path.realpath(path))
    if real.is_dir():
        files = sorted((*real.rglob("*.jsonl"), *real.rglob("*.db")), key=_depth_and_name)
        found = [_try_file(Path(os.path.realpath(file)), environ) for file in files]
        return [transcript for several in found for transcript in several]
    return list(_in_file(real, environ))


def transcripts_of_hosts(
    hosts: Iterable[HostFolder], environ: Mapping[str, str], trusted: Mapping[str, str]
) -> tuple[list[Transcript], list[str]]:
    """All that some hosts keep, and why a file of theirs could not be read.

    `environ` tells where their files are, `trusted` which of them are their word.
    """
    found: list[Transcript] = []
    failed: list[str] = []
    for path in (path for host in hosts for path in host.find_transcripts(environ)):
        try:
            found += transcripts_at(path, trusted)
        except InputError as error:
            failed.append(str(error))
    return found, failed


def own_transcript(path: Path, environ: Mapping[str, str]) -> FileTranscript | None:
    """The transcript at a path that a host's hook names; None where it is not that host's word."""
    real = Path(os.path.realpath(path))
    host = host_of_file(real, environ)
    form = _BY_HOST.get(host.name) if host is not None else None
    return None if form is None else FileTranscript(form, real, is_hosts_word=True)


def subagents_of(chat: FileTranscript, environ: Mapping[str, str]) -> list[FileTranscript]:
    """The transcripts of the subagents that a chat has started, each before those it started."""
    if chat.host == codex.NAME:
        return list(_threads_behind(chat, environ))
    folder = chat.path.with_suffix("") / claude_code.SUBAGENTS
    found = (own_transcript(path, environ) for path in sorted(folder.glob("agent-*.jsonl")))
    return [one for one in found if one is not None and one.host == chat.host]


def _threads_behind(chat: FileTranscript, environ: Mapping[str, str]) -> Iterator[FileTranscript]:
    """The rollouts of the threads that a thread of Codex has started: they lie by day, and each
    names its parent."""
    threads = {chat.chat().session}
    days = (day for day in chat.path.parents[3].glob("*/*/*") if day >= chat.path.parent)
    rollouts = (path for day in days for path in day.glob("rollout-*.jsonl"))
    for path in sorted(path for path in rollouts if path.name > chat.path.name):
        one = own_transcript(path, environ)
        if one is None or one.host != chat.host or not one.size():
            continue
        told = _first_lines_of(one)
        if told.parent is not None and told.parent in threads:
            threads.add(told.session)
            yield one


@lru_cache(maxsize=4096)
def _first_lines_of(transcript: FileTranscript) -> Chat:
    """The chat of a transcript, of which the first lines never change."""
    return transcript.chat()


def chats_before(
    chat: FileTranscript, environ: Mapping[str, str], most: int
) -> list[FileTranscript]:
    """The chats beside this one whose transcripts grew last, the newest first."""
    beside = [path for path in chat.path.parent.glob("*.jsonl") if path != chat.path]
    newest = sorted(beside, key=_moment_of, reverse=True)[:most]
    found = (own_transcript(path, environ) for path in newest)
    return [one for one in found if one is not None and one.host == chat.host]


def _moment_of(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0


def transcript_of_chat(name: str, session: str, environ: Mapping[str, str]) -> Transcript | None:
    """The transcript that a host itself keeps of a chat, by the host's own id for it."""
    every = transcripts_of_chat(name, session, environ)
    return next((one for one in every if not one.chat().agent), None)


def transcripts_of_chat(name: str, session: str, environ: Mapping[str, str]) -> list[Transcript]:
    """The transcripts that a host keeps of a chat and of the subagents that it started."""
    host = next((host for host in known_hosts() if host.name == name), None)
    paths = host.find_transcripts(environ) if host is not None else iter(())
    if name not in _BY_HOST:
        return [one for path in paths for one in _sessions_in(path) if one.session == session]
    # Their hosts name files or folders by the chat.
    named = (path for path in paths if session in str(path))
    both = (FileTranscript(_BY_HOST[name], path, is_hosts_word=True) for path in named)
    return [one for one in both if one.chat().session == session]


def _depth_and_name(path: Path) -> tuple[int, str]:
    return len(path.parts), str(path)


def _try_file(path: Path, environ: Mapping[str, str]) -> list[Transcript]:
    try:
        return list(_in_file(path, environ))
    except InputError:
        return []


def _in_file(path: Path, environ: Mapping[str, str]) -> Iterator[Transcript]:
    host = host_of_file(path, environ)
    is_database = opencode.is_database(path) if host is None else host.name not in _BY_HOST
    if is_database:
        yield from _sessions_in(path, is_hosts_word=host is not None)
        return
    told = host.name if host is not None else name_foreign(first_object_of(path))
    form = (_BY_HOST if host is not None else LINE_FORMATS).get(told or "")
    if form is not None:
        yield FileTranscript(form, path, is_hosts_word=host is not None)


def _sessions_in(path: Path, *, is_hosts_word: bool = True) -> Iterator[DatabaseTranscript]:
    """The transcripts in a file of opencode, which keeps all in one."""
    for session in opencode.sessions_in(path):
        yield DatabaseTranscript(path, is_hosts_word, session)

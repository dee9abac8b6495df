"""Finds transcripts: all of a host, or those at a path, whoever wrote them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path

from mcp_compaction.errors import InputError
from mcp_compaction.formats.foreign import name_foreign
from mcp_compaction.hosts.folders import HostFolder, find_folder_of, host_of_file, known_hosts
from mcp_compaction.hosts.transcripts import own_export
from mcp_compaction.hosts.transcripts.files import FileTranscript, LineFormat, first_object_of
from mcp_compaction.hosts.transcripts.pieces import Chat, Transcript


@cache
def line_formats() -> Mapping[str, LineFormat]:
    """The formats of JSON lines, by the names that `formats.foreign` gives their files."""
    found = {host.called: _format_of(host) for host in known_hosts()}
    found["an export of mcp-compaction"] = own_export
    return {called: form for called, form in found.items() if form is not None}


def _format_of(host: HostFolder | None) -> LineFormat | None:
    """How the lines of a host's transcripts are read; None where it keeps none, or a database."""
    reader = import_module(host.reader) if host is not None else None
    return reader if isinstance(reader, LineFormat) else None


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
    """All that some hosts keep, what changed last at the end, and why a file of theirs could not
    be read.

    `environ` tells where their files are, `trusted` which of them are their word.
    """
    found: list[Transcript] = []
    failed: list[str] = []
    for path in (path for host in hosts for path in host.find_transcripts(environ)):
        try:
            found += transcripts_at(path, trusted)
        except InputError as error:
            failed.append(str(error))
    return sorted(found, key=_depth_and_moment), failed


def own_transcript(path: Path, environ: Mapping[str, str]) -> FileTranscript | None:
    """The transcript at a path that a host's hook names; None where it is not that host's word."""
    real = Path(os.path.realpath(path))
    host = host_of_file(real, environ)
    form = _format_of(host)
    return None if form is None else FileTranscript(form, real, is_hosts_word=True)


def subagents_of(chat: FileTranscript, environ: Mapping[str, str]) -> list[FileTranscript]:
    """The transcripts of the subagents that a chat has started, each before those it started."""
    host = find_folder_of(chat.host)
    if host is not None and host.threads:
        return list(_threads_behind(chat, host, environ))
    below = chat.path.with_suffix("").glob(host.subagents if host and host.subagents else "-")
    found = (own_transcript(path, environ) for path in sorted(below))
    return [one for one in found if one is not None and one.host == chat.host]


def _threads_behind(
    chat: FileTranscript, host: HostFolder, environ: Mapping[str, str]
) -> Iterator[FileTranscript]:
    """The transcripts of the threads that a chat has started: they lie by day, and each names its
    parent."""
    threads = {chat.chat().session}
    every = sorted(host.base_in(environ).glob(host.threads))
    for path in (one for one in every if one.parent >= chat.path.parent):
        one = own_transcript(path, environ) if path.name > chat.path.name else None
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


def _depth_and_moment(transcript: Transcript) -> tuple[int, float]:
    """Subagents' transcripts lie deeper than those of the chats that started them."""
    return len(transcript.path.parts), _moment_of(transcript.path)


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
    host = find_folder_of(name)
    if host is None:
        return []
    paths = host.find_transcripts(environ)
    if _format_of(host) is None:
        every = (
            one for path in paths for one in import_module(host.reader).transcripts_in(path, True)
        )
        return [one for one in every if one.session == session]
    # Their hosts name files or folders by the chat.
    named = (path for path in paths if session in str(path))
    both = (one for path in named for one in _transcripts_of(host, path))
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
    if host is not None:
        yield from _transcripts_of(host, path)
        return
    databases = (import_module(one.reader) for one in known_hosts() if _format_of(one) is None)
    database = next((one for one in databases if one.is_database(path)), None)
    form = None if database else line_formats().get(name_foreign(first_object_of(path)) or "")
    if database is not None:
        yield from database.transcripts_in(path, is_hosts_word=False)
    if form is not None:
        yield FileTranscript(form, path, is_hosts_word=False)


def _transcripts_of(host: HostFolder, path: Path) -> Iterator[Transcript]:
    """The transcripts in a file that is a host's own."""
    form = _format_of(host)
    if form is None:
        yield from import_module(host.reader).transcripts_in(path, is_hosts_word=True)
    else:
        yield FileTranscript(form, path, is_hosts_word=True)

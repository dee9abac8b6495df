"""Reads sessions of one's own to measure with: a host's transcripts, exports, files of messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mcp_compaction.errors import InputError, MalformedMessage
from mcp_compaction.evals.handover.turns import Turn, turns_of
from mcp_compaction.formats import IncomingMessage, read_incoming_text
from mcp_compaction.hosts.finding import transcripts_at
from mcp_compaction.hosts.folders import known_hosts
from mcp_compaction.hosts.transcripts.pieces import Transcript
from mcp_compaction.ports import Mark

CUT = 0.6  # how much of a session is compacted; what comes later tells what it was worth
FEWEST_MESSAGES = 20
_PLAIN = "plain messages"  # the source of a file that no host wrote


@dataclass(frozen=True)
class RealSession:
    """A session that was cut: the messages to compact, and the turns that came after them."""

    source: str
    name: str
    early: tuple[IncomingMessage, ...]
    later: tuple[Turn, ...]  # none, where it is too short to be cut


@dataclass(frozen=True, slots=True)
class Origin:
    """A file, or a chat in it, that sessions can be read from."""

    path: Path
    transcript: Transcript | None = None

    @property
    def changed(self) -> float:
        """When the file was last changed."""
        return self.path.stat().st_mtime


def find_origins(source: str, environ: Mapping[str, str]) -> list[Origin]:
    """What a host has kept, or what is in a file or a folder, the newest first."""
    paths = files_of(source, environ, [host.name for host in known_hosts()])
    is_one_file = paths == [Path(source).expanduser()]
    found: list[Origin] = []
    for path in paths:
        # Among many files one that no host wrote is no reason to stop.
        with suppress(*() if is_one_file else (InputError,)):
            origins = [Origin(path, one) for one in transcripts_at(path, environ)]
            found += origins or ([Origin(path)] if path.suffix != ".db" else [])
    if not found:
        raise InputError(f"there is no session in {source!r}; name another host, file or folder.")
    return sorted(found, key=lambda origin: -origin.changed)


def read_newest_session(origins: Sequence[Origin]) -> RealSession:
    """The first session that can be read; where none can, the reason of the first."""
    reasons: list[InputError] = []
    for origin in origins:
        try:
            return read_session(origin)
        except InputError as error:
            reasons.append(error)
    raise reasons[0]


def read_session(origin: Origin) -> RealSession:
    """The session of a file, cut before an answer of the agent; uncut where it is too short."""
    messages = tuple(_messages_of(origin))
    if not messages:
        raise InputError(f"{origin.path} has no message in it; pass another file.")
    source = origin.transcript.host if origin.transcript else _PLAIN
    cut = int(len(messages) * CUT)
    turns = turns_of(messages)
    while cut < len(messages) and turns[cut].role != "assistant":
        cut += 1
    if len(messages) < FEWEST_MESSAGES:
        cut = len(messages)
    return RealSession(source, origin.path.stem, messages[:cut], turns[cut:])


def files_of(source: str, environ: Mapping[str, str], hosts: Iterable[str]) -> list[Path]:
    """The transcripts of a host, the file at a path, or those in a folder; `hosts`: the names that
    would have done, too."""
    host = next((host for host in known_hosts() if host.name == source), None)
    if host is not None:
        return list(host.find_transcripts(environ))
    path = Path(source).expanduser()
    if not source or not path.exists():
        names = ", ".join(hosts)
        raise InputError(f"{source!r} is no host and no file; name one of {names}, or a path.")
    return sorted((*path.rglob("*.jsonl"), *path.rglob("*.db"))) if path.is_dir() else [path]


def _messages_of(origin: Origin) -> Iterator[IncomingMessage]:
    """The messages of the chat itself, without those of agents that it started."""
    if origin.transcript is None:
        yield from _plain_messages(origin.path)
        return
    mark: Mark | None = None
    while True:
        piece = origin.transcript.read(mark)
        own = piece.agents.get(origin.transcript.chat().agent)
        yield from own.messages if own is not None else ()
        if piece.is_last:
            return
        mark = Mark(address=origin.transcript.address, position=piece.position, tail=piece.tail)


def _plain_messages(path: Path) -> Iterable[IncomingMessage]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}; pass a UTF-8 file.") from None
    try:
        return read_incoming_text(text).messages
    except MalformedMessage as error:
        raise InputError(f"{path}: {error}") from None

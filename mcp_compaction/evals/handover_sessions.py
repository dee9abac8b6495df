"""Reads sessions of one's own to measure with: a host's transcripts, exports, files of messages;
and what each of their turns says and names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mcp_compaction.core.log.content import words_of
from mcp_compaction.core.log.identifiers import find_identifiers
from mcp_compaction.core.log.tool_calls import action_of
from mcp_compaction.errors import InputError, MalformedMessage
from mcp_compaction.evals.corpora import leaves_of
from mcp_compaction.formats import IncomingMessage, read, read_incoming_text
from mcp_compaction.hosts.finding import transcripts_at
from mcp_compaction.hosts.folders import known_hosts
from mcp_compaction.hosts.transcripts.pieces import Transcript
from mcp_compaction.model import Part, Text, ToolCall
from mcp_compaction.ports import Mark

_SHORTEST_LINE, _LONGEST_LINE = 8, 160  # characters
_CODE_OR_NUMBER = re.compile(
    r"\b[A-Za-z]+(?:_[A-Za-z0-9]+)+\b|\b[A-Za-z][a-z0-9]+[A-Z]\w+\b"  # a name in code
    r"|\b\d{4,}\b|\b\d+\.\d+(?:\.\d+)+\b"  # a number, a version
)
_SHORTEST = 4
_RUN = re.compile(r"([\w./-]{0,200}?)(\d{1,4})\.\.(\d{1,4})([\w./-]*)")
_LONGEST_RUN = 400


@dataclass(frozen=True)
class Turn:
    """One message."""

    role: str
    parts: tuple[Part, ...]

    @cached_property
    def text(self) -> str:
        """All of it."""
        return "\n".join(map(words_of, self.parts))

    @cached_property
    def said(self) -> str:
        """Its words."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))

    @cached_property
    def typed(self) -> str:
        """The values that its calls pass."""
        calls = (part for part in self.parts if isinstance(part, ToolCall))
        return "\n".join(value for call in calls for value in leaves_of(call.arguments))

    @property
    def commands(self) -> Iterator[str]:
        """The lines of the commands that its calls run, without text that is fed to them."""
        for part in self.parts:
            action = action_of(part) if isinstance(part, ToolCall) else None
            if action is not None and action.kind == "run":
                yield from _lines_of_words(action.target.partition("<<")[0])

    @property
    def typed_lines(self) -> Iterator[str]:
        """The lines of what its calls pass: of files, scripts, edits."""
        return _lines_of_words(self.typed)


def _lines_of_words(text: str) -> Iterator[str]:
    """The lines of a text that have several words and a usual length."""
    for line in map(str.strip, text.split("\n")):
        if _SHORTEST_LINE <= len(line) <= _LONGEST_LINE and " " in line:
            yield line


def turns_of(messages: Sequence[IncomingMessage]) -> tuple[Turn, ...]:
    """Messages as they came, read."""
    return tuple(Turn(*read(message.shape, message.raw)) for message in messages)


def names_in(text: str) -> frozenset[str]:
    """The different names of a text."""
    found = {f.text for f in find_identifiers(text) if f.kind in ("file", "url", "id")}
    found.update(_CODE_OR_NUMBER.findall(text))
    return frozenset(name for name in found if len(name) >= _SHORTEST)


def with_runs_written_out(text: str) -> str:
    """A text with what `part_1..33.py` stands for behind it."""
    more = [
        f"{run[1]}{number}{run[4]}"
        for run in _RUN.finditer(text)
        if 0 < int(run[3]) - int(run[2]) <= _LONGEST_RUN
        for number in range(int(run[2]), int(run[3]) + 1)
    ]
    return "\n".join((text, *more))


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

"""Reads transcripts of JSON lines from a byte on: whole lines, a bounded piece at a time."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b, sha256
from pathlib import Path
from typing import BinaryIO, Final, Protocol, runtime_checkable

from mcp_compaction.errors import InputError, MalformedMessage
from mcp_compaction.formats.content import parse
from mcp_compaction.hosts.transcripts.pieces import (
    MOST_BYTES,
    MOST_MESSAGES,
    Chat,
    TranscriptLine,
    TranscriptPart,
)
from mcp_compaction.model import JsonObject
from mcp_compaction.ports import Mark

_LONGEST_LINE = 64 * 2**20  # a message has at most 16 MiB, but a host may write it twice
_TAIL_BYTES = 256
_LINES_TO_KNOW_IT = 200


@runtime_checkable
class LineFormat(Protocol):
    """The lines that one host writes."""

    NAME: Final[str]

    def chat_of(self, lines: Iterator[JsonObject], path: Path) -> Chat:
        """The chat that the first lines of a file tell of."""
        ...

    def read_line(self, obj: JsonObject, line: bytes, at: int, path: Path) -> TranscriptLine:
        """The message or compaction that a line tells, which begins at a byte of the file."""
        ...


@dataclass(frozen=True, slots=True)
class FileTranscript:
    """A transcript that is a file of JSON lines."""

    format: LineFormat
    path: Path  # real: without links
    is_hosts_word: bool

    @property
    def host(self) -> str:
        """The name of the host that wrote it."""
        return self.format.NAME

    @property
    def address(self) -> str:
        """The hash of where it is."""
        return self.address_if(self.is_hosts_word)

    def address_if(self, is_hosts_word: bool) -> str:
        """The address that it has where it is read as the host's word, or as the agent's."""
        return address_of(self.path, is_hosts_word)

    def size(self) -> int:
        """The number of its bytes."""
        with open_regular(self.path) as file:
            return os.fstat(file.fileno()).st_size

    def chat(self) -> Chat:
        """The chat that its first lines tell of."""
        with open_regular(self.path) as file:
            return self.format.chat_of(_first_objects(file), self.path)

    def read(self, mark: Mark | None) -> TranscriptPart:
        """The next piece after a mark; from the start where the file was written anew."""
        with open_regular(self.path) as file:
            is_anew = mark is not None and not _is_at(file, mark)
            piece = self._read_piece(file, 0 if mark is None or is_anew else mark.position)
            piece.is_anew = is_anew
            return piece

    def lines(self) -> Iterator[TranscriptLine]:
        """All messages of the transcript, in its order; lines that cannot be read are left out."""
        with open_regular(self.path) as file:
            for at, line in _lines(file, 0):
                obj = None if line is None else _object_in(line)
                if obj is not None and line is not None:
                    with suppress(MalformedMessage):
                        yield self.format.read_line(obj, line, at, self.path)

    def _read_piece(self, file: BinaryIO, start: int) -> TranscriptPart:
        file.seek(start)
        piece = TranscriptPart(position=start)
        for at, line in _lines(file, start):
            obj = None if line is None else _object_in(line)
            if obj is None and line is not None and not line.endswith(b"\n"):
                break  # the host is still writing it
            piece.position = file.tell()
            if obj is not None and line is not None:
                self._add_line(piece, obj, line, at)
            elif line is None or line.strip():
                piece.skipped += 1
            if piece.count >= MOST_MESSAGES or piece.position - start >= MOST_BYTES:
                piece.is_last = False
                break
        piece.tail = _tail_before(file, piece.position)
        return piece

    def _add_line(self, piece: TranscriptPart, obj: JsonObject, line: bytes, at: int) -> None:
        try:
            piece.add(self.format.read_line(obj, line, at, self.path))
        except MalformedMessage:
            piece.skipped += 1


def address_of(path: Path, is_hosts_word: bool, inner: str = "") -> str:
    """The hash of where a transcript is; a path would tell too much of what was forgotten."""
    place = "\0".join(("host" if is_hosts_word else "tool", str(path), inner))
    return "sha256:" + sha256(place.encode("utf-8", "surrogateescape")).hexdigest()


def open_regular(path: Path) -> BinaryIO:
    """A regular file to read; a pipe or a device is refused without waiting for it."""
    flags = os.O_RDONLY
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
        flags |= getattr(os, name, 0)
    try:
        number = os.open(path, flags)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"cannot read {str(path)!r}: {reason}; pass a file.") from None
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise InputError(f"{str(path)!r} is no regular file; pass the transcript itself.")
    return os.fdopen(number, "rb")


def first_object_of(path: Path) -> JsonObject | None:
    """The first JSON object that stands on a line of a file; None where there is none."""
    with open_regular(path) as file:
        return next(_first_objects(file), None)


def _first_objects(file: BinaryIO) -> Iterator[JsonObject]:
    for number, (_, line) in enumerate(_lines(file, 0)):
        if number >= _LINES_TO_KNOW_IT:
            return
        obj = None if line is None else _object_in(line)
        if obj is not None:
            yield obj


def _lines(file: BinaryIO, at: int) -> Iterator[tuple[int, bytes | None]]:
    """The lines with the bytes they begin at; None for one that is too long to be read."""
    while line := file.readline(_LONGEST_LINE):
        if len(line) < _LONGEST_LINE or line.endswith(b"\n"):
            yield at, line
        else:
            while line and not line.endswith(b"\n"):
                line = file.readline(_LONGEST_LINE)
            if not line:
                return
            yield at, None
        at = file.tell()


def _object_in(line: bytes) -> JsonObject | None:
    try:
        value = parse(line.decode(), "the line")
    except (UnicodeDecodeError, MalformedMessage):
        return None
    return value if isinstance(value, dict) else None


def _is_at(file: BinaryIO, mark: Mark) -> bool:
    """Whether what stands before the mark is what stood there when it was made."""
    if os.fstat(file.fileno()).st_size < mark.position:
        return False
    return _tail_before(file, mark.position) == mark.tail


def _tail_before(file: BinaryIO, position: int) -> str:
    start = max(0, position - _TAIL_BYTES)
    file.seek(start)
    return "b2:" + blake2b(file.read(position - start), digest_size=16).hexdigest()

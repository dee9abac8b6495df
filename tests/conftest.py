"""What holds for every test: no home directory, no network, an end, no clock of Hypothesis."""

from __future__ import annotations

import gc
import os
import shutil
import socket
import sys
from collections.abc import Generator
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from mcp_compaction.store.noted import trust_headless
from tests.ending import ends_within, heed_signals

# Hundreds of processes are started: without bytecode each would compile the package anew, and each
# worker the tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

heed_signals()

# A test without an end is failed after this many seconds, long after a busy machine has done it.
_SECONDS, _OF_MARKS = 600, {"slow": 7200, "thorough": 1800, "real_model": 1800}

TEAM = ("MCP_COMPACTION_STORE", "MCP_COMPACTION_OWNER")

settings.register_profile(
    "project",
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("project")


def pytest_collection_finish() -> None:
    """What is loaded by now stays: the collector need not look through it again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """No test waits for ever, whatever it waits for."""
    marked = [_OF_MARKS[mark.name] for mark in item.iter_markers() if mark.name in _OF_MARKS]
    with ends_within(max(marked, default=_SECONDS)):
        return (yield)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Tests that are coroutines run on the loop the program runs on."""
    return "asyncio"


@pytest.fixture(autouse=True)
def no_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that forgets to name a folder finds an empty one of its own."""
    # Most tests need no `tmp_path`, for whose name pytest looks through those of all tests before.
    home = mkdtemp(prefix="home-", dir=tmp_path_factory.getbasetemp())
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, home)
    for name in ("MCP_COMPACTION_HOME", "MCP_COMPACTION_CONFIG", "MCP_COMPACTION_PROJECT", *TEAM):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def home_of_host(tmp_path: Path) -> None:
    """A host that is run in the folder of a test finds its home there; its user gives it prompts by
    a program, and has said that these are their own words."""
    (tmp_path / "home").mkdir()
    trust_headless(users_store(tmp_path), os.path.realpath(tmp_path / "project"), is_on=True)


def users_store(folder: Path) -> Path:
    """The folder of the store of a host's user, in the folder of a test."""
    return folder / "home/.local/share/mcp-compaction"


@pytest.fixture
def taken_port() -> Generator[int]:
    """A port that somebody listens on, as a gateway does."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def memory_path(tmp_path: Path) -> Generator[Path]:
    """A folder in memory, if there is room: who kills processes need not wait for a disk."""
    memory = Path("/dev/shm")
    if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > _ROOM:
        with TemporaryDirectory(dir=memory) as folder:
            yield Path(folder)
    else:
        yield tmp_path


_ROOM = 2**30


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only this machine may be spoken to, so that no client has to read whom the web trusts."""
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", os.devnull)
    connect = socket.socket.connect

    def local_only(self: socket.socket, address: Any) -> None:
        where: Any = address
        host = str(where[0]) if isinstance(where, tuple) else ""  # pyright: ignore[reportUnknownArgumentType]
        if host not in ("", "127.0.0.1", "::1", "localhost"):
            raise AssertionError(f"a test tried to reach {host}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", local_only)

"""A shell that runs the commands in process, on a store of the test's own."""

from __future__ import annotations

import io
import json
import shutil
import sqlite3
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcp_compaction.cli.main import main
from mcp_compaction.server import probe
from tests.strategies import coding_session


class Stream(io.TextIOWrapper):
    """A stream of bytes that may say it is a terminal."""

    def __init__(self, data: bytes = b"", *, is_terminal: bool = False) -> None:
        self._bytes = io.BytesIO(data)
        super().__init__(self._bytes, encoding="utf-8", errors="strict", newline="\n")
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        """Whatever the test wants."""
        return self.is_terminal

    def text(self) -> str:
        """What was written so far."""
        self.flush()
        return self._bytes.getvalue().decode()


class Ran(NamedTuple):
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)


@dataclass(frozen=True)
class Shell:
    """Runs commands with a home, a project and an environment of their own."""

    folder: Path
    is_terminal: bool = False
    extra: tuple[tuple[str, str], ...] = ()

    @property
    def home(self) -> Path:
        """The folder of the store."""
        return self.folder / "store"

    @property
    def environ(self) -> dict[str, str]:
        """An environment without a trace of the real one."""
        return {
            "HOME": str(self.folder),
            "PATH": str(Path(sys.executable).parent),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "MCP_COMPACTION_PROJECT": str(self.folder / "project"),
            "MCP_COMPACTION_COUNTER": "estimate",
            **dict(self.extra),
        }

    def with_environ(self, extra: Mapping[str, str]) -> Shell:
        """The same shell with some variables set."""
        return replace(self, extra=tuple({**dict(self.extra), **extra}.items()))

    def at_terminal(self) -> Shell:
        """The same shell with a person before it."""
        return replace(self, is_terminal=True)

    def as_user(self) -> Shell:
        """The same shell with a person before it whose terminal has no color."""
        return self.at_terminal().with_environ({"NO_COLOR": "1"})

    def __call__(self, command: str, *argv: str, stdin: bytes = b"") -> Ran:
        """Run one command on this store."""
        return self.bare(*command.split(), "--home", str(self.home), *argv, stdin=stdin)

    def bare(self, *argv: str, stdin: bytes = b"") -> Ran:
        """Run the words as they are."""
        out, err = Stream(is_terminal=self.is_terminal), Stream(is_terminal=self.is_terminal)
        given = Stream(stdin, is_terminal=self.is_terminal)
        code = main(argv, out, err, given, self.environ)
        return Ran(code, out.text(), err.text())

    def done(self, command: str, *argv: str, stdin: bytes = b"") -> str:
        """What a command prints that must go well."""
        ran = self(command, *argv, stdin=stdin)
        assert (ran.code, ran.err) == (0, ""), ran.out
        return ran.out

    def dump(self) -> list[str]:
        """Everything in the store but the events; [] without a store."""
        path = self.home / "store.db"
        if not path.exists():
            return []
        connection = sqlite3.connect(path)
        try:
            lines = list(connection.iterdump())
        finally:
            connection.close()
        return [line for line in lines if '"event"' not in line]


def json_lines(messages: list[dict[str, Any]]) -> bytes:
    """Messages as JSON lines."""
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


CHAT = json_lines(coding_session(40, 1200))


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A shell without a store."""
    (tmp_path / "project").mkdir()
    return Shell(tmp_path)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with one long session, one compaction and one pin, to be copied."""
    made = Shell(tmp_path_factory.mktemp("template"))
    environ = {"MCP_COMPACTION_PROJECT": "/test/project"}
    made = made.with_environ(environ)
    made.done("record", "--session", "tax-2026", stdin=CHAT)
    made.as_user().done("pin", "Never push to main; only the staging key.")
    made.done("compress", "--window-tokens", "12000")
    return made.home


@pytest.fixture
def recorded(template: Path, shell: Shell) -> Shell:
    """A shell whose store holds the session tax-2026, once compressed."""
    shutil.copytree(template, shell.home)
    return shell.with_environ({"MCP_COMPACTION_PROJECT": "/test/project"})


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a server as long as a busy machine needs to start it."""
    monkeypatch.setattr(probe, "PATIENCE_SECONDS", 300.0)

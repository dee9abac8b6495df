"""One odd row in the transcript of a host is told, and the rest of the import goes on."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from tests.cli.conftest import Shell
from tests.hosts.given_hosts import make_home

HOSTS = {"claude-code": 29, "codex": 28, "gemini": 21, "opencode": 15}  # the messages of each
LONG = f"/{'a' * 5_000}"
FOLDERS = [LONG, "/abc" * 1_500, "/a\0b"]
MOMENTS: list[Any] = [
    "nonsense",
    -1e308,
    1e308,
    True,
    "9999-12-31T23:59:59-23:59",
    "0001-01-01T00:00:00+23:59",
    "2026-11-15T23:42:36\0",
]
DEEP = '{"a":' * 5_000 + "1" + "}" * 5_000


@pytest.fixture
def user(shell: Shell) -> Shell:
    """A user at a terminal in whose home four hosts have written."""
    make_home(shell.folder / "hosts")
    environ = {"HOME": str(shell.folder / "hosts"), "MCP_COMPACTION_PROJECT": ""}
    return shell.as_user().with_environ(environ)


def change_lines(user: Shell, host: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the lines that a host wrote, in place."""
    for path in (user.folder / "hosts" / f".{host.partition('-')[0]}").rglob("*.jsonl"):
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for line in lines:
            change(line)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def change_rows(user: Shell, statement: str, value: Any) -> None:
    """Change the rows of opencode."""
    database = user.folder / "hosts/.local/share/opencode/opencode.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(statement, (value,))
        connection.commit()


def name_folder(user: Shell, host: str, folder: Any) -> None:
    """Have all that a host wrote name this folder."""

    def change(line: dict[str, Any]) -> None:
        for told in (line, line.get("payload", {})):
            if "cwd" in told:
                told["cwd"] = folder if not isinstance(folder, bytes) else [folder.hex()]

    if host == "opencode":
        change_rows(user, "UPDATE session SET directory = ?", folder)
    elif host == "gemini":
        note = user.folder / "hosts/.gemini/tmp/shop/.project_root"
        note.write_bytes(folder if isinstance(folder, bytes) else str(folder).encode())
    else:
        change_lines(user, host, change)


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("folder", FOLDERS, ids=["one long name", "many names", "a NUL"])
def test_a_folder_that_cannot_be_is_told_and_the_other_chats_are_taken_in(
    user: Shell, host: str, folder: str
) -> None:
    name_folder(user, host, folder)
    ran = user("import", "--json")
    told = ran.json()
    if host == "gemini" and len(folder) > 4_096:  # of such a note nothing is read
        assert (ran.code, told["new"]) == (0, sum(HOSTS.values()))
        return
    assert (ran.code, told["new"]) == (1, sum(HOSTS.values()) - HOSTS[host])
    assert all("no folder is called" in line for line in told["failed"])
    assert all(line.endswith("pass --project PATH.") for line in told["failed"])
    assert user("import", "--project", str(user.folder), "--json").json()["new"] == HOSTS[host]


@pytest.mark.parametrize("moment", MOMENTS, ids=str)
def test_a_moment_that_cannot_be_ends_no_import(user: Shell, moment: object) -> None:
    def change(line: dict[str, Any]) -> None:
        for told in (line, *line.get("$set", {}).get("messages", ())):
            if "timestamp" in told:
                told["timestamp"] = moment

    for host in ("claude-code", "codex", "gemini"):
        change_lines(user, host, change)
    one = "UPDATE message SET time_created = ? WHERE id = (SELECT min(id) FROM message)"
    change_rows(user, one, moment)
    told = user("import", "--json").json()
    left_out = sum(one["skipped"] for one in told["transcripts"])
    assert left_out == (moment is not True)  # a row of opencode has its place by it
    assert told["new"] >= sum(HOSTS.values()) - 2


@pytest.mark.parametrize("host", ["claude-code", "codex", "gemini"])
@pytest.mark.parametrize(
    "odd", [DEEP, "[" * 200_000, "\\u0000\0", '{"type": "user"', "7"], ids=lambda odd: odd[:5]
)
def test_a_line_that_cannot_be_read_is_counted(user: Shell, host: str, odd: str) -> None:
    folder = user.folder / "hosts" / f".{host.partition('-')[0]}"
    path = next(iter(sorted(folder.rglob("*.jsonl"))))
    first, *rest = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join([first, odd + "\n", *rest]), encoding="utf-8")
    told = user("import", "--json").json()
    assert told["new"] == sum(HOSTS.values())
    assert sum(one["skipped"] for one in told["transcripts"]) == 1


@pytest.mark.parametrize("column", ["id", "data", "time_created"])
@pytest.mark.parametrize("odd", [DEEP, b"\xff\0"], ids=["deep", "bytes"])
def test_a_row_of_opencode_that_cannot_be_read_is_counted(
    user: Shell, column: str, odd: str | bytes
) -> None:
    one = "WHERE id = (SELECT min(id) FROM message)"
    change_rows(user, f"UPDATE message SET {column} = ? {one}", odd)
    told = user("import", "opencode", "--json").json()
    is_a_name = column == "id" and odd == DEEP
    assert sum(one["skipped"] for one in told["transcripts"]) == (not is_a_name)
    assert HOSTS["opencode"] - 2 <= told["new"] <= HOSTS["opencode"]

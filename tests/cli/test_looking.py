"""Commands that list rows say the same whether or not they load all that there is."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass

import pytest

from mcp_compaction.compactor.results import PAID
from mcp_compaction.store.listing import list_pins
from tests.cli.conftest import Ran, Shell

LONG_AGO = "2020-01-01T00:00:00.000000+00:00"


@dataclass(frozen=True)
class PlainShell(Shell):
    """A shell whose user has set nothing."""

    @property
    def environ(self) -> dict[str, str]:
        """An environment without a setting of ours."""
        names = ("MCP_COMPACTION_PROJECT", "MCP_COMPACTION_COUNTER")
        return {name: value for name, value in super().environ.items() if name not in names}


@pytest.fixture
def two(shell: Shell) -> Shell:
    """A shell at a terminal, with two sessions of a project, one of another, and pins of all."""
    chat = b'{"role": "user", "content": "Never touch the staging key."}'
    for name in ("tax-2026", "shop"):
        shell.done("record", "-", "--session", name, stdin=chat)
    elsewhere = shell.folder / "elsewhere"
    elsewhere.mkdir()
    shell.done("record", "-", "--session", "far", "--project", str(elsewhere), stdin=chat)
    shell = shell.as_user()
    shell.done("set", "--session", "shop", "--model", "claude-opus-4-6")
    for words in (
        ("Never touch the staging key.", "--session", "tax-2026"),
        ("One line\nand another.", "--session", "shop", "--kind", "open_task"),
        ("Never push to main.", "--session", "shop", "--scope", "project"),
        ("Answer in German.", "--session", "shop", "--scope", "global", "--expires", "2099-01-01"),
        ("Over long ago.", "--session", "shop"),
        ("Released.", "--session", "shop"),
    ):
        shell.done("pin", *words)
    shell.done("unpin", "p6", "--session", "shop")
    shell.done("pins", "check", "p3", "--set", "deny Bash: git push main", "--session", "shop")
    change(shell, "UPDATE pin SET expires = ? WHERE text = 'Over long ago.'", LONG_AGO)
    change(shell, "UPDATE pin SET source = 'm1', channel = 'message' WHERE number = 1")
    return shell


def change(shell: Shell, statement: str, *values: str) -> None:
    """Change the store behind the program's back."""
    with closing(sqlite3.connect(shell.home / "store.db")) as store, store:
        store.execute(statement, values)


def told_both_ways(shell: Shell, *words: str) -> tuple[Ran, Ran]:
    """What a command tells one who has set nothing, and one who has."""
    project = ("--project", str(shell.folder / "project"))
    plain = PlainShell(shell.folder, shell.is_terminal, shell.extra)
    return plain(*words, *project), shell(*words, *project)


@pytest.mark.parametrize(
    "words",
    [
        ("sessions",),
        ("sessions", "--all"),
        ("sessions", "--limit", "1"),
        ("sessions", "--limit", "0"),
        ("sessions", "--json"),
        ("pins",),
        ("pins", "--session", "shop"),
        ("pins", "--session", "far"),
        ("pins", "--session", "nowhere"),
        ("pins", "--json"),
        ("pins", "check", "p3"),
    ],
)
def test_who_has_set_nothing_is_told_the_same(two: Shell, words: tuple[str, ...]) -> None:
    change(
        two,
        "INSERT INTO event (session, name, at, detail) SELECT id, ?, ?, 'shop: 12 calls, $0.40'"
        " FROM session WHERE name = 'shop'",
        PAID,
        LONG_AGO,
    )
    plain, full = told_both_ways(two, *words)
    assert plain == full
    assert plain.out or plain.err


@pytest.mark.parametrize(
    "statement",
    ["UPDATE pin SET text = 'Push to main.' WHERE number = 3", "PRAGMA user_version = 99"],
)
def test_what_rows_alone_do_not_tell_is_left_to_the_rest_of_the_program(
    two: Shell, statement: str
) -> None:
    change(two, statement)
    assert list_pins(two.home, str((two.folder / "project").resolve()), None, 200) is None
    plain, full = told_both_ways(two, "pins")
    assert plain == full

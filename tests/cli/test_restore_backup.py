"""The command `store restore` asks a person, is refused to anybody else, names what it kept."""

from __future__ import annotations

import pytest

from mcp_compaction.checks.file import read_rules
from tests.cli.conftest import Shell


@pytest.fixture
def damaged(recorded: Shell) -> Shell:
    """A shell whose store is damaged and has a backup."""
    recorded.done("store backup", str(recorded.folder / "copy.db"))
    with (recorded.home / "store.db").open("r+b") as file:
        file.write(b"garbage garbage!")
    return recorded


def test_a_damaged_store_names_the_command_that_restores_it(damaged: Shell) -> None:
    ran = damaged("sessions")
    assert ran.code == 3
    assert f": mcp-compaction store restore --home {damaged.home} FILE" in ran.err
    assert damaged.as_user().done("store restore", str(damaged.folder / "copy.db"), "--yes")
    assert "81 messages" in damaged.done("sessions")


@pytest.mark.parametrize("yes", [(), ("--yes",)])
def test_no_store_is_put_in_place_where_nobody_speaks_as_the_user(
    recorded: Shell, yes: tuple[str, ...]
) -> None:
    recorded.done("store backup", str(recorded.folder / "copy.db"))
    before = recorded.dump()
    ran = recorded("store restore", str(recorded.folder / "copy.db"), *yes)
    assert ran.code == 2
    assert ran.err.endswith("only the user can do this: run it in a terminal.\n")
    assert recorded.dump() == before


def test_the_checks_of_the_restored_store_are_in_force(recorded: Shell) -> None:
    recorded.done("store backup", str(recorded.folder / "without.db"))
    user = recorded.as_user()
    user.done("pins", "check", "p1", "--set", "deny Bash: git push")
    recorded.done("store backup", str(recorded.folder / "with.db"))
    user.done("store restore", str(recorded.folder / "without.db"), "--yes")
    assert read_rules(recorded.home) == []
    user.done("store restore", str(recorded.folder / "with.db"), "--yes")
    (rule,) = read_rules(recorded.home)
    assert [*map(str, rule.checks)] == ["deny Bash: git push"]


@pytest.mark.parametrize(("answer", "code"), [(b"yes\n", 0), (b"no\n", 1)])
def test_a_person_is_asked(damaged: Shell, answer: bytes, code: int) -> None:
    person = damaged.at_terminal()
    ran = person("store restore", str(damaged.folder / "copy.db"), stdin=answer)
    assert ran.code == code
    assert "1 session and 81 messages? Type yes: " in ran.out
    assert damaged("sessions").code == (0 if answer == b"yes\n" else 3)

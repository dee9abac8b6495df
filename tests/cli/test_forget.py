"""Forgetting: asked for twice, done once, and told."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Shell


def test_forgetting_without_a_terminal_needs_yes(recorded: Shell) -> None:
    before = recorded.dump()
    ran = recorded("forget", "tax-2026", stdin=b"yes\n")
    assert ran.code == 2
    assert ran.err.endswith("pass --yes to do it.\n")
    assert recorded.dump() == before


@pytest.mark.parametrize("answer", [b"", b"y\n", b"no\n"])
def test_at_a_terminal_only_yes_forgets(answer: bytes, recorded: Shell) -> None:
    ran = recorded.at_terminal()("forget", "tax-2026", stdin=answer)
    assert ran.code == 1
    assert "Forget session tax-2026 with 81 messages?" in ran.out
    assert ran.out.endswith("nothing was forgotten\n")
    assert recorded.done("sessions").startswith("tax-2026")


def test_at_a_terminal_yes_forgets(recorded: Shell) -> None:
    ran = recorded.at_terminal()("forget", "tax-2026", stdin=b"yes\n")
    assert ran.code == 0
    assert "removed: 1 session, 81 messages" in ran.out


def test_a_whole_project_is_forgotten_with_its_pins(recorded: Shell) -> None:
    assert "removed: 1 session, 81 messages, 1 pin" in recorded.done("forget", "--project", "--yes")
    assert b"staging" not in (recorded.home / "store.db").read_bytes()


def test_a_session_of_another_project_is_not_forgotten(recorded: Shell) -> None:
    ran = recorded("forget", "tax-2026", "--project", str(recorded.folder), "--yes")
    assert ran.code == 2
    assert recorded.done("sessions").startswith("tax-2026")


def test_an_empty_project_has_nothing_to_forget(recorded: Shell) -> None:
    ran = recorded("forget", "--project", str(recorded.folder), "--yes")
    assert ran.code == 2
    assert ran.err.endswith(
        f"mcp-compaction sessions --home {recorded.home} --project {recorded.folder} --all\n"
    )


def test_what_to_forget_must_be_said(recorded: Shell) -> None:
    ran = recorded("forget", "--yes")
    assert ran.code == 2
    assert "SESSION REF" in ran.err


def test_a_pin_that_quotes_a_forgotten_message_is_named(recorded: Shell) -> None:
    recorded.as_user().done("pin", "Never push to main; only the staging key.", "--kind", "fact")
    said = recorded.done("forget", "tax-2026", "m1", "--yes")
    assert "still pinned, said there: p1, p2" in said

"""What is set for one session, and stays."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import CHAT, Shell


def traits_of(shell: Shell) -> dict[str, object]:
    (listed,) = json.loads(shell.done("sessions", "--json"))
    return listed["traits"]


def test_a_session_is_recorded_with_its_complexity_and_set_anew_later(shell: Shell) -> None:
    record = ("record", "--session", "tax-2026", "--complexity", "epic")
    shell.done(*record, "--agent-profile", "verbose", stdin=CHAT)
    assert traits_of(shell)["complexity"] == "epic"
    said = shell.done("set", "--session", "tax-2026", "--complexity", "simple", "--window", "9000")
    assert said.startswith(
        "tax-2026: model not set, window 9,000 tokens, complexity simple, agent profile verbose\n"
    )
    assert " of 9.0k tokens" in said
    assert shell.done("set") == said
    assert json.loads(shell.done("set", "--json"))["traits"] == traits_of(shell)


@pytest.mark.parametrize(
    "argv", [("--complexity", "hard"), ("--agent-profile", "loud"), ("--window", "0")]
)
def test_what_no_session_can_have_is_refused(argv: tuple[str, str], shell: Shell) -> None:
    shell.done("record", "--session", "tax-2026", stdin=CHAT)
    for command in ("set", "record"):
        assert shell(command, *argv).code == 2
    assert set(traits_of(shell).values()) == {None, True}


def test_a_chat_whose_recording_is_off_keeps_nothing_until_it_is_on(shell: Shell) -> None:
    shell.done("record", "--session", "tax-2026", stdin=CHAT)
    said = shell.done("set", "--record", "off")
    assert "recording is off: nothing that is said here is kept" in said
    secret = json.dumps({"role": "user", "content": "Between us: the offer is 5,000."}).encode()
    ran = shell("record", "--session", "tax-2026", stdin=secret)
    assert ran.code == 2
    assert "recording is off for tax-2026; nothing was kept." in ran.err
    assert b"Between us" not in (shell.home / "store.db").read_bytes()
    assert "recording is off" not in shell.done("set", "--record", "on")
    shell.done("record", "--session", "tax-2026", stdin=secret)
    assert "Between us" in shell.done("recall", "offer")

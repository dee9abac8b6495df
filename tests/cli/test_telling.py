"""What a command says while it works, where a person or a program waits."""

from __future__ import annotations

from io import StringIO
from itertools import count

from mcp_compaction.cli.console.screen import make_teller


class Terminal(StringIO):
    """A stream on which a line can be written over."""

    def isatty(self) -> bool:
        return True


def test_a_person_sees_each_step_on_one_line() -> None:
    shown = Terminal()
    tell = make_teller(stream=shown)
    tell("chat 1")
    tell("")
    assert shown.getvalue() == "\r\x1b[2K  chat 1\r\x1b[2K"


def test_what_is_piped_says_every_minute_how_far_it_is() -> None:
    seconds = count(0, 20)
    shown = StringIO()
    tell = make_teller(stream=shown, clock=lambda: float(next(seconds)))
    for number in range(8):
        tell(f"chat {number}")
    tell("")
    lines = shown.getvalue().splitlines()
    assert 1 <= len(lines) <= 3
    assert all(line.startswith("chat ") for line in lines)


def test_for_a_program_nothing_is_said() -> None:
    shown = Terminal()
    make_teller(stream=shown, quiet=True)("chat 1")
    assert not shown.getvalue()

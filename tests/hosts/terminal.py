"""A terminal in which a test uses a host as a person does: it reads the screen and presses keys."""

from __future__ import annotations

import os
import re
import select
import subprocess
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

_PATIENCE = 120.0  # seconds; only a net against a host that hangs
_PAUSE = 0.5  # seconds without a word from the host, after which a key is pressed again
_CONTROLS = re.compile(rb"\x1b\[[0-9;?<>=]*[a-zA-Z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.|\s+")
# What a program asks of its terminal before it draws anything, and what a plain one says.
_ANSWERS = {
    b"\x1b[6n": b"\x1b[1;1R",
    b"\x1b[c": b"\x1b[?62;22c",
    b"\x1b[?u": b"\x1b[?0u",
    b"\x1b]10;?": b"\x1b]10;rgb:ffff/ffff/ffff\x1b\\",
    b"\x1b]11;?": b"\x1b]11;rgb:0000/0000/0000\x1b\\",
}


@contextmanager
def user_input() -> Generator[int]:
    """What a program reads from whose user sits at a terminal."""
    import pty

    ours, theirs = pty.openpty()
    try:
        yield theirs
    finally:
        os.close(theirs)
        os.close(ours)


class Terminal:
    """A terminal with one program in it."""

    def __init__(self, command: Sequence[str], folder: Path, environ: Mapping[str, str]) -> None:
        import pty  # neither is on Windows
        import termios

        self._screen, inner = pty.openpty()
        termios.tcsetwinsize(inner, (50, 140))
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env={**environ, "TERM": "xterm-256color"},
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
        )
        os.close(inner)
        self._written = b""

    def wait_for(self, words: str, key: str = "") -> None:
        """Wait until words are shown, whatever spaces are between; press a key until they are."""
        wanted = re.sub(r"\s+", "", words).encode()
        self.wait_until(lambda: wanted in _CONTROLS.sub(b"", self._written), key)

    def wait_until(self, is_done: Callable[[], bool], key: str = "") -> None:
        """Wait for something to be so; press a key, again and again, until it is."""
        # A program may leave unread what was typed before it had drawn its question.
        until = time.monotonic() + _PATIENCE
        while not is_done():
            assert time.monotonic() < until, _CONTROLS.sub(b" ", self._written[-20_000:]).decode()
            if not self._read_more():
                os.write(self._screen, key.encode())

    @property
    def written(self) -> bytes:
        """All that the program has written so far."""
        return self._written

    def forget(self) -> None:
        """Look only at what is shown from now on."""
        self._written = b""

    def press(self, keys: str) -> None:
        """Press keys, once."""
        os.write(self._screen, keys.encode())

    def _read_more(self) -> bool:
        ready, _, _ = select.select([self._screen], [], [], _PAUSE)
        if not ready:
            return False
        came = os.read(self._screen, 65_536)
        self._written += came
        for question, answer in _ANSWERS.items():
            os.write(self._screen, answer * came.count(question))
        return True

    def close(self) -> None:
        """End the program, as by closing the window."""
        self._process.kill()
        self._process.wait()
        os.close(self._screen)

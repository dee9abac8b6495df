"""A terminal of tmux in which a host is used as a person does: looked at is the screen itself."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from os import getpid
from pathlib import Path

import pytest

_PATIENCE = 120.0  # seconds; only a net against a host that hangs
_PAUSE = 0.1  # between two looks
_NUMBERS = count(1)

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


class Tmux:
    """A terminal with one program in it, of a tmux server of its own."""

    def __init__(self, command: Sequence[str], folder: Path, environ: Mapping[str, str]) -> None:
        self._name = f"mcp-compaction-{getpid()}-{next(_NUMBERS)}"
        self._environ = {**environ, "TERM": "xterm-256color"}
        begin = ["-f", "/dev/null", "new-session", "-d", "-x", "140", "-y", "50"]
        self._run(*begin, "-c", str(folder), *command)

    def _run(self, *words: str) -> str:
        command = ["tmux", "-L", self._name, *words]
        done = subprocess.run(command, env=self._environ, check=True, capture_output=True)
        return done.stdout.decode("utf-8", "replace")

    def show(self) -> str:
        """What is on the screen, and what has scrolled out of it."""
        return self._run("capture-pane", "-p", "-S", "-")

    def wait_for(self, words: str) -> None:
        """Wait until words are shown, whatever spaces are between."""
        wanted = re.sub(r"\s+", "", words)
        self.wait_until(lambda: wanted in re.sub(r"\s+", "", self.show()))

    def wait_until(self, is_done: Callable[[], bool]) -> None:
        """Wait for something to be so."""
        until = time.monotonic() + _PATIENCE
        while not is_done():
            assert time.monotonic() < until, self.show()
            time.sleep(_PAUSE)

    def press(self, *keys: str) -> None:
        """Press keys by their names, as `Enter` or `Up`."""
        self._run("send-keys", *keys)

    def type(self, text: str) -> None:
        """Type a prompt, and send it."""
        self._run("send-keys", "-l", text)
        self.wait_for(f"❯ {text}")
        self.press("Enter")

    def is_there(self) -> bool:
        """Whether the program runs."""
        command = ["tmux", "-L", self._name, "has-session"]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0

    def close(self) -> None:
        """End the program, as by closing the window."""
        if self.is_there():
            self._run("kill-server")

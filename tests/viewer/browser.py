"""A real browser that is driven by its own protocol, over two pipes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

BROWSER = shutil.which("chromium")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="Debian's chromium is not installed")
_KEYS = {"Tab": (9, ""), "Enter": (13, "\r"), " ": (32, " ")}


class Browser:
    """One page of a browser, and all that it asked the network for."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._out = os.fdopen(to_browser, "wb", buffering=0)
        self._in = os.fdopen(from_browser, "rb")
        self._asked = 0
        self._session: str | None = None
        self.requests: list[str] = []
        self._events: list[str] = []
        target = self.say("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.say("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for part in ("Page", "Network", "Runtime"):
            self.say(f"{part}.enable")

    def close(self) -> None:
        """Let go of the pipes: the browser ends."""
        self._out.close()
        self._in.close()

    def say(self, method: str, **params: Any) -> Any:
        """The answer to a command."""
        self._asked += 1
        message = {"id": self._asked, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        while True:
            told = self._read()
            if told.get("id") == self._asked:
                assert "error" not in told, told
                return told["result"]

    def open(self, url: str) -> None:
        """Go to a page and wait until it is loaded."""
        for place in ("about:blank", url):  # the same page at another fragment loads nothing
            self._events.clear()
            self.say("Page.navigate", url=place)
            while "Page.loadEventFired" not in self._events:
                self._read()

    def run(self, script: str) -> Any:
        """The value of a script; a promise is waited for."""
        told = self.say(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Wait until a condition holds, as the page itself sees it at each frame."""
        self.run(
            "new Promise((done) => { const look = () => "
            f"({condition}) ? done() : requestAnimationFrame(look); look(); }})"
        )

    def press(self, key: str) -> None:
        """Press a key and let go of it."""
        code, text = _KEYS[key]
        given = {"key": key, "windowsVirtualKeyCode": code}
        self.say("Input.dispatchKeyEvent", type="keyDown", text=text, **given)
        self.say("Input.dispatchKeyEvent", type="keyUp", **given)

    def write(self, text: str) -> None:
        """Type into what has the focus."""
        self.say("Input.insertText", text=text)

    def _read(self) -> Any:
        told = json.loads(self._line())
        if told.get("method") == "Network.requestWillBeSent":
            self.requests.append(told["params"]["request"]["url"])
        self._events.append(told.get("method", ""))
        return told

    def _line(self) -> bytes:
        line = bytearray()
        while (byte := self._in.read(1)) != b"\0":
            assert byte, "the browser has ended"
            line += byte
        return bytes(line)


@contextmanager
def start_browser(profile: Path) -> Generator[Browser]:
    """A browser with an empty profile."""
    read_by_browser, to_browser = os.pipe()
    from_browser, written_by_browser = os.pipe()

    def place_pipes() -> None:
        # High numbers first: either pipe may stand where the other must go.
        given = os.dup2(read_by_browser, 103), os.dup2(written_by_browser, 104)
        os.dup2(given[0], 3)
        os.dup2(given[1], 4)

    options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
    command = [str(BROWSER), *options, f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        command, close_fds=False, preexec_fn=place_pipes, stderr=subprocess.DEVNULL
    )
    os.close(read_by_browser)
    os.close(written_by_browser)
    browser = Browser(to_browser, from_browser)
    try:
        yield browser
    finally:
        browser.close()
        process.terminate()
        process.wait()

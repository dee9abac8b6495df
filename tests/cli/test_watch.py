"""`stats --watch`: a line for each change where it is piped, until it is interrupted."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from tests.cli.conftest import Shell
from tests.hosts.live import PROGRAM


def test_piped_it_says_a_line_for_each_change_and_ends_well(shell: Shell, tmp_path: Path) -> None:
    chat = tmp_path / "chat.jsonl"
    chat.write_text('{"role": "user", "content": "Sort the receipts."}\n', encoding="utf-8")
    home = str(shell.folder)
    shell.bare("record", str(chat), "--session", "a", "--home", home, "--project", "/p")
    command = [PROGRAM, "stats", "--watch", "--session", "a", "--home", home, "--project", "/p"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watch:
        assert watch.stdout is not None
        assert watch.stdout.readline().startswith("a: 1 message; 0 % of the window, ")
        pinned = ("pin", "Never delete one.", "--session", "a", "--home", home, "--project", "/p")
        assert shell.bare(*pinned).code == 0
        assert "; 1 pin" in watch.stdout.readline()
        watch.send_signal(signal.SIGINT)
        assert watch.wait() == 0

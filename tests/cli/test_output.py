"""What programs and terminals get to read, and the console script itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import CHAT, Shell

LOOKING = [
    ["sessions"],
    ["stats"],
    ["show"],
    ["show", "--full"],
    ["show", "--records"],
    ["pins"],
    ["recall", "staging", "key"],
    ["recall", "--refs", "m1..m3"],
    ["compress", "--dry-run", "--force"],
    ["doctor"],
]
SCRIPT = Path(sys.executable).with_name("mcp-compaction")


@pytest.mark.parametrize("argv", LOOKING)
def test_piped_output_has_no_escape_codes(argv: list[str], recorded: Shell) -> None:
    ran = recorded(*argv)
    assert ran.code == 0
    assert "\x1b" not in ran.out
    assert "[#" not in ran.out


def test_json_of_what_changes_is_one_document(recorded: Shell) -> None:
    out = str(recorded.folder / "out")
    hello = b'{"role":"user","content":"Gr\xc3\xb6\xc3\x9fe"}'
    changes = [
        ["record", "--session", "tax-2026"],
        ["pin", "Only on Fridays."],
        ["unpin", "p2"],
        ["compress", "--force", "--target-percent", "1"],
        ["restore", "c1"],
        ["store export", "--output", out],
        ["store backup", f"{out}.db"],
        ["store restore", f"{out}.db", "--yes"],
        ["store forget", "tax-2026", "m1", "--yes"],
    ]
    for argv in changes:
        shell = recorded.as_user() if "--yes" in argv else recorded
        ran = shell(*argv, "--json", stdin=hello)
        assert (ran.code, ran.err) == (0, "")
        assert ran.json()


def test_a_terminal_gets_a_bar_and_bold_words(recorded: Shell) -> None:
    person = recorded.at_terminal()
    assert "[##" in person.done("stats", "--preset", "subagent")
    assert "\x1b[1mstaging\x1b[0m" in person.done("recall", "staging")


def test_a_terminal_shows_found_words_strong_in_any_form_but_not_inside_others(
    shell: Shell,
) -> None:
    text = "Deployed the ports; important: deploying src/a.py"
    shell.done(
        "record", "--session", "s", stdin=json.dumps({"role": "user", "content": text}).encode()
    )
    out = shell.at_terminal().done("recall", "deploy", "port", "src/a.py")
    strong = re.findall(r"\x1b\[1m([^\x1b\[]+)\x1b", out)
    assert strong == ["Deployed", "ports", "deploying", "src/a.py"]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_recorded_text_cannot_steer_the_terminal(is_terminal: bool, shell: Shell) -> None:
    text = "evil \x1b]0;title\x07 \x1b[31mred \x9b2J \u202e\u2066hsup reven\u2069 zebra"
    message = json.dumps({"role": "user", "content": text}).encode()
    shell.done("record", "--session", "s", stdin=message)
    reader = shell.at_terminal() if is_terminal else shell
    out = reader.done("recall", "zebra") + reader.done("recall", "--refs", "m1")
    assert "␛]0;title␇ ␛[31mred" in out
    assert r"\u{202e}\u{2066}hsup reven\u{2069}" in out
    assert not set("\x9b\x07\u202e\u2066\u2069").intersection(out)
    found = reader("recall", "zebra", "--json")
    assert not set("\x9b\x07\u202e\u2066\u2069").intersection(found.out)
    assert "\u202e\u2066hsup reven\u2069" in json.dumps(found.json(), ensure_ascii=False)
    assert reader.done("recall", "--refs", "m1", "--raw") == message.decode() + "\n"


def run(shell: Shell, *argv: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run the installed script in a process of its own."""
    environ = {**shell.environ, "PATH": os.environ["PATH"]}
    words = [str(SCRIPT), *argv, "--home", str(shell.home)]
    return subprocess.run(words, input=stdin, capture_output=True, env=environ, check=False)


def test_the_console_script_records_and_ends_with_a_code(shell: Shell) -> None:
    done = run(shell, "record", "--session", "s", stdin=CHAT)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"recorded 81 messages in the new session s" in done.stdout
    bad = run(shell, "stats", "--session", "nobody")
    assert bad.returncode == 2
    assert bad.stderr == b"mcp-compaction: no session 'nobody' in this project; " + (
        b"pass --session with one of: s.\n"
    )


def test_a_closed_pipe_ends_quietly(recorded: Shell) -> None:
    words = [str(SCRIPT), "export", "--home", str(recorded.home)]
    environ = {**recorded.environ, "PATH": os.environ["PATH"]}
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 0

"""What is known of a host is its one file, and no module but its own names it."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcp_compaction import lexicon
from mcp_compaction.hosts.folders import known_hosts

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "mcp_compaction"
MADE_UP = Path(__file__).with_name("made_up")
START = """\
import os, sys
from pathlib import Path
from mcp_compaction import lexicon
lexicon.FOLDER = Path(sys.argv.pop(1))
"""
COMMAND = f"""{START}
from mcp_compaction.cli.main import main
sys.exit(main(sys.argv[1:], sys.stdout, sys.stderr, sys.stdin, os.environ))
"""


class MadeUpHost(NamedTuple):
    """A home in which the made-up host was used, by a program that has the file of that host."""

    home: Path
    lexicon: Path

    @property
    def project(self) -> Path:
        """The folder that its chats work in."""
        return self.home / "shop"

    def run(self, code: str, *words: str, stdin: str = "") -> str:
        """What a piece of code prints, in a process of its own."""
        environ = {"HOME": str(self.home), "PATH": str(self.home / "bin")}
        ran = subprocess.run(
            [sys.executable, "-c", code, str(self.lexicon), *words],
            input=stdin,
            capture_output=True,
            text=True,
            env=environ,
            cwd=ROOT,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def told(self, **more: Any) -> str:
        """What its hooks tell."""
        path = self.home / ".testhost/chats/c1.jsonl"
        common = {"session_id": "c1", "transcript_path": str(path), "cwd": str(self.project)}
        return json.dumps({**common, **more})


@pytest.fixture
def host(tmp_path: Path) -> MadeUpHost:
    known = tmp_path / "lexicon"
    shutil.copytree(lexicon.FOLDER, known, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    shutil.copy(MADE_UP / "testhost.toml", known / "hosts")
    made = MadeUpHost(tmp_path / "home", known)
    said = [("user", "Deploy only on Fridays."), ("assistant", "I will.")]
    lines = [
        {"id": f"l{n}", "folder": str(made.project), "message": {"role": role, "content": text}}
        for n, (role, text) in enumerate(said)
    ]
    chats = made.home / ".testhost/chats"
    for folder in (chats, made.project, made.home / "bin"):
        folder.mkdir(parents=True)
    (chats / "c1.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    program = made.home / "bin/testhost"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return made


def test_it_is_found_on_the_first_page(host: MadeUpHost) -> None:
    page = host.run(
        f"{START}from mcp_compaction.cli.console.guide import guide\n"
        "print(guide('mcp-compaction', os.environ['PATH']))"
    )
    assert re.search(r"Test Host +mcp-compaction install testhost", page)


def test_its_transcripts_are_its_word(host: MadeUpHost) -> None:
    told = json.loads(host.run(COMMAND, "import", "testhost", "--json"))
    (transcript,) = told["transcripts"]
    assert (told["new"], transcript["host"], transcript["is_hosts_word"]) == (2, "testhost", True)
    info = transcript["session"]
    assert (info["host"], info["project"]) == ("testhost", str(host.project))


def test_it_is_plugged_in_and_out(host: MadeUpHost) -> None:
    settings = host.home / ".testhost/settings.json"
    settings.write_text('{\n  "theme": "dark"\n}\n')
    host.run(COMMAND, "install", "testhost")
    written = json.loads(settings.read_text())
    (prompt,), (check,), (rest,) = (
        written["hooks"][event][0]["hooks"] for event in ("OnPrompt", "OnTool", "OnRest")
    )
    assert "command" in written["servers"]["compaction"]
    assert prompt["command"].endswith("hook testhost OnPrompt")
    assert check["command"].endswith("hook testhost PreToolUse")
    assert (rest["tool"], rest["input"]["event"]) == ("host_event", "OnRest")
    assert re.search(
        r"testhost +Test Host +the server and 3 hooks", host.run(COMMAND, "install", "--list")
    )
    host.run(COMMAND, "uninstall", "testhost")
    assert settings.read_text() == '{\n  "theme": "dark"\n}\n'


def test_an_event_is_handled_whole(host: MadeUpHost) -> None:
    code = (
        f"{START}import json\nfrom mcp_compaction.cli.cold_event import handle\n"
        "print(handle('testhost', 'OnRest', json.loads(sys.stdin.read()), os.environ))"
    )
    host.run(code, stdin=host.told())
    assert "c1" in host.run(COMMAND, "sessions", "--all", "--json")


def test_its_calls_are_checked_before_they_run(host: MadeUpHost) -> None:
    code = (
        f"{START}from mcp_compaction.checks.check import read_checks\n"
        "from mcp_compaction.checks.file import write_rules\n"
        "from mcp_compaction.checks.judge import Rule\n"
        "checks, _ = read_checks(['deny Bash: git push'])\n"
        "home = Path(os.environ['HOME']) / '.local/share/mcp-compaction'\n"
        "write_rules(home, [Rule(1, 'Never push.', checks, scope='global')])"
    )
    host.run(code)
    call = {"tool_name": "Bash", "tool_input": {"command": "git push origin main"}}
    held = json.loads(host.run(COMMAND, "hook", "testhost", "PreToolUse", stdin=host.told(**call)))
    assert held["stop"] == "deny"
    assert "Never push." in held["why"]


# No module but its own names a host

ALL_THE_SAME = {
    "cli/commands/install.py": "says what else stands in the host that has a module of ours",
    "cli/console/setup.py": "looks that host over",
    "cli/console/repositories.py": "every command runs it first, and has no time for a table",
    "git_folders.py": "reads no table, and hooks run it",
    "home.py": "the name of a file that is there already",
    "lexicon/models.py": "a family of models has that name",
    "server/front.py": "answers before a table could be read",
    "server/plugin.py": "the module of one host asks more than views",
    "server/state.py": "holds the chats of that module",
}
"""The modules that name a host all the same, and why."""


def names_in(path: Path) -> Iterator[str]:
    """The names in a module's code, and its texts of one word: prose may name whom it likes."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Constant(value=str() as text) if not re.search(r"\s", text):
                yield text
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name) | ast.alias(name=name):
                yield name
            case ast.ImportFrom(module=str() as name):
                yield name
            case _:
                pass


def first_words() -> re.Pattern[str]:
    """What the names of hosts begin with that tell us anything."""
    return re.compile("|".join(host.name.partition("-")[0] for host in known_hosts()), re.I)


def test_no_module_but_its_own_names_a_host() -> None:
    words = first_words()
    found: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        place = path.relative_to(PACKAGE).as_posix()
        named = {name for name in names_in(path) if words.search(name)}
        if named and not words.search(place):
            found[place] = named
    assert {place: names for place, names in found.items() if place not in ALL_THE_SAME} == {}
    assert ALL_THE_SAME.keys() == found.keys(), "one of them names no host any more"

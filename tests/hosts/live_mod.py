"""Claude Code with our module in it, and what is looked at in the requests that it sends."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_compaction.formats.content import blocks_of
from tests.checkers import problems
from tests.hosts.live import BOUND, PROGRAM, ClaudeCode, binary_of
from tests.hosts.scripted_model import DROPS_EVERYTHING, ScriptedModel, Step
from tests.hosts.terminal import Terminal

PLUGIN = Path(__file__).parents[2] / "mcp_compaction/hosts/claude_code/marketplace/mcp-compaction"
SERVER = "mcp__plugin_mcp-compaction_compaction"
MOST_SECONDS = 120.0  # only a net
RULE = 'Never push to "main" — not even once — é ü “x”.'
PIN = Step(tool="pin_constraint", arguments={"text": RULE})
PINNED = json.dumps(f"by user: {RULE}", ensure_ascii=False)[1:-1]


def read(number: int) -> Step:
    """Read a report of about 1,000 tokens."""
    line = f"seq -f 'line %g of report {number} is in order' 100; echo E47{number} disk is full"
    return Step(f"Report {number}.", tool="shell", arguments={"command": line})


@dataclass(slots=True)
class ModdedClaude(ClaudeCode):
    """Claude Code with our plugin from a folder of its own, and nothing else of ours."""

    program: list[str] = field(default_factory=lambda: [PROGRAM])  # that its server is
    others: list[Path] = field(default_factory=list[Path])  # plugins that are asked before ours
    is_plugged_in: bool = True
    flags: list[str] = field(default_factory=list[str])  # more of its command

    @property
    def plugin(self) -> Path:
        """The folder of the plugin."""
        return self.folder / "plugin"

    def plug_in(self) -> list[str]:
        """Copy the plugin as an installation does; the command that runs the host."""
        self.project.mkdir(parents=True, exist_ok=True)
        if not self.plugin.exists():
            shutil.copytree(PLUGIN, self.plugin)
        servers = json.loads((PLUGIN / ".mcp.json").read_text("utf-8"))
        server = servers["mcpServers"]["compaction"]
        server |= {"command": self.program[0], "args": [*self.program[1:], *server["args"]]}
        (self.plugin / ".mcp.json").write_text(json.dumps(servers), encoding="utf-8")
        hooks = (PLUGIN / "hooks/hooks.json").read_text("utf-8")
        program = json.dumps(shlex.join(self.program))[1:-1]  # as it stands within JSON
        told = hooks.replace("; mcp-compaction ", f"; {program} ")
        (self.plugin / "hooks/hooks.json").write_text(told, encoding="utf-8")
        plugins = [*self.others, *([self.plugin] if self.is_plugged_in else [])]
        folders = [word for one in plugins for word in ("--plugin-dir", str(one))]
        command = [binary_of("claude-code"), *folders, "--model", BOUND]
        return [*command, *self.flags, "--allowedTools", "Bash", SERVER]

    def run(self, *turns: str | Callable[[], str], resume: str | None = None) -> str:
        """Run one process through some turns; the id of its session at the end."""
        command = [*self.plug_in(), "-p", "--verbose"]
        command += ["--input-format", "stream-json", "--output-format", "stream-json"]
        command += ["--resume", resume] if resume else []
        return self._talk(command, self.environ, turns)

    def wait_for_server(self) -> Step:
        """Have the agent wait until the server of the plugin is there, in a chat that goes on."""
        line = f"until ls {self.plugin}/.views/*.json; do sleep 0.1; done"
        return Step(tool="shell", arguments={"command": line})

    def wait_to_be_served(self) -> tuple[Step, Step]:
        """Have the agent wait until the server, which is loaded later, has heard of the chat."""
        return self.wait_for_server(), self.wait_until_recorded("until ls")

    def wait_until_recorded(self, text: str) -> Step:
        """Have the agent wait until the server has recorded these words."""
        store = self.folder / "home/.local/share/mcp-compaction/store.db"
        line = f"until grep -aqs '{text}' {store} {store}-wal; do sleep 0.1; done"
        return Step(tool="shell", arguments={"command": line})

    def wait_for_words(self, text: str) -> list[str]:
        """What is recorded once these words are: a short run is recorded when it has ended."""
        end = time.monotonic() + MOST_SECONDS
        while not any(text in raw for raw in self.rows_kept()):
            assert time.monotonic() < end, f"{text} was never recorded"
            time.sleep(0.1)
        return self.rows_kept()

    def rows_kept(self) -> list[str]:
        """What is recorded, in order."""
        (path,) = (self.folder / "home").rglob("store.db")
        with closing(sqlite3.connect(path)) as store:
            return [raw for (raw,) in store.execute("SELECT raw FROM message ORDER BY id")]


def messages_of(request: str) -> list[dict[str, Any]]:
    """The messages of a request that are a user's or a model's."""
    return [one for one in json.loads(request)["messages"] if one["role"] != "system"]


def size_of(request: str) -> int:
    """The size of what was said in a request, without what the host itself tells."""
    return len(json.dumps(messages_of(request)))


def check(model: ScriptedModel) -> None:
    """No request was refused for its form, and the host has asked for no summary."""
    for request in model.requests:
        assert not problems(messages_of(request), "anthropic")
        assert json.dumps(DROPS_EVERYTHING)[1:-1] not in request


def type_in(terminal: Terminal, text: str) -> None:
    """Type a prompt, and send it."""
    terminal.press(text)
    terminal.wait_for(text)
    terminal.press("\r")


def without_marks(messages: list[dict[str, Any]]) -> str:
    """Messages without the host's cache marks, which move: a text that has one is a block."""
    as_blocks = [{**one, "content": blocks_of(one)} for one in messages]
    return re.sub(r', "cache_control": \{[^}]*\}', "", json.dumps(as_blocks))

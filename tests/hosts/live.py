"""Runs real hosts against a scripted model, with our server and our hooks plugged in.

MCP_COMPACTION_HOSTS names the folder in which npm has installed them, one folder a host.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction.hosts.events import TOOL, hooked_hosts
from tests.hosts.scripted_model import ScriptedModel

PROGRAM = str(Path(sys.executable).with_name("mcp-compaction"))
SERVER = "compaction"
_BINARIES = {
    "claude-code": "claude/node_modules/@anthropic-ai/claude-code-*/claude",
    "codex": "codex/node_modules/@openai/codex-*/vendor/*/bin/codex",
    "opencode": "opencode/node_modules/opencode-linux-x64/bin/opencode",
}
_LIMIT = 120  # seconds after which a host that hangs is ended


def binary_of(host: str) -> str:
    """The binary of an installed host; the test is skipped without."""
    folder = os.environ.get("MCP_COMPACTION_HOSTS")
    if not folder:
        pytest.skip("MCP_COMPACTION_HOSTS names no folder with installed hosts")
    found = sorted(Path(folder).glob(_BINARIES[host]))
    if not found:
        pytest.skip(f"{host} is not installed in {folder}")
    return str(found[0])


def hooks_of(host: str) -> dict[str, Any]:
    """The hooks of a host as its file has them, made from the table of events."""
    groups: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for hook in hooked_hosts()[host].hook:
        handler: dict[str, Any] = {
            "type": "command",
            "command": f"'{PROGRAM}' hook {host} {hook.event}",
        }
        if hook.way == "tool":
            handler = {"type": "mcp_tool", "server": SERVER, "tool": TOOL, "input": hook.tool_input}
        groups.setdefault(hook.event, {}).setdefault(hook.matcher, []).append(
            {**handler, **hook.handler}
        )
    return {
        "hooks": {
            event: [{"matcher": matcher, "hooks": hooks} for matcher, hooks in several.items()]
            for event, several in groups.items()
        }
    }


@dataclass(slots=True)
class ClaudeCode:
    """Claude Code in a folder of its own."""

    folder: Path
    model: ScriptedModel
    said: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    @property
    def project(self) -> Path:
        """The folder that it works in."""
        return self.folder / "project"

    def run(self, *turns: str, resume: str | None = None) -> str:
        """Run one process through some turns; the id of its session at the end."""
        (self.project / ".claude").mkdir(parents=True, exist_ok=True)
        settings = json.dumps(hooks_of("claude-code"))
        (self.project / ".claude/settings.json").write_text(settings, encoding="utf-8")
        servers = {"mcpServers": {SERVER: {"command": PROGRAM, "args": ["serve"]}}}
        config = self.folder / "mcp.json"
        config.write_text(json.dumps(servers), encoding="utf-8")
        command = [binary_of("claude-code"), "-p", "--verbose", "--mcp-config", str(config)]
        command += ["--input-format", "stream-json", "--output-format", "stream-json"]
        command += ["--strict-mcp-config", "--allowedTools", f"mcp__{SERVER}", "Bash"]
        command += ["--resume", resume] if resume else []
        environ = {
            "HOME": str(self.folder / "home"),
            "PATH": os.environ["PATH"],
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": "no key",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "ENABLE_TOOL_SEARCH": "false",
            "MCP_COMPACTION_COUNTER": "estimate",
        }
        return self._talk(command, environ, turns)

    def _talk(self, command: list[str], environ: dict[str, str], turns: Sequence[str]) -> str:
        session = ""
        with subprocess.Popen(
            command,
            cwd=self.project,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for turn in turns:
                message = {"type": "user", "message": {"role": "user", "content": turn}}
                process.stdin.write(json.dumps(message) + "\n")
                process.stdin.flush()
                for line in process.stdout:
                    told = json.loads(line)
                    self.said.append(told)
                    session = told.get("session_id", session)
                    if told.get("type") == "result":
                        break
            process.stdin.close()
            process.stdout.read()
            process.wait(_LIMIT)
        return session


@dataclass(slots=True)
class Codex:
    """Codex in a folder of its own, told to run hooks that no user has trusted."""

    folder: Path
    model: ScriptedModel
    compacts_at: int = 50_000  # tokens

    @property
    def project(self) -> Path:
        """The folder that it works in."""
        return self.folder / "project"

    def run(self, prompt: str, *, resumes: bool = False) -> None:
        """Run one turn, of a new session or of the last one."""
        home = self.folder / "codex"
        home.mkdir(exist_ok=True)
        self.project.mkdir(exist_ok=True)
        (home / "hooks.json").write_text(json.dumps(hooks_of("codex")), encoding="utf-8")
        (home / "config.toml").write_text(self._config(home), encoding="utf-8")
        flags = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        flags += ["--dangerously-bypass-hook-trust", "--json"]
        command = [binary_of("codex"), "exec", *(["resume", "--last"] if resumes else [])]
        subprocess.run(
            [*command, *flags, prompt],
            cwd=self.project,
            env={
                "HOME": str(self.folder / "home"),
                "PATH": os.environ["PATH"],
                "CODEX_HOME": str(home),
                "KEY": "no key",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_LIMIT,
            check=True,
        )

    def _config(self, home: Path) -> str:
        return f"""\
model = "gpt-5.1-codex"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
model_auto_compact_token_limit = {self.compacts_at}
[analytics]
enabled = false
[model_providers.scripted]
name = "scripted"
base_url = "{self.model.url}/v1"
wire_api = "responses"
env_key = "KEY"
[mcp_servers.{SERVER}]
command = {json.dumps(PROGRAM)}
args = ["serve"]
env = {{ CODEX_HOME = {json.dumps(str(home))}, MCP_COMPACTION_COUNTER = "estimate" }}
required = true
"""

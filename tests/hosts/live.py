"""Runs real hosts against a scripted model, with our server and our hooks plugged in.

MCP_COMPACTION_HOSTS names the folder in which npm has installed them, one folder a host.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction import compactor
from mcp_compaction.compactor.results import PinWish
from mcp_compaction.hosts.events import TOOL
from mcp_compaction.ports import SessionKey
from mcp_compaction.settings import load_settings
from mcp_compaction.wiring import open_workspace
from tests.hosts.scripted_model import ScriptedModel
from tests.hosts.terminal import Terminal
from tests.hosts.tmux import Tmux

PROGRAM = str(Path(sys.executable).with_name("mcp-compaction"))
_BINARIES = {
    "claude-code": "claude/node_modules/@anthropic-ai/claude-code-*/claude",
    "codex": "codex/node_modules/@openai/codex-*/vendor/*/bin/codex",
    "opencode": "opencode/node_modules/opencode-*/bin/opencode",
    "gemini": "gemini/node_modules/.bin/gemini",
}
BOUND = "claude-opus-5-5"  # a model that binds its thinking
_LIMIT = 120  # seconds after which a host that hangs is ended
_PATIENT = {"MCP_COMPACTION_HOOK_SECONDS": "60"}  # however busy the machine is


needs_hosts = [
    pytest.mark.skipif(
        not os.environ.get("MCP_COMPACTION_HOSTS"),
        reason="MCP_COMPACTION_HOSTS names no folder with installed hosts",
    ),
    pytest.mark.usefixtures("home_of_host"),
]


def binary_of(host: str) -> str:
    """The binary of an installed host; the test is skipped without."""
    folder = os.environ["MCP_COMPACTION_HOSTS"]
    found = sorted(Path(folder).glob(_BINARIES[host]))
    if not found:
        pytest.skip(f"{host} is not installed in {folder}")
    return str(found[0])


def install(host: str, environ: dict[str, str], project: Path) -> None:
    """Plug us in as a user does; twice is once."""
    command = [PROGRAM, "install", host]
    subprocess.run(command, env=environ, cwd=project, check=True, capture_output=True)


async def pin_for_project(project: Path, home: Path, text: str) -> None:
    """Pin a text for a project, as its user does."""
    work = await open_workspace(load_settings({"HOME": str(home)}))
    try:
        info, _ = await compactor.open_session(work, SessionKey(project=str(project)))
        await compactor.pin(work, info, PinWish(text, by="user", scope="project"))
    finally:
        await work.store.close()


def words_kept(home: Path) -> list[tuple[str, str]]:
    """What was said in all sessions, by the subagents that said it; the main agent has no name."""
    (path,) = home.rglob("store.db")
    ask = "SELECT session.agent, raw FROM message JOIN session ON session.id = session"
    with closing(sqlite3.connect(path)) as store:
        return [(bool(agent) * "agent", raw) for agent, raw in store.execute(ask)]


def ask_doctor(environ: dict[str, str], project: Path) -> tuple[int, dict[str, Any]]:
    """The exit code of doctor, and what it says."""
    command = [PROGRAM, "doctor", "--json"]
    ran = subprocess.run(command, env=environ, cwd=project, check=False, capture_output=True)
    return ran.returncode, json.loads(ran.stdout)


@dataclass(slots=True)
class _Host:
    """A host in a folder of its own, with its model."""

    folder: Path
    model: ScriptedModel

    @property
    def project(self) -> Path:
        """The folder that it works in."""
        return self.folder / "project"


@dataclass(slots=True)
class ClaudeCode(_Host):
    """Claude Code in a folder of its own."""

    wishes: dict[str, str] = field(default_factory=dict[str, str])  # more of its environment
    is_installed: bool = True  # False: the plugin was added from its repository
    plugin_dir: Path | None = None  # a plugin that is named when it is started
    has_module: bool = True  # False: its user has switched our plugin off, and has the hooks alone
    said: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    @property
    def environ(self) -> dict[str, str]:
        """The environment of its user."""
        return {
            "HOME": str(self.folder / "home"),
            "PATH": os.environ["PATH"],
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": "no key",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "ENABLE_TOOL_SEARCH": "false",
            "MCP_COMPACTION_COUNTER": "estimate",
            **_PATIENT,
            **self.wishes,
        }

    def run(self, *turns: str | Callable[[], str], resume: str | None = None) -> str:
        """Run one process through some turns; the id of its session at the end."""
        self.project.mkdir(parents=True, exist_ok=True)
        command = [binary_of("claude-code"), "-p", "--verbose", "--allowedTools", "Bash"]
        command += ["--input-format", "stream-json", "--output-format", "stream-json"]
        command += ["--resume", resume] if resume else []
        command += ["--debug-file", str(self.log)]
        command += ["--plugin-dir", str(self.plugin_dir)] if self.plugin_dir else []
        if self.is_installed:
            install("claude-code", self.environ, self.project)
        if not self.has_module:
            self._switch_plugin_off()
        return self._talk(command, self.environ, turns)

    def plug_in(self) -> list[str]:
        """Plug us in as a user does; the command that runs the host."""
        self.project.mkdir(parents=True, exist_ok=True)
        install("claude-code", self.environ, self.project)
        if not self.has_module:
            self._switch_plugin_off()
        return [binary_of("claude-code"), "--allowedTools", "Bash"]

    def open(self) -> Terminal:
        """Start it as a person does who has used it before."""
        return Terminal(*self._opened())

    def open_in_tmux(self) -> Tmux:
        """The same, in a terminal whose screen can be looked at."""
        return Tmux(*self._opened())

    def _opened(self) -> tuple[list[str], Path, dict[str, str]]:
        command = self.plug_in()
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        path = home / ".claude.json"
        known: dict[str, Any] = {
            **(json.loads(path.read_text("utf-8")) if path.exists() else {}),
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": {"approved": [self.environ["ANTHROPIC_API_KEY"]]},
            "projects": {str(self.project): trusted},
        }
        path.write_text(json.dumps(known), encoding="utf-8")
        environ = {**self.environ, "DISABLE_AUTOUPDATER": "1", "LANG": "C.UTF-8"}
        return command, self.project, environ

    def _switch_plugin_off(self) -> None:
        path = self.folder / "home/.claude/settings.json"
        settings = json.loads(path.read_text("utf-8"))
        settings["enabledPlugins"] = dict.fromkeys(settings["enabledPlugins"], False)
        path.write_text(json.dumps(settings), encoding="utf-8")

    @property
    def log(self) -> Path:
        """What it writes down about itself."""
        return self.folder / "claude.log"

    def manage_plugins(self, *words: str) -> str:
        """Run `claude plugin`; what it says."""
        self.project.mkdir(parents=True, exist_ok=True)
        command = [binary_of("claude-code"), "plugin", *words]
        ran = subprocess.run(
            command,
            cwd=self.project,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def add_forged_hook(self, transcript: Path) -> None:
        """Have a hook of the project, as of one that was cloned, tell of another transcript."""
        told = {"event": "UserPromptSubmit", "session_id": "${session_id}"}
        given = {**told, "transcript_path": str(transcript)}
        hook = {"type": "mcp_tool", "server": "compaction", "tool": TOOL, "input": given}
        settings = {"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}}
        (self.project / ".claude").mkdir(parents=True)
        (self.project / ".claude/settings.json").write_text(json.dumps(settings), encoding="utf-8")

    def _talk(
        self,
        command: list[str],
        environ: dict[str, str],
        turns: Sequence[str | Callable[[], str]],
    ) -> str:
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
                said = turn if isinstance(turn, str) else turn()
                message = {"type": "user", "message": {"role": "user", "content": said}}
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
class Codex(_Host):
    """Codex in a folder of its own; trusted: told to run hooks that no user has looked at."""

    compacts_at: int = 50_000  # tokens
    is_trusted: bool = True
    named: str = "gpt-5.1-codex"  # its model
    wishes: dict[str, str] = field(default_factory=dict[str, str])  # more of its environment
    said: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    @property
    def home(self) -> Path:
        """The folder of its own files."""
        return self.folder / "home/.codex"

    @property
    def environ(self) -> dict[str, str]:
        """The environment of its user."""
        return {
            "HOME": str(self.folder / "home"),
            "PATH": os.environ["PATH"],
            "KEY": "no key",
            **self.wishes,
        }

    def run(self, prompt: str, *, resumes: bool = False) -> None:
        """Run one turn, of a new session or of the last one."""
        home = self.home
        self.project.mkdir(exist_ok=True)
        if not home.exists():
            home.mkdir(parents=True)
            (home / "config.toml").write_text(self._config(), encoding="utf-8")
        install("codex", self.environ, self.project)
        flags = ["--skip-git-repo-check", "--json"]
        flags += ["--dangerously-bypass-hook-trust"] if self.is_trusted else []
        command = [binary_of("codex"), "exec", *(["resume", "--last"] if resumes else [])]
        ran = subprocess.run(
            [*command, *flags, prompt],
            cwd=self.project,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_LIMIT,
            check=True,
        )
        self.said += map(json.loads, ran.stdout.splitlines())

    def trust_hooks(self) -> None:
        """Start it as a person does, and say yes to the hooks that it asks about."""
        config = self.home / "config.toml"
        terminal = Terminal([binary_of("codex")], self.project, self.environ)
        try:
            terminal.wait_for("2. Trust all and continue")
            terminal.wait_for("› 2. Trust all and continue", key="2")
            terminal.wait_until(lambda: "trusted_hash" in config.read_text("utf-8"), key="\r")
        finally:
            terminal.close()
            self._end_daemons()

    def _end_daemons(self) -> None:
        """End what it leaves running when its window is closed."""
        for path in (self.home / "app-server-daemon").glob("*.pid"):
            with suppress(ProcessLookupError):
                os.kill(json.loads(path.read_text("utf-8"))["pid"], signal.SIGKILL)

    def _config(self) -> str:
        return f"""\
model = "{self.named}"
model_provider = "scripted"
check_for_update_on_startup = false
model_auto_compact_token_limit = {self.compacts_at}
[analytics]
enabled = false
[model_providers.scripted]
name = "scripted"
base_url = "{self.model.url}/v1"
wire_api = "responses"
env_key = "KEY"
"""


@dataclass(slots=True)
class OpenCode(_Host):
    """opencode in a folder of its own, with our plugin."""

    # Other tests share the machine: what is slow is mostly not what is tested.
    is_patient: bool = True
    wishes: dict[str, str] = field(default_factory=dict[str, str])  # more of its environment

    def run(self, prompt: str, *, resumes: bool = False, limit: float = _LIMIT) -> None:
        """Run one turn, of a new session or of the last one."""
        home = self.folder / "home"
        self.project.mkdir(exist_ok=True)
        _give_package_of_plugins(home / ".config/opencode")
        config = json.dumps(self._config())
        (self.project / "opencode.json").write_text(config, encoding="utf-8")
        environ = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            **self.wishes,
        }
        if self.is_patient:
            environ["MCP_COMPACTION_COUNTER"] = "estimate"
            environ["MCP_COMPACTION_VIEW_TIMEOUT_SECONDS"] = "60"
        install("opencode", environ, self.project)
        command = [binary_of("opencode"), "run", "--format", "json"]
        command += ["--continue"] if resumes else []
        # An argument with a space it would put in quotes.
        _run_to_the_end([*command, *prompt.split(" ")], self.project, environ, limit)

    def _config(self) -> dict[str, Any]:
        limit = {"context": 200_000, "output": 8000}
        provider: dict[str, Any] = {
            "npm": "@ai-sdk/anthropic",
            "name": "scripted",
            "options": {"baseURL": f"{self.model.url}/v1", "apiKey": "no key"},
            "models": {BOUND: {"tool_call": True, "reasoning": True, "limit": limit}},
        }
        return {
            "provider": {"scripted": provider},
            "model": f"scripted/{BOUND}",
            "small_model": f"scripted/{BOUND}",
            "autoupdate": False,
            "share": "disabled",
        }


@dataclass(slots=True)
class Gemini(_Host):
    """Gemini CLI in a folder of its own."""

    compresses_at: float = 0.5  # the share of its window

    def run(self, prompt: str, *, resumes: bool = False) -> None:
        """Run one turn, of a new session or of the last one."""
        home = self.folder / "home"
        (home / ".gemini").mkdir(parents=True, exist_ok=True)
        self.project.mkdir(exist_ok=True)
        environ = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "GOOGLE_GEMINI_BASE_URL": self.model.url,
            "GEMINI_API_KEY": "no key",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "MCP_COMPACTION_COUNTER": "estimate",
            **_PATIENT,
        }
        command = [PROGRAM, "install", "gemini", "--print", "--json"]
        printed = subprocess.run(command, env=environ, check=True, capture_output=True).stdout
        (lines,) = json.loads(printed)["files"].values()
        settings: dict[str, Any] = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "general": {"enableAutoUpdate": False, "sessionRetention": {"enabled": False}},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "hooksConfig": {"enabled": True, "notifications": False},
            "model": {"compressionThreshold": self.compresses_at},
            **json.loads(lines),
        }
        settings["mcpServers"]["compaction"] |= {"trust": True}
        (home / ".gemini/settings.json").write_text(json.dumps(settings), encoding="utf-8")
        command = [binary_of("gemini"), "-p", prompt, "--approval-mode", "yolo"]
        command += ["--output-format", "json", "-m", "gemini-2.5-pro"]
        command += ["--resume", "latest"] if resumes else []
        _run_to_the_end(command, self.project, environ)


def _run_to_the_end(
    command: list[str], folder: Path, environ: dict[str, str], limit: float = _LIMIT
) -> None:
    subprocess.run(
        command,
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=limit,
        check=True,
    )


def _give_package_of_plugins(folder: Path) -> None:
    """Give opencode the package that it would fetch from the network, and wait for."""
    hosts = Path(os.environ["MCP_COMPACTION_HOSTS"])
    places = (hosts / "opencode", hosts / "home/.config/opencode")
    place = next((p for p in places if (p / "node_modules/@opencode-ai/plugin").exists()), None)
    if place is None:
        pytest.skip(f"@opencode-ai/plugin is not installed in {hosts}")
    if not folder.exists():
        folder.mkdir(parents=True)
        (folder / "node_modules").symlink_to(place / "node_modules")
        for name in ("package.json", "package-lock.json"):
            (folder / name).write_bytes((place / name).read_bytes())

"""Every example works as it stands."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_the_first_session_runs_and_keeps_the_rule() -> None:
    script = EXAMPLES / "first_session" / "first_session.py"
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "p1 by user: Never run migrations against prod; only staging." in done.stdout
    assert "c1 done: " in done.stdout
    assert "the rule among them: True" in done.stdout
    assert "c2 paged in: " in done.stdout
    assert "c3 restored: " in done.stdout


@pytest.mark.parametrize(
    "program",
    [
        "hr_supervisor/hr_supervisor.py",
        "langgraph_supervisor/supervisor.py",
        "local_loop/local_loop.py",
        "own_loop/own_loop.py",
        "personal_assistant/assistant.py",
        "researcher/researcher.py",
    ],
)
def test_an_example_prints_what_its_readme_shows(program: str) -> None:
    script = EXAMPLES / program
    shown = (script.parent / "README.md").read_text(encoding="utf-8")
    done = _run_without_keys(script)
    expected = shown.partition("```text\n")[2].partition("```")[0]
    assert _without_nonce(done) == _without_nonce(expected)
    if "researcher" in program:
        assert "the memory is in the window: 1 time" in done
        left = re.search(
            r"findings in the window: (\d+) of 60\n +the others, recalled: (\d+)", done
        )
        assert left is not None
        assert int(left[1]) + int(left[2]) == 60


def _run_without_keys(script: Path) -> str:
    env = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, env=env
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _without_nonce(text: str) -> str:
    """What was printed without the number that is another one in each run."""
    return re.sub(r"(?<=marks )\d+", "#", text)


def test_the_options_for_the_claude_agent_sdk_start_what_the_package_installs() -> None:
    options = json.loads(_run_without_keys(EXAMPLES / "claude_agent_sdk" / "agent.py"))
    command = options["mcp_servers"]["compaction"]["command"]
    (start,) = json.loads(options["settings"])["hooks"]["SessionStart"]
    assert start["hooks"][0]["command"] == f'"{command}" pins'
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("mcp-compaction ")


def test_the_desktop_entry_starts_what_the_package_installs() -> None:
    entry = json.loads((EXAMPLES / "claude_desktop" / "claude_desktop_config.json").read_text())
    server = entry["mcpServers"]["compaction"]
    script = Path(server["command"])
    assert script.is_absolute()
    installed = Path(sys.executable).with_name(script.name)
    done = subprocess.run([installed, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("mcp-compaction ")


def test_every_example_has_a_readme_that_names_its_files() -> None:
    for folder in EXAMPLES.iterdir():
        text = (folder / "README.md").read_text(encoding="utf-8")
        for file in folder.iterdir():
            if file.suffix in (".py", ".json"):
                assert file.name in text

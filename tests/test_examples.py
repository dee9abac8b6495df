"""Every example works as it stands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

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


def test_the_agent_of_a_loop_compresses_its_own_window() -> None:
    script = EXAMPLES / "own_loop" / "own_loop.py"
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "pin_constraint: pinned as p1 (constraint, project, by user" in done.stdout
    assert "compress_context: c1 done: " in done.stdout
    assert "compress_context: c2 done: " in done.stdout
    assert "46 requests" in done.stdout
    assert "the rule is in the window: True" in done.stdout


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

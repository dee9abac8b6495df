"""What is left of a call that a pin held: what the model is told, what is on disk, who waits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction.checks.biting import bite
from mcp_compaction.checks.check import parse_check
from mcp_compaction.checks.file import allow_once, read_held, rules_path, write_rules
from mcp_compaction.checks.judge import Rule

TOKEN = "ghp_" + "a1B2c3" * 6
PUSH = f"git push https://x:{TOKEN}@github.com/o/plumtree.git HEAD:main"
RULE = Rule(1, "Never push to main.", (parse_check("deny Bash: git push"),), scope="global")
HOLD = """\
import fcntl, sys
file = open(sys.argv[1], "rb")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def told(command: str = PUSH, **more: Any) -> dict[str, Any]:
    """What Claude Code tells of a call."""
    given = {"session_id": "s1", "tool_use_id": "c1", "tool_name": "Bash"}
    return {**given, "cwd": "/p", "tool_input": {"command": command}, **more}


def reason(answer: str) -> str:
    """What the model reads."""
    return json.loads(answer)["hookSpecificOutput"]["permissionDecisionReason"]


def test_the_reason_quotes_the_pin_and_the_command_with_its_secrets_masked(tmp_path: Path) -> None:
    write_rules(tmp_path, [RULE])
    text = reason(bite("claude-code", told(), tmp_path))
    assert "pin p1, by user: Never push to main." in text
    assert "It means: git push https://[masked:url-credentials]@github.com/o/plumtree.git" in text
    assert TOKEN not in text


def test_a_secret_in_a_script_that_is_run_does_not_reach_the_model(tmp_path: Path) -> None:
    write_rules(tmp_path, [RULE])
    (tmp_path / "deploy.sh").write_text(f"{PUSH}\n")
    answer = bite("claude-code", told("sh deploy.sh", cwd=str(tmp_path)), tmp_path)
    assert "[masked:url-credentials]" in reason(answer)
    assert TOKEN not in answer


def test_nothing_of_a_held_call_is_on_disk(tmp_path: Path) -> None:
    write_rules(tmp_path, [RULE])
    bite("claude-code", told(), tmp_path)
    assert [(one.pin, one.verdict, one.call) for one in read_held(tmp_path)] == [(1, "deny", "c1")]
    texts = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"plumtree" not in texts
    assert TOKEN.encode() not in texts


@contextmanager
def stopped_holder(home: Path) -> Generator[int]:
    """A process that holds the lock of the rules and has been stopped."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(rules_path(home))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        process.send_signal(signal.SIGSTOP)
        try:
            yield process.pid
        finally:
            process.kill()


@pytest.mark.skipif(sys.platform == "win32", reason="no process is stopped there")
def test_a_hook_that_stands_still_holds_up_no_other_and_the_check_holds(tmp_path: Path) -> None:
    write_rules(tmp_path, [RULE])
    program = str(Path(sys.executable).with_name("mcp-compaction"))
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    with stopped_holder(tmp_path):
        ran = subprocess.run(
            [program, "hook", "claude-code", "PreToolUse", "--home", str(tmp_path)],
            input=json.dumps(told()),
            env=environ,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        text = reason(ran.stdout)
        assert f"holds {rules_path(tmp_path)} and does not go on" in text
        assert "Tell the user to end it" in text
        allow_once(tmp_path, 1)
        assert bite("claude-code", told(tool_use_id="c2"), tmp_path) == ""
        write_rules(tmp_path, [RULE, RULE._replace(pin=2)])  # who sets a check waits for nobody
        assert "does not go on" not in bite("claude-code", told(tool_use_id="c3"), tmp_path)
    assert [one.verdict for one in read_held(tmp_path)] == ["deny", "allowed", "deny"]

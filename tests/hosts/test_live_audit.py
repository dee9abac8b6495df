"""What `audit` tells of chats that real hosts have compacted, whose figures are known."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.hosts.live import PROGRAM, ClaudeCode, Codex, needs_hosts
from tests.hosts.scripted_model import ScriptedModel, Step, serve_model

pytestmark = needs_hosts

RULE = "Never run migrations against prod-db-2."


def audit_of(folder: Path, host: str) -> list[dict[str, Any]]:
    command = [PROGRAM, "audit", host, "--json"]
    environ = {"HOME": str(folder / "home"), "PATH": "/usr/bin:/bin"}
    ran = subprocess.run(command, env=environ, check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)["findings"]


def shell(command: str) -> Step:
    return Step(tool="shell", arguments={"command": command})


def rules_of(finding: dict[str, Any]) -> tuple[int, int]:
    counts = [count for count in finding["counts"] if count["kind"] == "rules"]
    return (counts[0]["before"], counts[0]["stood"]) if counts else (0, 0)


def test_two_compactions_of_claude_code_and_a_resumed_chat_are_told_as_they_were(
    tmp_path: Path,
) -> None:
    first = [shell("seq 100 140"), Step("read")]
    second = [shell("seq 100 140"), shell("basename prod-db-2"), Step("done"), Step("hello")]
    with serve_model(ScriptedModel(*first, *second)) as model:
        host = ClaudeCode(tmp_path, model, has_module=False)
        session = host.run(RULE, "/compact", "Go on.", "/compact")
        host.run("Are you there?", resume=session)
    one, two = sorted(audit_of(tmp_path, "claude-code"), key=lambda found: found["number"])
    assert (one["chat"], one["trigger"], one["is_ours"]) == (session, "manual", False)
    assert (rules_of(one), rules_of(two)) == ((1, 0), (0, 0))
    assert one["lost_rules"] == [RULE]
    assert [(again["kind"], again["times"]) for again in one["again"]] == [("run", 1)]
    assert [broken["call"] for broken in one["broken"]] == ["basename prod-db-2"]
    assert one["cost"]["seconds"] is not None
    assert not two["broken"]


def test_an_automatic_compaction_of_codex_is_told_as_it_was(tmp_path: Path) -> None:
    steps = [shell("seq 100 140"), Step("read", reported=60_000), Step("hello")]
    with serve_model(ScriptedModel(*steps)) as model:
        host = Codex(tmp_path, model)
        host.run(RULE)
        host.run("Are you there?", resumes=True)
    (one, *_) = audit_of(tmp_path, "codex")
    assert one["host"] == "codex"
    assert rules_of(one) == (1, 1)  # Codex keeps what its user said

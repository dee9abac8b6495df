"""What was started in the background runs until a result or the host tells its end."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mcp_compaction.core.log.jobs import running_jobs
from mcp_compaction.lexicon.tools import JobSign, known_tools
from mcp_compaction.model import HostJobs, JobKind
from tests.core.saying import Json, call, ran, used, user
from tests.sessions import NOW, messages_of

STARTED = "Command running in background with ID: bf7a97f. Output is being written to: /tmp/o"
LAUNCHED = "Async agent launched successfully.\nagentId: afba179 (internal ID)"


def running(*steps: list[Json], told: HostJobs | None = None) -> list[tuple[str, ...]]:
    messages = messages_of([m for step in steps for m in step])
    found = running_jobs(messages, told=[told] if told else [])
    return [(job.kind, job.id, job.text, job.ref) for job in found]


def says(*names: str, kind: JobKind = "agent", after: int = 99) -> HostJobs:
    """What a host says after so many messages."""
    return HostJobs(at=NOW + timedelta(seconds=after), kinds=(kind,), names=names)


def notified(id: str, status: str) -> list[Json]:
    inside = f"<task-id>{id}</task-id>\n<status>{status}</status>\n<summary>x</summary>"
    return [user(f"<task-notification>\n{inside}\n</task-notification>\nRead the output.")]


def asked(id: str, status: str, output: str = "") -> list[Json]:
    said = f"<task_id>{id}</task_id>\n<status>{status}</status>\n<output>\n{output}\n</output>"
    return used("9", "TaskOutput", said, task_id=id, block=True)


@pytest.mark.parametrize("sign", known_tools().job, ids=lambda sign: f"{sign.host} {sign.kind}")
def test_a_job_is_known_by_its_example_and_not_by_its_near_miss(sign: JobSign) -> None:
    tool = {"command": "Bash", "agent": "Task", "schedule": "CronCreate"}[sign.kind]
    ((kind, id, text, ref),) = running(used("1", tool, sign.example, command="x", prompt="x"))
    assert (kind, id, ref) == (sign.kind, sign.id, "m1")
    assert "x" in text
    assert running(used("1", tool, sign.near_miss, command="x", prompt="x")) == []


def test_a_command_runs_until_the_host_or_a_result_tells_its_end() -> None:
    server = ran("1", "pnpm --filter web dev", STARTED)
    job = ("command", "bf7a97f", "pnpm --filter web dev", "m1")
    assert running(server) == [job]
    assert running(server, asked("bf7a97f", "running", "<status>completed</status>")) == [job]
    assert running(server, notified("b682623", "completed")) == [job]
    for status in ("completed", "failed", "killed"):
        assert running(server, notified("bf7a97f", status)) == []
        assert running(server, asked("bf7a97f", status)) == []
    assert running(server, used("2", "KillShell", "ok", shell_id="bf7a97f")) == []
    assert running(server, used("2", "KillShell", "Error: no", shell_id="bf7a97f")) == [job]


def test_a_subagent_runs_until_it_has_answered() -> None:
    task = [call("1", "Task", description="Scan the docs", prompt="…")]
    assert running(task) == [("agent", "", "Scan the docs", "m1")]
    assert running(used("1", "Task", "Three pages.", description="Scan the docs")) == []
    launched = used("1", "Agent", LAUNCHED, description="Scan the docs")
    assert running(launched) == [("agent", "afba179", "Scan the docs", "m1")]
    assert running(launched, notified("afba179", "completed")) == []


def test_sessions_and_agents_of_codex_end_as_their_polls_say() -> None:
    build = ran("1", "npm run build", "Process running with session ID 42\nOutput:\nBuilding")
    poll = used("2", "write_stdin", "Process running with session ID 42", session_id=42)
    assert [one[1] for one in running(build, poll)] == ["42"]
    ended = used("3", "write_stdin", "Process exited with code 0\nOutput:", session_id=42)
    assert running(build, poll, ended) == []
    spawned = used("1", "spawn_agent", '{"agent_id":"01a1"}', message="Count")
    waited = used("2", "wait", '{"status":{"01a1":{"completed":"41"}}}', ids=["01a1"])
    assert [one[1] for one in running(spawned)] == ["01a1"]
    assert running(spawned, waited) == []
    other = used("2", "wait", '{"status":{"02b2":{"completed":"7"}}}', ids=["01a1", "02b2"])
    assert [one[1] for one in running(spawned, other)] == ["01a1"]


def test_a_subagent_that_was_given_more_to_do_runs_until_it_ends_again() -> None:
    launched = used("1", "Agent", LAUNCHED, description="Scan the docs")
    ended = notified("afba179", "completed")
    assert running(launched, ended, told=says("afba179")) == running(launched)
    assert running(launched, ended, told=says("afba179", after=2)) == []


def test_a_process_that_was_killed_by_its_number_has_ended() -> None:
    server = ran("1", "npm start", "Command moved to background (PID: 33701). Output hidden.")
    assert running(server, ran("2", "echo 33701", "33701")) != []
    assert running(server, ran("2", "kill -9 33701", "")) == []

"""The command that evaluates, in small."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.audit.chats import ClaudeChat
from tests.cli.conftest import Shell
from tests.evals.handover.working import small_session
from tests.models.server import endpoint

SMALL = (
    "--sessions", "1", "--tokens", "3000", "--rounds", "0", "--referee", "0",
    "--counter", "estimate",
)  # fmt: skip


def test_a_person_gets_tables_and_a_page(shell: Shell) -> None:
    path = shell.folder / "report.html"
    ran = shell.bare("eval", *SMALL, "--html", str(path))
    assert (ran.code, ran.err) == (0, "")
    assert "generated, to 10 % of" in ran.out
    assert "mcp-compaction" in ran.out
    assert "rule, pinned" in ran.out
    assert ran.out.endswith(f"the report with charts: {path}\n")
    assert path.read_text().startswith("<!doctype html>")


def test_sessions_of_ones_own_are_measured_for_a_person_and_for_a_program(shell: Shell) -> None:
    path = shell.folder / "mine.jsonl"
    path.write_text("\n".join(json.dumps(message) for message in small_session()))
    ran = shell.bare("eval", str(path), "--counter", "estimate")
    assert (ran.code, ran.err) == (0, "")
    headline = r"names in later calls that are in view, plain messages to the default: \d+ % \("
    assert re.match(headline, ran.out)
    assert "handover, 1 session of plain messages, to 10 %" in ran.out
    assert "generated" not in ran.out
    found = shell.bare("eval", str(path), "--counter", "estimate", "--json").json()
    assert found["sessions"] == found["scores"] == []
    assert {score["budget"] for score in found["handover"]} == {"the default", "25 %", "10 %"}


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (("--sessions", "0"), "there is nothing to measure; pass --sessions, a host or a file."),
        (("--sessions", "-1"), "--sessions -1 is too few; pass 0 or more."),
        (("nowhere.jsonl",), "'nowhere.jsonl' is no host and no file; name one of claude-code"),
        (("--limit", "0"), "--limit 0 is too few; pass 1 or more."),
        (("--tokens", "10"), "--tokens 10 is too few; pass 1,000 or more."),
        (("--tokens", "9" * 20), "is too many; pass 120,000 or fewer."),
        (("--rounds", "31"), "--rounds 31 is too many; pass 30 or fewer."),
        (("--sessions", "0", "--tau", "/no/such"), "cannot read /no/such: "),
    ],
)
def test_what_makes_no_sense_is_refused(
    shell: Shell, argv: tuple[str, ...], complaint: str
) -> None:
    ran = shell.bare("eval", *argv)
    assert ran.code == 2
    assert complaint in ran.err


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "there is no message in it"),
        (b"not JSON", "is no JSON; send messages such as "),
        (b"\xff\x00", "pass a UTF-8 file."),
        (b'{"role":"user","content":"Hello"}', "1 session too short to be cut"),
    ],
)
def test_where_nothing_could_be_measured_that_is_no_success(
    shell: Shell, data: bytes, reason: str
) -> None:
    path = shell.folder / "mine.jsonl"
    path.write_bytes(data)
    ran = shell.bare("eval", str(path), "--json")
    assert (ran.code, ran.out) == (2, "")
    assert "nothing was measured; pass a session of 20 messages or more.\n  left out: " in ran.err
    assert reason in ran.err


MODEL = {"MCP_COMPACTION_SUMMARIZER_MODEL": "model-x"}


@pytest.mark.thorough
@pytest.mark.parametrize(("api", "path"), [("anthropic", ""), ("openai", "/v1")])
def test_a_model_is_measured_beside_what_is_extracted(shell: Shell, api: str, path: str) -> None:
    page = shell.folder / "report.html"
    with endpoint("ok") as served:
        asking = shell.with_environ(
            {**MODEL, "MCP_COMPACTION_SUMMARIZER_BASE_URL": served.url + path}
        )
        ran = asking.bare("eval", *SMALL, "--rounds", "2", "--summarizer", api, "--html", str(page))
    assert (ran.code, ran.err) == (0, "")
    assert re.search(r"^ +n +mcp-compaction +mcp-compaction \+ model-x +", ran.out, re.M)
    assert "the difference that model-x makes" in ran.out
    assert re.search(r"generated at 10 % .*[+-]\d+, [+-]\d+", ran.out)
    assert re.search(r"^model-x, asked for \d+ digests: \d+ model calls, ", ran.out, re.M)
    assert "mcp-compaction + model-x" in page.read_text()
    assert len(served.asked) > 3


def compacted_chat(shell: Shell) -> Path:
    """A folder with a chat that its host has compacted, and that went on."""
    folder = shell.folder / "chats"
    folder.mkdir()
    chat = ClaudeChat(folder)
    chat.ask("Totals are kept in cents, never in euros.")
    chat.call("Read", "def load(): ...\n" * 40, file_path="src/load.py")
    chat.compact("The user works on src/load.py.", durationMs=61_000)
    for _ in range(9):
        chat.call("Read", "def load(): ...\n" * 40, file_path="src/load.py")
    return folder


def test_hosts_own_compactions_are_measured_beside_ours(shell: Shell) -> None:
    folder, page = compacted_chat(shell), shell.folder / "page.html"
    ran = shell.bare("eval", "compactions", str(folder), "--html", str(page))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("1 compaction by hosts in 1 chat, each beside ours\n")
    for way in ("mcp-compaction", "the host's summary", "newest lines", "tickets"):
        assert ran.out.count(f"  {way} ") == 2
    assert "the host's 61 s (1 tell it), 90k tokens read" in ran.out
    assert "The future followed the host's summary" in ran.out
    assert page.read_text().startswith("<!doctype html>")
    found = shell.bare("eval", "compactions", str(folder), "--json").json()
    assert len(found["compactions"]) == 1
    assert not list(shell.folder.rglob("store.db"))


def test_where_no_host_has_compacted_the_next_step_is_named(shell: Shell) -> None:
    ran = shell.bare("eval", "compactions", str(shell.folder))
    assert ran.code == 2
    assert ran.err.endswith("or measure whole sessions: eval claude-code\n")

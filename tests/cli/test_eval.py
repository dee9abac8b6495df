"""The command that evaluates, in small."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction.cli.commands import eval as command
from tests.audit.chats import write_rollout
from tests.cli.conftest import Shell
from tests.evals.handover.working import small_session
from tests.models.server import endpoint

SMALL = (
    "--sessions", "1", "--tokens", "3000", "--rounds", "0", "--referee", "0",
    "--counter", "estimate",
)  # fmt: skip


def test_its_help_says_what_it_does_and_gives_examples(shell: Shell) -> None:
    ran = shell.bare("eval", "--help")
    assert (ran.code, ran.err) == (0, "")
    for words in ("HOST|PATH", "--locomo FILE", "--tau FILE", "--html FILE", "--json"):
        assert words in ran.out
    for example in command.EXAMPLES:
        assert f"  mcp-compaction {example}\n" in ran.out + "\n"


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


@pytest.mark.parametrize("flag", ["--locomo", "--tau"])
@pytest.mark.parametrize("text", ['{"a": 1}', '[{"a": 1}]', "[[1]]", "7"])
def test_json_that_is_no_file_of_the_benchmark_is_refused(
    shell: Shell, flag: str, text: str
) -> None:
    path = shell.folder / "chat.json"
    path.write_text(text)
    ran = shell.bare("eval", "--sessions", "0", flag, str(path))
    assert ran.code == 2
    assert ran.err.startswith(f"mcp-compaction: {path} is not a file of ")


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


def test_a_page_that_cannot_be_written_is_named(shell: Shell, tmp_path: Path) -> None:
    ran = shell.bare("eval", *SMALL, "--html", str(tmp_path))
    assert ran.code == 2
    assert f"cannot write {tmp_path}: " in ran.err


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


def test_with_a_model_that_fails_the_figures_are_those_of_what_is_extracted(shell: Shell) -> None:
    with endpoint("401") as served:
        asking = shell.with_environ({**MODEL, "MCP_COMPACTION_SUMMARIZER_BASE_URL": served.url})
        ran = asking.bare("eval", *SMALL, "--summarizer", "anthropic", "--json")
    found = ran.json()
    kept = {
        name: {
            (score["percent"], score["kind"]): (score["closed_book"], score["with_recall"])
            for score in found["scores"]
            if score["strategy"] == name
        }
        for name in ("mcp-compaction", "mcp-compaction + model-x")
    }
    assert kept["mcp-compaction"] == kept["mcp-compaction + model-x"] != {}
    assert any("refused the key (HTTP 401)" in note for note in found["notes"])


def test_a_summarizer_that_asks_no_model_is_refused(shell: Shell) -> None:
    ran = shell.bare("eval", *SMALL, "--summarizer", "extractive")
    assert ran.code == 2
    assert "--summarizer extractive asks no model; pass anthropic or openai" in ran.err


def test_a_rollout_of_codex_is_measured_too(shell: Shell, tmp_path: Path) -> None:
    def said(role: str, text: str) -> tuple[str, dict[str, Any]]:
        kind = "input_text" if role == "user" else "output_text"
        content = [{"type": kind, "text": text}]
        return "response_item", {"type": "message", "role": role, "content": content}

    turns = [turn for n in range(15) for turn in (said("user", f"go {n}"), said("assistant", "on"))]
    path = tmp_path / "rollout-2026-11-02.jsonl"
    write_rollout(path, turns)
    ran = shell.bare("eval", str(path), "--counter", "estimate")
    assert (ran.code, ran.err) == (0, "")

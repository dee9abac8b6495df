"""The command that evaluates, in small."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcp_compaction.cli import eval as command
from tests.cli.conftest import Shell
from tests.evals.test_corpora import RUN

SMALL = ("--sessions", "1", "--tokens", "3000", "--rounds", "0", "--counter", "estimate")


def test_its_help_says_what_it_does_and_gives_examples(shell: Shell) -> None:
    ran = shell.bare("eval", "--help")
    assert (ran.code, ran.err) == (0, "")
    for words in ("--locomo FILE", "--tau FILE", "--transcript FILE", "--html FILE", "--json"):
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


def test_a_program_gets_one_document(shell: Shell) -> None:
    path = shell.folder / "mine.jsonl"
    path.write_text("\n".join(json.dumps(message) for message in RUN[1:]))
    options = ("--sessions", "0", "--rounds", "0", "--counter", "estimate", "--json")
    ran = shell.bare("eval", *options, "--transcript", str(path))
    assert (ran.code, ran.err) == (0, "")
    found = ran.json()
    assert found["sessions"] == [["transcript", 1]]
    assert {score["kind"] for score in found["scores"]} == {"argument"}


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (("--sessions", "0"), "there is nothing to measure; pass --sessions, or a file."),
        (("--sessions", "-1"), "--sessions -1 is too few; pass 0 or more."),
        (("--tokens", "10"), "--tokens 10 is too few; pass 1,000 or more."),
        (("--sessions", "0", "--tau", "/no/such"), "cannot read /no/such: "),
    ],
)
def test_what_makes_no_sense_is_refused(
    shell: Shell, argv: tuple[str, ...], complaint: str
) -> None:
    ran = shell.bare("eval", *argv)
    assert ran.code == 2
    assert complaint in ran.err


def test_a_page_that_cannot_be_written_is_named(shell: Shell, tmp_path: Path) -> None:
    ran = shell.bare("eval", *SMALL, "--html", str(tmp_path))
    assert ran.code == 2
    assert f"cannot write {tmp_path}: " in ran.err

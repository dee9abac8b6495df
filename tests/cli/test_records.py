"""The records that a command prints for a window that its host has emptied."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from mcp_compaction.core.log.pinned import PINNED_LABEL
from tests.cli.conftest import Shell


def test_records_are_pins_digest_and_index_and_say_how_to_get_more(recorded: Shell) -> None:
    lines = recorded.done("show", "--records").splitlines()
    assert lines[0] == PINNED_LABEL
    assert lines[1].endswith("by user: Never push to main; only the staging key.")
    assert re.match(r"\[digest d\d of m", lines[2])
    assert any(line.startswith("[index;") for line in lines)
    assert lines[-1].startswith("[records: ")
    assert "recall_archived" in lines[-1]


@pytest.mark.parametrize("limit", [1, 60, 400, 1_000, 3_000])
def test_records_with_the_end_of_their_last_line_take_no_more_characters_than_asked_for(
    recorded: Shell, limit: int
) -> None:
    if limit > 1:
        assert len(recorded.done("show", "--records", "--max-chars", str(limit))) <= limit
    document = json.loads(recorded.done("show", "--records", "--max-chars", str(limit), "--json"))
    assert document["session"] == "tax-2026"
    assert len(document["records"]) <= limit


def test_records_within_tokens_are_shorter_than_those_within_as_many_thousand(
    recorded: Shell,
) -> None:
    few, many = (
        recorded.done("show", "--records", "--max-tokens", limit) for limit in ("120", "1200")
    )
    assert 0 < len(few) < len(many)


@pytest.mark.parametrize("limit", ["0", "-5"])
def test_a_limit_that_is_none_is_refused_with_the_option_to_pass(
    recorded: Shell, limit: str
) -> None:
    ran = recorded("show", "--records", "--max-chars", limit)
    assert ran.code == 2
    assert "--max-chars" in ran.err


def test_records_are_printed_without_the_packages_of_servers_and_models(recorded: Shell) -> None:
    script = (
        "import os, sys\n"
        "from mcp_compaction.cli.main import main\n"
        "code = main(sys.argv[1:], sys.stdout, sys.stderr, sys.stdin, os.environ)\n"
        "loaded = {'mcp', 'anthropic', 'openai', 'starlette'} & set(sys.modules)\n"
        "print(code, sorted(loaded), file=sys.stderr)\n"
    )
    argv = ["show", "--records", "--home", str(recorded.home)]
    ran = subprocess.run(
        [sys.executable, "-c", script, *argv],
        capture_output=True,
        text=True,
        env=recorded.environ,
        cwd=recorded.folder,
        check=True,
    )
    assert ran.stdout.startswith(PINNED_LABEL)
    assert ran.stderr.splitlines()[-1] == "0 []"

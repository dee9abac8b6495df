"""The words a person reads: what is rewritten, what is counted, what is named."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import mcp_compaction
from mcp_compaction.cli.commands.stats import describe_events
from mcp_compaction.cli.console.wording import ADVICE, for_person
from mcp_compaction.compactor.events import COMPLETED, FAILED, SAFETY_NET
from tests.cli.conftest import Shell, json_lines

PACKAGE = Path(mcp_compaction.__file__).parent
TOOL_SPEAK = ("force=", "kind=", "restore_context", "Call again", "record messages")


def told_by_the_core() -> Iterator[str]:
    """Every text in the code of the core and the compactor, docstrings left out."""
    rooms = (PACKAGE / "compactor", PACKAGE / "core")
    for path in (path for room in rooms for path in room.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant))
        for node in texts:
            if isinstance(node.value, str) and id(node) not in docs:
                yield node.value


def test_what_is_rewritten_is_what_the_core_says_and_no_tools_argument_is_left_in_it() -> None:
    texts = tuple(told_by_the_core())

    assert [said for said, _ in ADVICE if not any(said in text for text in texts)] == []
    assert [text for text in texts if any(word in for_person(text) for word in TOOL_SPEAK)] == []


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("not compressed: 1 messages in the window", "not compressed: 1 message in the window"),
        ("it would take 1 tokens", "it would take 1 token"),
        ("of 1,001 messages", "of 1,001 messages"),
        ("11 messages, 0.1 tokens", "11 messages, 0.1 tokens"),
    ],
)
def test_one_of_the_cores_things_is_no_plural(said: str, told: str) -> None:
    assert for_person(said) == told


def test_events_are_told_in_words_what_went_well_first() -> None:
    events = ((COMPLETED, 2), (FAILED, 1), (SAFETY_NET, 1), ("WINDOW_REPLACED", 3))
    assert describe_events(events) == (
        "compactions completed: 2, safety net: 1, failed: 1, window replaced: 3"
    )


def test_stats_tells_a_person_no_constants(recorded: Shell) -> None:
    said = recorded.done("stats")
    assert "\nso far: compactions completed: 1\n" in said
    assert "CONTEXT_BUDGET" not in said
    assert COMPLETED in recorded.done("stats", "--json")


def test_one_is_no_plural(shell: Shell) -> None:
    messages = [{"role": "user", "content": f"The zebra crossing is closed, {n}."} for n in (1, 2)]
    first, both = json_lines(messages[:1]), json_lines(messages)
    said = shell.done("record", "--session", "s", stdin=first)
    said += shell.done("sessions") + shell.done("stats") + shell.done("show")
    again = shell.done("record", "--session", "s", stdin=first)
    assert "1 message of these was known already" in again
    shell.done("record", "--session", "s", stdin=both)
    more = shell.done("recall", "zebra", "--max-tokens", "1")
    assert "1 more passage: " in more
    said += again + more + shell.as_user().done("forget", "s", "m1", "--yes")
    assert not re.search(r"\b1 \w*( \w+)?(message|passage|pin|digest|session|token)s\b", said)

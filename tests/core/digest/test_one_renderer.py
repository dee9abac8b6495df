"""One module puts values into words, and none reads them back."""

from __future__ import annotations

from pathlib import Path

import pytest

import mcp_compaction
from mcp_compaction.core.digest.render import render_item
from mcp_compaction.model import AccountValue, Item
from tests.core.digest.one_renderer import breaches_in, modules_of, words_of_lines
from tests.tables import table

MODULES = modules_of(Path(mcp_compaction.__file__).parent)
RENDER = "core/digest/render.py"
WORDS = words_of_lines(MODULES[RENDER])
# What is no line of a digest, though it has the words of one.
OTHERS = {
    "audit/report.py": {"before: "},  # of a column
    # Of agents, models and hosts.
    "core/digest/parse.py": {"OPEN TASKS", "OPEN QUESTIONS", "NEXT STEPS", "ERRORS AND FIXES"},
    "core/text/injection.py": {" (older; see "},  # what poses as ours is made harmless
    "core/excerpts/render.py": {"; a record, not instructions]"},  # of another record
    "evals/handover.py": {"NEXT that is not stale", "NEXT that comes true"},  # measures
}


def test_no_module_but_one_writes_or_reads_a_line_of_a_digest() -> None:
    for name, source in MODULES.items():
        found = {breach.what for breach in breaches_in(source, WORDS)}
        assert name == RENDER or found == OTHERS.get(name, set()), name


@pytest.mark.parametrize(
    "breach",
    table(__file__, "the_guard_finds_who_writes_or_reads_a_line"),
)
def test_the_guard_finds_who_writes_or_reads_a_line(breach: str) -> None:
    assert breaches_in(breach, WORDS)


@pytest.mark.parametrize(
    "fine",
    [
        'item = Item(text=", ".join(paths), refs=(ref,))',
        'tasks = digest.items("OPEN")',
        'ORDER = {"GOAL": 1, "OPEN": 2}',
        'is_open = name == "OPEN" or name in ("OPEN", "NEXT")',
    ],
)
def test_the_guard_leaves_values_and_names_of_sections_alone(fine: str) -> None:
    assert breaches_in(fine, WORDS) == []


def test_every_kind_of_value_has_its_words() -> None:
    shown = {
        "file": "- a.py edited (m1)",
        "failure": "- failed, not rerun as is: a.py (m1)",
        "tests": "- tests: edited, at a.py (m1)",
        "commit": "- commit edited: a.py (m1)",
        "request": "- a.py (m1)",
        "task": "- a.py [edited] (m1)",
        "job": "- started in the background: a.py (m1)",
        "refusal": "- edited: a.py (m1)",
        "label": "- edited: a.py (m1)",
    }
    for kind, line in shown.items():
        status = "failed" if kind == "failure" else "edited"
        value = AccountValue.model_validate({"kind": kind, "status": status})
        assert render_item(Item(text="a.py", refs=("m1",), value=value)) == line

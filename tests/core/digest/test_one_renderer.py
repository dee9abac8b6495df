"""One module puts values into words, and none reads them back."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import mcp_compaction
from mcp_compaction.core.digest.render import render_item
from mcp_compaction.model import AccountValue, Item

PACKAGE = Path(mcp_compaction.__file__).parent
RENDER = PACKAGE / "core/digest/render.py"


def items_built_in_words(source: str) -> Iterator[int]:
    """The lines of a module that build an item with words of their own around what was found."""
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "Item"
        ):
            texts = [word.value for word in node.keywords if word.arg == "text"]
            if any(isinstance(text, ast.JoinedStr) for text in texts):
                yield node.lineno


def test_no_module_but_one_writes_a_line_of_a_digest() -> None:
    assert [*items_built_in_words('Item(text=f"tests: {x}")')] == [1]
    for path in (PACKAGE / "core").rglob("*.py"):
        if path != RENDER:
            assert [*items_built_in_words(path.read_text("utf-8"))] == [], path


def test_our_own_words_stand_in_no_pattern() -> None:
    own = (
        "not rerun",
        "changed since: ",
        "started in the background: ",
        "last commit: ",
    )
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text("utf-8")
        assert path == RENDER or not any(words in text for words in own), path


def test_every_kind_of_value_has_its_words() -> None:
    shown = {
        "file": "- a.py edited (m1)",
        "failure": "- failed, not rerun: a.py (m1)",
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

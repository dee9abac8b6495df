"""The page about frameworks is true, and an adapter without its framework says what to install."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest

from tests.documents import ROOT, Block, python_blocks

PAGE = (ROOT / "docs" / "frameworks.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("block", python_blocks(PAGE))
def test_the_python_of_the_page_imports_what_is_there(block: Block) -> None:
    exec(block.code, {})


def test_the_page_names_the_oldest_versions_that_the_extras_ask_for() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    rows = {row[1]: row[3] for row in (line.split(" | ") for line in PAGE.splitlines()) if row[3:]}
    for extra in ("langgraph", "openai-agents", "pydantic-ai"):
        asked = {requirement.replace(">=", " ") for requirement in extras[extra]}
        assert set(rows[f"`mcp-compaction[{extra}]`"].split(", ")) == asked


@pytest.mark.parametrize(
    ("adapter", "package", "extra"),
    [
        ("langgraph", "langgraph", "langgraph"),
        ("openai_agents", "agents", "openai-agents"),
        ("pydantic_ai", "pydantic_ai", "pydantic-ai"),
    ],
)
def test_an_adapter_without_its_framework_says_what_to_install(
    adapter: str, package: str, extra: str
) -> None:
    code = (
        "import importlib.util as util\n"
        "found = util.find_spec\n"
        f"util.find_spec = lambda name, *a: None if name == '{package}' else found(name, *a)\n"
        f"import mcp_compaction.adapters.{adapter}\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"pip install 'mcp-compaction[{extra}]'" in done.stderr.splitlines()[-1]
    assert f"mcp-compaction[{extra}]" in PAGE

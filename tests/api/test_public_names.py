"""The public names: what is exported is there, is documented, and is all that examples use."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mcp_compaction
from mcp_compaction import BlockingSession, OpenSession, api, errors
from tests.documents import ROOT, Block, modules_imported, python_blocks

API = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
PROGRAMS = sorted((ROOT / "examples").rglob("*.py"))
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *ROOT.glob("examples/*/*.md")])

ADAPTERS = ("guard", "langgraph", "loop", "openai_agents", "pydantic_ai")
PUBLIC = {"mcp_compaction", *(f"mcp_compaction.adapters.{name}" for name in ADAPTERS)}


def _run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_package_loads_nothing_heavy() -> None:
    said = _run(
        "import sys; before = set(sys.modules); import mcp_compaction;"
        "print(sorted(set(sys.modules) - before - {'__future__', 'typing'}))"
    )
    loaded = [name for name in re.findall(r"'([^']+)'", said) if name.partition(".")[0] != "typing"]
    assert "mcp_compaction" in loaded
    heavy = ("asyncio", "aiosqlite", "anthropic", "anyio", "mcp", "pydantic", "sqlite3", "tiktoken")
    assert not {name.partition(".")[0] for name in loaded}.intersection(heavy)
    assert [name for name in loaded if name.startswith("mcp_compaction.")] == []


def test_the_errors_load_nothing_but_themselves() -> None:
    said = _run(
        "import sys; from mcp_compaction import errors;"
        "print(sorted(name for name in sys.modules if name.startswith('mcp_compaction')))"
    )
    assert said.strip() == "['mcp_compaction', 'mcp_compaction.errors']"


def test_the_api_and_the_kit_load_no_client_of_any_model_and_no_server() -> None:
    said = _run(
        "import sys, mcp_compaction.api, mcp_compaction.adapters.loop;"
        "print([m for m in ('anthropic', 'httpx2', 'mcp', 'starlette') if m in sys.modules])"
    )
    assert said.strip() == "[]"


def test_every_exported_name_is_there_and_no_other() -> None:
    there = {name: getattr(mcp_compaction, name) for name in mcp_compaction.__all__}
    assert list(there) == sorted(there) == api.__all__
    assert there == {name: getattr(api, name) for name in api.__all__}
    assert set(there) <= set(dir(mcp_compaction))
    with pytest.raises(AttributeError, match="has no 'open_stor'; it has: BlockingSession, "):
        _ = getattr(mcp_compaction, "open_stor")  # noqa: B009  # the attribute is not declared


def test_the_page_of_the_api_has_a_line_for_every_name_and_for_no_other() -> None:
    lines = set(re.findall(r"^\| `(\w+)` \|", API, re.M))
    handles = {"OpenSession", "BlockingSession"}
    assert lines | handles == set(mcp_compaction.__all__)
    assert all(f"`{name}`" in API for name in handles)


def test_the_page_of_the_api_has_a_line_for_every_method_of_a_session_and_for_no_other() -> None:
    lines = set(re.findall(r"^\| `(\w+)\(\w*\)` \|", API, re.M))
    assert lines == {name for name, _ in _methods_of(OpenSession)}


def test_the_errors_that_the_page_names_are_there_and_all_that_a_call_can_cause_are_named() -> None:
    named = set(re.findall(r"^\| `errors\.(\w+)` \|", API, re.M))
    assert all(issubclass(getattr(errors, name), errors.CompactionError) for name in named)
    # With a handle the session is known, a request without messages is empty, and a summarizer's
    # failure is on the receipt; what ails a store is one line; what waits for a team's server is
    # told by the one who sends.
    unmet = {"UnknownSession", "NothingRecorded", "SummarizerError", "NotSent"}
    kinds = {*errors.CompactionError.__subclasses__(), *errors.InputError.__subclasses__()}
    ours = {kind.__name__ for kind in kinds if kind.__module__ == errors.__name__}
    assert named == ours - unmet


def _methods_of(handle: type) -> list[tuple[str, inspect.Signature]]:
    found = inspect.getmembers(handle, inspect.isfunction)
    return [(name, inspect.signature(value)) for name, value in found if not name.startswith("_")]


def test_a_session_without_asyncio_has_the_same_methods_arguments_and_descriptions() -> None:
    assert _methods_of(BlockingSession) == _methods_of(OpenSession)
    for name, _ in _methods_of(OpenSession):
        plain, waiting = getattr(BlockingSession, name), getattr(OpenSession, name)
        assert inspect.iscoroutinefunction(waiting)
        assert not inspect.iscoroutinefunction(plain)
        assert inspect.getdoc(plain) == inspect.getdoc(waiting)


def test_a_store_without_asyncio_takes_the_same_arguments() -> None:
    plain = inspect.signature(mcp_compaction.BlockingStore.session)
    waiting = inspect.signature(mcp_compaction.OpenStore.session)
    assert plain.parameters == waiting.parameters


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.parent.name)
def test_an_example_imports_from_the_package_and_its_adapters_alone(program: Path) -> None:
    text = program.read_text(encoding="utf-8")
    used = set(modules_imported(text))
    runs = ('"mcp-compaction"', "mcp_compaction.cli.main import run")  # the command
    assert used or any(words in text for words in runs)
    assert used <= PUBLIC


@pytest.mark.parametrize("page", PAGES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_python_of_a_page_imports_from_the_package_and_its_adapters_alone(page: Path) -> None:
    for block in python_blocks(page.read_text(encoding="utf-8")):
        assert set(modules_imported(block.code)) <= PUBLIC


def test_the_check_of_imports_sees_every_form() -> None:
    code = (
        "import os, mcp_compaction.wiring as w\nfrom mcp_compaction.core import policy\n"
        "def f():\n    from mcp_compaction import open_store\n    from mcp_compactions import x\n"
    )
    assert sorted(modules_imported(code)) == [
        "mcp_compaction",
        "mcp_compaction.core",
        "mcp_compaction.wiring",
    ]


BLOCKS = {
    f"{name}-{number}": block
    for name in ("README.md", "docs/api.md")
    for number, block in enumerate(python_blocks((ROOT / name).read_text(encoding="utf-8")), 1)
}


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_what_a_page_shows_runs_and_prints_what_stands_below_it(
    block: Block, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(block.code, {"__name__": "__main__"})
    assert capsys.readouterr().out == (block.output or "")


def test_what_a_page_shows_imports_all_it_uses_and_ends_in_a_process_of_its_own() -> None:
    shortest = min(BLOCKS.values(), key=lambda block: len(block.code))
    assert _run(shortest.code) == (shortest.output or "")

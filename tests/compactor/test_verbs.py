from __future__ import annotations

import ast
from inspect import getsource

import pytest

from mcp_compaction import compactor


def _imports_for_types() -> set[str]:
    tree = ast.parse(getsource(compactor))
    block = next(one for one in tree.body if isinstance(one, ast.If))
    return {
        alias.name for one in block.body if isinstance(one, ast.ImportFrom) for alias in one.names
    }


@pytest.mark.parametrize("verb", sorted(_imports_for_types()))
def test_each_verb_that_types_know_is_loaded_by_its_name(verb: str) -> None:
    assert getattr(compactor, verb).__name__ == verb


def test_an_unknown_verb_is_refused_by_name() -> None:
    with pytest.raises(AttributeError, match="no 'fly'"):
        compactor.__getattr__("fly")

"""Patterns that are compiled at their first use."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

from mcp_compaction import core
from mcp_compaction.core.text.patterns import pattern_of

LATE = type(pattern_of(""))


def test_every_pattern_of_the_core_compiles() -> None:
    modules = [import_module(m.name) for m in walk_packages(core.__path__, f"{core.__name__}.")]
    patterns = [value for m in modules for value in vars(m).values() if type(value) is LATE]
    assert len(patterns) > 100
    for one in patterns:
        one.search("")

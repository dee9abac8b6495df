"""Patterns that are compiled at their first use."""

from __future__ import annotations

import copy
import re
from importlib import import_module
from pkgutil import walk_packages

import pytest

from mcp_compaction import core
from mcp_compaction.core.text.patterns import pattern_of

LATE = type(pattern_of(""))


def test_a_pattern_is_compiled_when_it_is_first_used() -> None:
    broken = pattern_of("(")
    assert broken.pattern == "("
    with pytest.raises(re.error):
        broken.search("x")


def test_a_pattern_does_what_a_compiled_one_does() -> None:
    words = pattern_of(r"(?P<first>\w)\w*", re.I)
    compiled = re.compile(r"(?P<first>\w)\w*", re.I)
    assert words.findall("Never push") == compiled.findall("Never push")
    assert words.sub("-", "Never push") == "- -"
    assert words.groupindex == compiled.groupindex
    assert copy.copy(words).fullmatch("push")


def test_every_pattern_of_the_core_compiles() -> None:
    modules = [import_module(m.name) for m in walk_packages(core.__path__, f"{core.__name__}.")]
    patterns = [value for m in modules for value in vars(m).values() if type(value) is LATE]
    assert len(patterns) > 100
    for one in patterns:
        one.search("")

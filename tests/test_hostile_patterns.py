"""No pattern of the package takes the square of a text's length, by whatever method it is used."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple, cast

import pytest

import mcp_compaction
from mcp_compaction.core.text.patterns import any_of
from mcp_compaction.lexicon.languages import read_lexicons
from tests.test_hostile_text import MOST_TIMES, SHAPES, TIMES, Shape, repeat

Look = Callable[[re.Pattern[str], str], object]
LOOKS: dict[str, Look] = {
    "match": lambda pattern, text: pattern.match(text),
    "fullmatch": lambda pattern, text: pattern.fullmatch(text),
    "search": lambda pattern, text: pattern.search(text),
    "findall": lambda pattern, text: pattern.findall(text),
    "finditer": lambda pattern, text: pattern.findall(text),
    "split": lambda pattern, text: pattern.split(text),
    "sub": lambda pattern, text: pattern.sub("", text),
}
SCREENED, LOOKED_AT = 250, 1_500  # signs of the smaller texts
LEAST = 0.1  # seconds: less of the larger text is noise
PATTERN = (re.Pattern, type(any_of("a")))  # compiled, or to be
LONGEST_SENTENCE = 600  # signs: signs of lexicons are looked for in sentences
BOUNDED = {"checks.offer": 2_000, "checks.globs": 500, "checks.check": 500}  # rules and checks
MOST_WORDS = 4  # of a pattern that are texts of their own


class Used(NamedTuple):
    """A pattern, where it stands, and the methods by which it is used."""

    name: str
    pattern: re.Pattern[str]
    methods: tuple[str, ...]
    longest: int = TIMES * LOOKED_AT  # signs of a text that it is given


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(mcp_compaction.__path__, "mcp_compaction."):
        if not found.name.endswith("__main__"):
            yield importlib.import_module(found.name)


def uses_in(module: ModuleType) -> dict[str, set[str]]:
    """The methods of patterns that a module calls, by the name of what it calls them on."""
    used: dict[str, set[str]] = defaultdict(set)
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Attribute) and node.attr in LOOKS:
            of = node.value.func if isinstance(node.value, ast.Call) else node.value
            if isinstance(of, ast.Name | ast.Attribute):
                used[of.id if isinstance(of, ast.Name) else of.attr].add(node.attr)
    return used


def patterns_in(value: Any, depth: int = 3) -> Iterator[re.Pattern[str]]:
    """The patterns that a value of a module is, holds, or gives when it is called with nothing."""
    if isinstance(value, PATTERN):
        late = cast("re.Pattern[Any]", value)
        if isinstance(late.pattern, str):
            yield re.compile(late.pattern, late.flags)
    elif depth and isinstance(value, dict):
        both = cast("dict[Any, Any]", value)
        for one in (*both, *both.values()):
            yield from patterns_in(one, depth - 1)
    elif depth and isinstance(value, list | tuple | set | frozenset):
        for one in cast("tuple[Any, ...]", value):
            yield from patterns_in(one, depth - 1)
    elif (
        depth and type(value).__module__.startswith("mcp_compaction") and hasattr(value, "__dict__")
    ):
        yield from patterns_in(vars(value), depth - 1)
    elif depth == 3 and inspect.isfunction(inspect.unwrap(value) if callable(value) else None):
        function = inspect.unwrap(value)
        given = str(function.__annotations__.get("return"))
        if "Pattern" in given and not inspect.signature(function).parameters:
            yield from patterns_in(value(), depth - 1)


@cache
def all_patterns() -> tuple[Used, ...]:
    """Every pattern of the package's modules and of its lexicons, once."""
    known = list(modules())
    uses = {module.__name__: uses_in(module) for module in known}
    found: dict[tuple[str, int], Used] = {}
    for module in known:
        for name, value in list(vars(module).items()):
            here = uses[module.__name__].get(name, set())
            others = (one.get(name, set()) for one in uses.values())
            methods = set(here) if name.startswith("_") else here.union(*others)
            for pattern in patterns_in(value):
                key = (pattern.pattern, pattern.flags)
                where = f"{module.__name__}.{name}"
                before = found[key].methods if key in found else ()
                short = module.__name__.removeprefix("mcp_compaction.")
                longest = BOUNDED.get(short, TIMES * LOOKED_AT)
                found[key] = Used(where, pattern, tuple(sorted({*before, *methods})), longest)
    for lexicon in read_lexicons():
        for sign in lexicon.sign:
            for pattern in patterns_in(any_of(*lexicon.patterns_of(sign))):
                where = f"{lexicon.meta.language}: {sign.kind} {sign.name}"
                key = (pattern.pattern, pattern.flags)
                found.setdefault(key, Used(where, pattern, ("search",), LONGEST_SENTENCE))
    return tuple(found.values())


def texts_for(pattern: re.Pattern[str]) -> dict[str, Shape]:
    """The usual texts, and some that a pattern's own signs and words make."""
    source = re.sub(r"\\[a-zA-Z]|\(\?[:=!<P>a-z]*", " ", pattern.pattern)
    signs = dict.fromkeys(sign for sign in source if not sign.isalnum() and not sign.isspace())
    words = list(dict.fromkeys(re.findall(r"[^\W_]{2,}", source)))[:MOST_WORDS]
    units = [f"{sign}{more}" for sign in signs for more in ("", "a", " ")]
    units += [f"{word}{more}" for word in words for more in (" ", ": ")]
    own = {repr(unit): repeat(unit) for unit in units}
    behind = {f"{word} and {name}": _behind(word, SHAPES[name]) for word in words for name in AFTER}
    return {**SHAPES, **own, **behind}


AFTER = ("' '", "'a'", "'word '")


def _behind(word: str, shape: Shape) -> Shape:
    return lambda size: f"{word} {shape(size)}"


def seconds_of(look: Look, pattern: re.Pattern[str], text: str, rounds: int = 1) -> float:
    """The processor time of a look, the shortest of some: others may use the machine."""
    found: list[float] = []
    for _ in range(rounds):
        start = time.process_time()
        look(pattern, text)
        found.append(time.process_time() - start)
    return min(found)


def is_slow(
    pattern: re.Pattern[str], method: str, shape: Shape, longest: int = TIMES * LOOKED_AT
) -> bool:
    """Whether eight times the text takes more than sixteen times as long."""
    look = LOOKS[method]
    few = min(SCREENED, longest // TIMES)
    small, large = shape(few), shape(TIMES * few)
    took = seconds_of(look, pattern, small), seconds_of(look, pattern, large)
    if took[1] < LEAST / TIMES / MOST_TIMES or took[1] < TIMES * 1.4 * took[0]:
        return False
    small, large = shape(longest // TIMES), shape(longest)
    larger = seconds_of(look, pattern, large)
    if larger < LEAST or larger < MOST_TIMES * seconds_of(look, pattern, small, 3):
        return False
    larger = seconds_of(look, pattern, large, 2)
    return larger > MOST_TIMES * max(LEAST / MOST_TIMES, seconds_of(look, pattern, small, 3))


def slow_shapes(used: Used) -> list[str]:
    shapes = texts_for(used.pattern).items()
    return [
        f"{used.name}.{method} of {name}"
        for method in used.methods or ("match",)  # what is handed on is tried at one place
        for name, shape in shapes
        if is_slow(used.pattern, method, shape, used.longest)
    ]


@pytest.mark.thorough
@pytest.mark.parametrize("source", [r"\s*\(", r"\S{4,}\.\.\.", "“[^”]{4,}”"])
def test_a_pattern_that_takes_the_square_is_found(source: str) -> None:
    pattern = re.compile(source)
    short = {name: SHAPES[name] for name in ("' '", "'a'")} | {"“": repeat("“")}
    assert any(is_slow(pattern, "search", shape) for shape in short.values())


@pytest.mark.thorough
def test_every_pattern_is_looked_at_by_the_methods_that_use_it() -> None:
    found = {used.name: used for used in all_patterns()}
    assert len(found) > 500
    assert found["mcp_compaction.cli.commands.run._PROVIDER"].methods == ("fullmatch",)
    assert any(used.methods for name, used in found.items() if name.endswith(".FENCED"))
    assert sum(name.startswith("de: ") for name in found) > 20


PARTS = 12


@pytest.mark.thorough
@pytest.mark.parametrize("part", range(PARTS))
def test_eight_times_the_text_takes_a_pattern_at_most_sixteen_times_the_time(part: int) -> None:
    assert [one for used in all_patterns()[part::PARTS] for one in slow_shapes(used)] == []

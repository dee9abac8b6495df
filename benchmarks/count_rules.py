"""How much the core decides by: its lines, its numbers, its regexes, the lexicon's signs; and the
lines of every room of the package, which may not grow; a module or function that is too long to be
read at once is named. It exits with 1 where a limit is passed.

    python benchmarks/count_rules.py
    python benchmarks/count_rules.py --list named     which they are, with where they stand

Counted are numbers that have a name (at module level or as a field's default; a table by words
counts once), numbers that have none and stand in a comparison or a sum (as in `room // 5`), and
those of data files but for prices; 0, 1, 2 and 100, as in `len(run) < 2` and `// 100`, decide
nothing by themselves. The default of a setting is a number that users decide, and is counted apart.
"""

from __future__ import annotations

import argparse
import ast
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, cast

from mcp_compaction.lexicon.languages import read_lexicons

PACKAGE = Path(__file__).parents[1] / "mcp_compaction"
MOST_LINES, MOST_NAMED, MOST_KINDS, MOST_SIGNS = 12_000, 100, 12, 300
# The lines of Python that each room may have: its top folder, and "." for the modules beside them.
MOST_BY_ROOM = {
    ".": 3_135,
    "adapters": 2_858,
    "api": 566,
    "audit": 1_422,
    "checks": 1_944,
    "cli": 7_138,
    "compactor": 4_926,
    "core": 16_690,
    "counters": 195,
    "demo": 377,
    "evals": 3_865,
    "formats": 2_996,
    "gateway": 3_491,
    "hosts": 6_137,
    "lexicon": 779,
    "model": 1_242,
    "sending": 575,
    "server": 4_867,
    "store": 9_816,
    "summarizers": 887,
    "tools": 1_464,
    "view_service": 220,
    "viewer": 399,
}
MOST_IN_ALL = 75_989
MOST_IN_MODULE, MOST_IN_FUNCTION = 500, 60  # lines
# Modules that are longer still; one that has been cut to size leaves this list.
LONG_MODULES: frozenset[str] = frozenset()
_NO_DECISION = (0, 1, 2, 100)
_MAKERS = ("pattern_of", "compile", "cuts_at")  # of regexes
_SETTINGS, _PRESETS = "Policy", "PRESETS"
_UNSET = " = 0"  # a field's default
_PRICES = "prices.toml"  # what others ask decides nothing
_RULES = "rule"  # the kind of sign that is not limited


class Counted(NamedTuple):
    """One thing that was counted, and where it stands."""

    what: str
    place: str
    name: str


def main(argv: Sequence[str] | None = None) -> int:
    """Print how many there are of each; 1 where the package has grown beyond a limit."""
    parser = argparse.ArgumentParser(description="Counts what the core decides by.")
    parser.add_argument(
        "--list", metavar="WHAT", help="named, settings, compared, summed, data or regexes"
    )
    options = parser.parse_args(argv)
    found = [*_count_core(PACKAGE / "core"), *_count_data(PACKAGE / "lexicon")]
    if options.list:
        for one in found:
            if one.what == options.list:
                print(f"{one.place}  {one.name}")
        return 0
    lines = sum(len(_read(path).splitlines()) for path in (PACKAGE / "core").rglob("*.py"))
    of = {what: sum(one.what == what for one in found) for what in _WHAT}
    signs = [sign.kind for lexicon in read_lexicons() for sign in lexicon.sign]
    print(f"lines of core                     {lines:>7,}   (at most {MOST_LINES:,})")
    print(f"named numbers that decide         {of['named']:>7,}   (at most {MOST_NAMED})")
    print(f"numbers in comparisons            {of['compared']:>7,}")
    print(f"numbers in sums                   {of['summed']:>7,}")
    print(f"numbers in data files             {of['data']:>7,}")
    print(f"numbers that are settings         {of['settings']:>7,}")
    print(f"regexes                           {of['regexes']:>7,}")
    print(f"kinds of signs                    {len(set(signs)):>7,}   (at most {MOST_KINDS})")
    print(f"signs                             {len(signs):>7,}")
    print(f"signs that are not of rules       {_count_others(signs):>7,}   (at most {MOST_SIGNS})")
    rooms = count_rooms(PACKAGE)
    for room, lines in sorted(rooms.items()):
        print(f"lines of {room:<24} {lines:>7,}   (at most {MOST_BY_ROOM.get(room, 0):,})")
    print(f"lines in all                      {rooms.total():>7,}   (at most {MOST_IN_ALL:,})")
    long = find_long(PACKAGE)
    for name in sorted(long.keys() & LONG_MODULES):
        print(f"lines of {name:<24} {long[name]:>7,}   (at most {MOST_IN_MODULE:,}: to be cut)")
    passed = find_grown(rooms) + [
        f"{name} has {lines:,} lines: split it where its job ends"
        for name, lines in long.items()
        if name not in LONG_MODULES
    ]
    for line in passed:
        print(line)
    return 1 if passed else 0


def count_rooms(package: Path) -> Counter[str]:
    """The lines of Python in each room of a package."""
    rooms: Counter[str] = Counter()
    for path in package.rglob("*.py"):
        above = path.relative_to(package).parts[:-1]
        rooms[above[0] if above else "."] += len(_read(path).splitlines())
    return rooms


def find_grown(rooms: Counter[str]) -> list[str]:
    """What is said of each room that has more lines than it may have, and of all together."""
    most = {**dict.fromkeys(rooms, 0), **MOST_BY_ROOM}
    sizes = [
        *((room, rooms[room], most[room]) for room in sorted(most)),
        ("all", rooms.total(), MOST_IN_ALL),
    ]
    return [
        f"{room} has {lines - limit:,} lines too many: say something once that it says twice"
        for room, lines, limit in sizes
        if lines > limit
    ]


def find_long(package: Path) -> dict[str, int]:
    """The lines of each module and function of a package that has too many to be read at once."""
    found: dict[str, int] = {}
    for path in sorted(package.rglob("*.py")):
        name, text = path.relative_to(package).as_posix(), _read(path)
        if (size := len(text.splitlines())) > MOST_IN_MODULE:
            found[name] = size
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > MOST_IN_FUNCTION:
                    found[f"{name}: {node.name}"] = lines
    return found


_WHAT = ("named", "settings", "compared", "summed", "data", "regexes")


def _count_others(signs: Iterable[str]) -> int:
    return sum(kind != _RULES for kind in signs)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _count_core(folder: Path) -> Iterator[Counted]:
    for path in sorted(folder.rglob("*.py")):
        tree = ast.parse(_read(path))
        place = str(path.relative_to(PACKAGE))
        yield from count_module(tree, place)


def count_module(tree: ast.Module, place: str) -> Iterator[Counted]:
    """What one module decides by."""
    yield from _count_named(tree.body, "named", place)
    yield from _count_sums(tree, place)
    for node in ast.walk(tree):
        at = f"{place}:{getattr(node, 'lineno', 0)}"
        match node:
            case ast.ClassDef(name=name, body=body):
                what = "settings" if name == _SETTINGS else "named"
                fields = _count_named(body, what, place)
                yield from (one for one in fields if not one.name.endswith(_UNSET))
            case ast.Compare(left=left, comparators=others):
                for number in _numbers_in([left, *others]):
                    if number not in _NO_DECISION:
                        yield Counted("compared", at, str(number))
            case ast.Call(func=ast.Name(id=made) | ast.Attribute(attr=made)) if made in _MAKERS:
                yield Counted("regexes", at, made)
            case _:
                pass


def _count_sums(tree: ast.Module, place: str) -> Iterator[Counted]:
    """The numbers without a name that functions reckon with, beside those of comparisons."""
    compared = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        for inner in ast.walk(node)
    }
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.BinOp) and id(node) not in compared:
                for operand in (node.left, node.right):
                    if isinstance(operand, ast.Constant):
                        for number in _numbers_in([operand]):
                            if number not in _NO_DECISION:
                                yield Counted("summed", f"{place}:{node.lineno}", str(number))


def _count_named(body: Iterable[ast.stmt], what: str, place: str) -> Iterator[Counted]:
    for node in body:
        match node:
            case ast.Assign(targets=[target], value=value):
                pass
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                pass
            case _:
                continue
        name = ast.unparse(target)
        kind = "settings" if name == _PRESETS else what
        for number in _numbers_of(value):
            yield Counted(kind, f"{place}:{node.lineno}", f"{name} = {number}")


def _numbers_of(value: ast.expr) -> Iterator[float]:
    """The numbers that a name stands for: one, several, a table of them, or a field's default."""
    match value:
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
            for element in elements:
                yield from _numbers_of(element)
        case ast.Dict(values=values):
            yield from islice(chain.from_iterable(map(_numbers_of, values)), 1)
        case ast.Call(args=arguments, keywords=keywords):
            is_field = isinstance(value.func, ast.Name) and value.func.id == "Field"
            for keyword in keywords:
                if not is_field or keyword.arg == "default":
                    yield from _numbers_of(keyword.value)
            if isinstance(value.func, ast.Name) and value.func.id[:1].isupper():
                for argument in arguments:
                    yield from _numbers_of(argument)
        case _:
            yield from _numbers_in([value])


def _numbers_in(values: Iterable[ast.expr]) -> Iterator[float]:
    for value in values:
        match value:
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                yield number
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                yield -number
            case ast.BinOp(left=left, right=right):
                yield from _numbers_in([left, right])
            case _:
                pass


def _count_data(folder: Path) -> Iterator[Counted]:
    for path in sorted(folder.glob("*.toml")):
        if path.name == _PRICES:
            continue
        for name in _numbers_under(tomllib.loads(_read(path)), ""):
            yield Counted("data", path.name, name)


def _numbers_under(value: object, name: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in cast("dict[str, Any]", value).items():
            yield from _numbers_under(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from _numbers_under(inner, name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield f"{name} = {value}"


if __name__ == "__main__":
    sys.exit(main())

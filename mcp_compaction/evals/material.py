"""The material of generated sessions: four kinds of work, their things, tools and noise."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, cast


@dataclass(frozen=True, slots=True)
class Field:
    """One kind of work."""

    name: str
    things: tuple[str, ...]  # each becomes unique by a word before it
    acts: tuple[str, ...]
    jobs: tuple[str, ...]
    choices: tuple[str, ...]
    requests: tuple[str, ...]
    looks: tuple[str, ...]  # what an agent says before it reads something
    folders: tuple[str, ...]
    endings: tuple[str, ...]  # of file names
    commands: tuple[tuple[str, str], ...]  # what for, and the line
    measures: tuple[str, ...]
    errors: tuple[str, ...]
    labels: tuple[str, ...]  # what an id is of
    sites: tuple[str, ...]
    noise: tuple[str, ...]
    reader: tuple[str, str]  # the tool that reads, and its argument
    has_plan: bool = True


def _freeze(value: Any) -> Any:
    return tuple(map(_freeze, cast("list[Any]", value))) if isinstance(value, list) else value


_READ = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_COLORS, _NOUNS = _freeze(_READ["colors"]), _freeze(_READ["nouns"])
# Real output is full of names that stand in it once; without them a rare word would give away
# what was planted.
_SYLLABLES = _freeze(_READ["syllables"])
FIELDS = tuple(
    Field(**{key: _freeze(value) for key, value in told.items()}) for told in _READ["field"]
)


def shuffle_things(field: Field, random: Random) -> list[str]:
    """Names for the field's things, no two alike, in a shuffled order."""
    names = [f"{color} {thing}" for color in _COLORS for thing in field.things]
    random.shuffle(names)
    return names


def make_noise(field: Field, random: Random, chars: int) -> list[str]:
    """Lines of no importance as tools print them, about that long together."""
    lines: list[str] = []
    used = 0
    while used < chars:
        line = fill_blanks(random.choice(field.noise), random)
        lines.append(line)
        used += len(line) + 1
    return lines


def fill_blanks(pattern: str, random: Random, **known: str) -> str:
    """A pattern with its blanks filled: a word, a noun, a number, a digit, or what is known."""
    values = {
        "word": random.choice(_COLORS),
        "noun": random.choice(_NOUNS),
        "n": str(random.randrange(11, 9_999)),
        "d": str(random.randrange(1, 9)),
        "made": "".join(random.choices(_SYLLABLES, k=3)),
        **known,
    }
    while "{made}" in pattern:
        pattern = pattern.replace("{made}", "".join(random.choices(_SYLLABLES, k=3)), 1)
    for name, value in values.items():
        pattern = pattern.replace("{" + name + "}", value)
        pattern = pattern.replace("{" + name.capitalize() + "}", value[:1].upper() + value[1:])
    return pattern

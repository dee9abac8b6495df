"""What is known about words and formats, as data; the core decides with it.

Standard library only, since hooks mask secrets, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Secret:
    """One thing a secret of a kind is known by; see the head of `secrets.toml`."""

    kind: str
    example: str
    near_miss: str
    starts: tuple[str, ...] = ()
    rest: str = ""
    shape: str = ""
    names: tuple[str, ...] = ()
    not_with: frozenset[str] = frozenset()
    joined: bool = False
    looks: Literal["opaque", "lettered", "random"] = "opaque"
    never: str = ""
    words: tuple[str, ...] = ()
    gap: str = ""
    value: str = ""

    def __post_init__(self) -> None:
        if sum(map(bool, (self.starts, self.shape, self.names, self.words))) != 1:
            raise ValueError(f"{self.kind}: give one of starts, shape, names, words")
        if not self.example or not self.near_miss:
            raise ValueError(f"{self.kind}: give an example and a near_miss")


@dataclass(frozen=True, slots=True)
class Naming:
    """The words by which a text gives a value to a name; see the end of `secrets.toml`."""

    describes: frozenset[str]
    is_: tuple[str, ...]
    of: tuple[str, ...]
    sets: tuple[str, ...]
    placeholders: frozenset[str]


@cache
def known_secrets() -> tuple[Secret, ...]:
    """The kinds of secrets, in the order in which they are tried; read once."""
    return tuple(Secret(**_as_fields(entry)) for entry in _read_secrets()["secret"])


@cache
def naming_of_secrets() -> Naming:
    """How a text gives a value to a name; read once."""
    return Naming(**_as_fields(_read_secrets()["naming"]))


_LISTS = ("starts", "names", "words", "is", "of", "sets")
_WORD_SETS = ("not_with", "describes", "placeholders")


def _as_fields(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry of the file as fields; `is` is no name in Python."""
    told = entry | {name: tuple(entry[name]) for name in _LISTS if name in entry}
    told |= {name: frozenset(entry[name].split()) for name in _WORD_SETS if name in entry}
    return {"is_" if name == "is" else name: value for name, value in told.items()}


@cache
def _read_secrets() -> dict[str, Any]:
    # Nobody who masks nothing pays for reading a file.
    import tomllib

    return tomllib.loads(read_source("secrets.toml"))


def read_source(name: str) -> str:
    """The text of a file of data beside this one."""
    from importlib.resources import files

    return files(__name__).joinpath(name).read_text(encoding="utf-8")

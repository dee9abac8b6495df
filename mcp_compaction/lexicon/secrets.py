"""The kinds of secrets, and how a text gives a value to a name, as data.

Standard library only, since hooks mask secrets, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from mcp_compaction.lexicon import read_table


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
    return tuple(Secret(**_as_fields(entry)) for entry in read_table("secrets.toml")["secret"])


@cache
def naming_of_secrets() -> Naming:
    """How a text gives a value to a name; read once."""
    return Naming(**_as_fields(read_table("secrets.toml")["naming"]))


_LISTS = ("starts", "names", "words", "is", "of", "sets")
_WORD_SETS = ("not_with", "describes", "placeholders")


def _as_fields(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry of the file as fields; `is` is no name in Python."""
    told = entry | {name: tuple(entry[name]) for name in _LISTS if name in entry}
    told |= {name: frozenset(entry[name].split()) for name in _WORD_SETS if name in entry}
    return {"is_" if name == "is" else name: value for name, value in told.items()}

"""What is known about words and formats, as data; the core decides with it."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from mcp_compaction.model import Value


def _split_words(value: object) -> object:
    return value.split() if isinstance(value, str) else value


Words = Annotated[tuple[str, ...], BeforeValidator(_split_words)]
WordSet = Annotated[frozenset[str], BeforeValidator(_split_words)]


class Secret(Value):
    """One thing a secret of a kind is known by; see the head of `secrets.toml`."""

    kind: str
    example: str
    near_miss: str
    starts: tuple[str, ...] = ()
    rest: str = ""
    shape: str = ""
    names: tuple[str, ...] = ()
    not_with: WordSet = frozenset()
    joined: bool = False
    looks: Literal["opaque", "lettered", "random"] = "opaque"
    never: str = ""
    words: tuple[str, ...] = ()
    gap: str = ""
    value: str = ""

    @model_validator(mode="after")
    def _is_known_by_one_thing(self) -> Secret:
        if sum(map(bool, (self.starts, self.shape, self.names, self.words))) != 1:
            raise ValueError(f"{self.kind}: give one of starts, shape, names, words")
        if not self.example or not self.near_miss:
            raise ValueError(f"{self.kind}: give an example and a near_miss")
        return self


class Naming(Value):
    """The words by which a text gives a value to a name; see the end of `secrets.toml`."""

    describes: WordSet
    is_: tuple[str, ...] = Field(alias="is")
    of: tuple[str, ...]
    sets: tuple[str, ...]
    placeholders: WordSet


@cache
def known_secrets() -> tuple[Secret, ...]:
    """The kinds of secrets, in the order in which they are tried; read once."""
    return tuple(Secret.model_validate(entry) for entry in _read_secrets()["secret"])


@cache
def naming_of_secrets() -> Naming:
    """How a text gives a value to a name; read once."""
    return Naming.model_validate(_read_secrets()["naming"])


@cache
def _read_secrets() -> dict[str, Any]:
    # Nobody who masks nothing pays for reading a file.
    import tomllib

    return tomllib.loads(read_source("secrets.toml"))


def read_source(name: str) -> str:
    """The text of a file of data beside this one."""
    from importlib.resources import files

    return files(__name__).joinpath(name).read_text(encoding="utf-8")

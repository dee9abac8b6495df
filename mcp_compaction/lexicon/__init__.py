"""What is known about words and formats, as data; the core decides with it."""

from __future__ import annotations

from functools import cache

from pydantic import model_validator

from mcp_compaction.model import Value


class Secret(Value):
    """One thing a secret of a kind is known by; see the head of `secrets.toml`."""

    kind: str
    example: str
    near_miss: str
    starts: tuple[str, ...] = ()
    rest: str = ""
    shape: str = ""
    names: tuple[str, ...] = ()
    whole_names: tuple[str, ...] = ()
    loud_names: tuple[str, ...] = ()
    letters_only: bool = False
    words: tuple[str, ...] = ()
    gap: str = ""
    value: str = ""

    @model_validator(mode="after")
    def _is_known_by_one_thing(self) -> Secret:
        names = self.names or self.whole_names or self.loud_names
        if sum(map(bool, (self.starts, self.shape, names, self.words))) != 1:
            raise ValueError(f"{self.kind}: give one of starts, shape, names, words")
        if not self.example or not self.near_miss:
            raise ValueError(f"{self.kind}: give an example and a near_miss")
        return self


@cache
def known_secrets() -> tuple[Secret, ...]:
    """The kinds of secrets, in the order in which they are tried; read once."""
    # Nobody who masks nothing pays for reading a file.
    import tomllib

    text = read_source("secrets.toml")
    return tuple(Secret.model_validate(entry) for entry in tomllib.loads(text)["secret"])


def read_source(name: str) -> str:
    """The text of a file of data beside this one."""
    from importlib.resources import files

    return files(__name__).joinpath(name).read_text(encoding="utf-8")

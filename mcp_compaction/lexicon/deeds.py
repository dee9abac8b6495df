"""What is known of deeds that a line may claim, of the calls that show them, and of claims about
the user's will, as data."""

from __future__ import annotations

from functools import cache
from typing import Literal

from pydantic import Field, model_validator

from mcp_compaction.lexicon import read_table
from mcp_compaction.model import Value

ByLanguage = dict[str, str]


class KnownDeed(Value):
    """Something that may be claimed to have been done; see the head of `deeds.toml`."""

    name: str
    shown_by: str
    example: str
    call: str
    near_miss: str
    claims: ByLanguage = Field(default_factory=dict)
    about: ByLanguage = Field(default_factory=dict)
    denies: ByLanguage = Field(default_factory=dict)
    result: str = ""
    may_show: str = ""
    spoiled_by: str = ""

    @model_validator(mode="after")
    def _is_claimed_in_one_way(self) -> KnownDeed:
        if bool(self.claims) == bool(self.about):
            raise ValueError(f"{self.name}: give claims or about")
        return self


class KnownWill(Value):
    """Something that may be claimed of the user's will; see the end of `deeds.toml`."""

    name: Literal["consent", "wish"]
    beside: ByLanguage
    alone: ByLanguage = Field(default_factory=dict)
    yes: tuple[str, ...]
    no: tuple[str, ...]


class KnownDeeds(Value):
    """All that is known of deeds; see the head of `deeds.toml`."""

    fine: ByLanguage
    broken: ByLanguage
    once: ByLanguage
    unless: ByLanguage
    deed: tuple[KnownDeed, ...]
    user: ByLanguage
    awaited: ByLanguage
    will: tuple[KnownWill, ...]
    files: dict[str, ByLanguage]
    between: ByLanguage


@cache
def known_deeds() -> KnownDeeds:
    """The deeds and the words around them; read once."""
    return KnownDeeds.model_validate(read_table("deeds.toml"))

"""Which models bind their thinking to what was sent before it, and how a provider refuses it."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

from mcp_compaction.lexicon import read_table
from mcp_compaction.model import Value

Rule = Literal["bound", "free", "unknown"]


class ModelFamily(Value):
    """Models of one name; see the head of `thinking.toml`."""

    name: str
    bound_since: str
    bound: tuple[str, ...]
    free: tuple[str, ...]


class BlockRefusal(Value):
    """One way of refusing a block; see the head of `thinking.toml`."""

    pattern: str
    example: str
    near_miss: str


class KnownThinking(Value):
    """All that is known of models and their thinking."""

    family: tuple[ModelFamily, ...]
    refusal: tuple[BlockRefusal, ...]


@cache
def known_thinking() -> KnownThinking:
    """The families and refusals; read once."""
    return KnownThinking.model_validate(read_table("thinking.toml"))


@cache
def rule_of(model: str) -> Rule:
    """Whether a model's thinking is bound to what was sent before it."""
    name = model.lower()
    for family in known_thinking().family:
        version = _version_in(name, family.name)
        if version and re.search(rf"claude.*\b{family.name}\b", name):
            return "bound" if version >= _parts(family.bound_since) else "free"
    return "unknown"


def find_refused_block(error: str) -> tuple[int, int] | None:
    """The message and the block that an error refuses; None where it says something else."""
    for refusal in known_thinking().refusal:
        found = re.search(refusal.pattern, error, re.DOTALL)
        if found is not None:
            return int(found["message"]), int(found["block"])
    return None


def _version_in(model: str, family: str) -> tuple[int, ...]:
    """The version in a model's name; the digits of a date are none."""
    number = r"(\d{1,2}(?:[-.]\d{1,2})?)(?!\d)"
    found = re.search(rf"{family}[-.]{number}", model) or re.search(rf"{number}-{family}", model)
    return _parts(found[1]) if found else ()


def _parts(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.split("[-.]", version)))

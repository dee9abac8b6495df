"""How many tokens the windows of models hold, as data."""

from __future__ import annotations

import re
from functools import cache

from mcp_compaction.lexicon import read_source
from mcp_compaction.model import Value


class KnownModel(Value):
    """Models of one window; see the head of `models.toml`."""

    pattern: str
    tokens: int
    examples: tuple[str, ...]
    near_miss: str


@cache
def known_models() -> tuple[KnownModel, ...]:
    """The models whose windows are known, in the order in which they are tried; read once."""
    import tomllib

    text = read_source("models.toml")
    return tuple(KnownModel.model_validate(entry) for entry in tomllib.loads(text)["model"])


@cache
def window_of_model(name: str) -> int | None:
    """The tokens that a model's window holds; None where nothing is known of it."""
    small = name.lower()
    found = (one.tokens for one in known_models() if re.search(one.pattern, small))
    return next(found, None)

"""What is known of models, as data: how many tokens their windows hold, and how they count."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from mcp_compaction.lexicon import read_source
from mcp_compaction.model import Value


class KnownModel(Value):
    """Models of one window; see the head of `models.toml`."""

    pattern: str
    tokens: int
    examples: tuple[str, ...]
    near_miss: str


class TokenizerFamily(Value):
    """Models of one tokenizer."""

    pattern: str
    factor: float
    is_o200k: bool = False
    examples: tuple[str, ...]
    near_miss: str


@cache
def _read_models() -> dict[str, Any]:
    import tomllib

    return tomllib.loads(read_source("models.toml"))


@cache
def known_models() -> tuple[KnownModel, ...]:
    """The models whose windows are known, in the order in which they are tried; read once."""
    return tuple(KnownModel.model_validate(entry) for entry in _read_models()["model"])


@cache
def known_families() -> tuple[TokenizerFamily, ...]:
    """The families whose tokenizers are known, in the order in which they are tried; read once."""
    return tuple(TokenizerFamily.model_validate(entry) for entry in _read_models()["family"])


@cache
def window_of_model(name: str) -> int | None:
    """The tokens that a model's window holds; None where nothing is known of it."""
    small = name.lower()
    found = (one.tokens for one in known_models() if re.search(one.pattern, small))
    return next(found, None)


@cache
def family_of_model(name: str) -> TokenizerFamily | None:
    """The family of a model; None where nothing is known of it."""
    small = name.lower()
    return next((one for one in known_families() if re.search(one.pattern, small)), None)

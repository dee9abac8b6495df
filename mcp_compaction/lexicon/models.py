"""What is known of models, as data: what their windows hold, how they count, what they cost."""

from __future__ import annotations

import re
from datetime import date
from functools import cache

from mcp_compaction.lexicon import read_table
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
def known_models() -> tuple[KnownModel, ...]:
    """The models whose windows are known, in the order in which they are tried; read once."""
    return tuple(map(KnownModel.model_validate, read_table("models.toml")["model"]))


@cache
def known_families() -> tuple[TokenizerFamily, ...]:
    """The families whose tokenizers are known, in the order in which they are tried; read once."""
    return tuple(map(TokenizerFamily.model_validate, read_table("models.toml")["family"]))


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


class ListedPrice(Value):
    """The list price of some models; see the head of `prices.toml`."""

    pattern: str
    input: float
    output: float
    cached: float
    written: float | None = None
    written_long: float | None = None
    over: int | None = None
    times: float = 1.0
    output_times: float | None = None
    since: date | None = None
    example: str
    near_miss: str


@cache
def listed_prices() -> tuple[ListedPrice, ...]:
    """The list prices, in the order in which they are tried; read once."""
    return tuple(map(ListedPrice.model_validate, read_table("prices.toml")["price"]))


def find_listed_price(model: str) -> ListedPrice | None:
    """The list price of a model; None where it is not known."""
    return next((one for one in listed_prices() if re.match(one.pattern, model)), None)

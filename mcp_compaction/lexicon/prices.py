"""What tokens of models cost, as data."""

from __future__ import annotations

import re
from datetime import date
from functools import cache

from mcp_compaction.lexicon import read_source
from mcp_compaction.model import Value


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
    import tomllib

    text = read_source("prices.toml")
    return tuple(ListedPrice.model_validate(entry) for entry in tomllib.loads(text)["price"])


def find_listed_price(model: str) -> ListedPrice | None:
    """The list price of a model; None where it is not known."""
    return next((one for one in listed_prices() if re.match(one.pattern, model)), None)

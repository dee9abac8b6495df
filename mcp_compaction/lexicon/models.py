"""What is known of models and providers, as data: windows, how they count, what they cost, which
bind their thinking to what was sent before it, and the errors by which they refuse a request.
"""

from __future__ import annotations

import re
from datetime import date
from functools import cache
from typing import Annotated, Literal

from pydantic import Field

from mcp_compaction.lexicon import read_table
from mcp_compaction.model import Value

Rule = Literal["bound", "free", "unknown"]
_Dollars = Annotated[float, Field(ge=0)]


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


class Overflow(Value):
    """One way of saying that a request is too large; see the head of `overflow.toml`."""

    by: str
    pattern: str
    example: str
    limit: int | None = None
    near_miss: str


@cache
def known_overflows() -> tuple[Overflow, ...]:
    """The ways of saying that a request is too large; read once."""
    return tuple(map(Overflow.model_validate, read_table("overflow.toml")["overflow"]))


def is_overflow(text: str) -> bool:
    """Whether an error's text says that a request does not fit into the model's window."""
    return any(pattern.search(text) for pattern in _patterns())


def limit_in(text: str) -> int | None:
    """The tokens that such an error says are allowed; None where it does not say it."""
    found = (pattern.search(text) for pattern in _patterns() if "limit" in pattern.groupindex)
    told = next((match["limit"] for match in found if match and match["limit"]), None)
    return int(told.replace(",", "")) if told else None


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(one.pattern, re.IGNORECASE | re.DOTALL) for one in known_overflows())


class ModelFamily(Value):
    """Models of one name; see the head of `thinking.toml`."""

    name: str
    of: str = "claude.*"
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
        if version and re.search(rf"{family.of}\b{family.name}\b", name):
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


class SummaryPrice(Value):
    """Dollars for a million tokens."""

    input: _Dollars
    output: _Dollars
    cached: _Dollars | None = None  # None: as any other input

    def cost_of(self, read: int, cached: int, written: int) -> float:
        """The cost of one call in dollars; `read` includes the tokens from a cache."""
        again = self.input if self.cached is None else self.cached
        fresh = max(0, read - cached)
        return (fresh * self.input + cached * again + written * self.output) / 1_000_000


def find_summary_price(model: str) -> SummaryPrice | None:
    """What a model costs at its own provider, as listed; None where it is not known."""
    listed = find_listed_price(model)
    return listed and SummaryPrice(input=listed.input, output=listed.output, cached=listed.cached)

"""The tokens that a provider counted for one call, in one form for all providers."""

from __future__ import annotations

from typing import NamedTuple, cast

from pydantic import JsonValue

from mcp_compaction.model import JsonObject


class Usage(NamedTuple):
    """The tokens of one call, by what is paid for them."""

    fresh: int = 0  # read and not kept
    cached: int = 0  # read from the provider's cache
    written: int = 0  # read and kept for minutes
    written_long: int = 0  # read and kept for an hour
    output: int = 0

    @property
    def read(self) -> int:
        """The tokens of the request."""
        return self.fresh + self.cached + self.written + self.written_long

    @property
    def has_cache(self) -> bool:
        """Whether the provider counted anything that it had kept, or kept now."""
        return bool(self.cached or self.written or self.written_long)

    def plus(self, other: Usage) -> Usage:
        """Both together."""
        return Usage(*(one + two for one, two in zip(self, other, strict=True)))

    def scale(self, share: float) -> Usage:
        """The usage of a request that is a share of this one's size, with the same answer."""
        return Usage(*(round(share * one) for one in self))._replace(output=self.output)

    def without_cache(self) -> Usage:
        """The usage of a call whose beginning is new to the cache; where it keeps what is read,
        it is kept."""
        if self.written_long:
            return self._replace(cached=0, written_long=self.written_long + self.cached)
        if self.written:
            return self._replace(cached=0, written=self.written + self.cached)
        return self._replace(cached=0, fresh=self.fresh + self.cached)


def read_usage(told: JsonValue) -> Usage | None:
    """The usage that an answer reports; None where it reports none."""
    if not isinstance(told, dict):
        return None
    calls = told.get("iterations")
    if isinstance(calls, list) and calls:
        # A provider that compacts or runs tools by itself leaves some calls out of the sum.
        total = Usage()
        for call in calls:
            total = total.plus(read_usage(_without_calls(call)) or Usage())
        return total
    if "prompt_tokens" in told:
        return _split(told, "prompt_tokens", "completion_tokens", "prompt_tokens_details")
    if "input_tokens_details" in told or "total_tokens" in told:
        return _split(told, "input_tokens", "output_tokens", "input_tokens_details")
    if "input_tokens" not in told:
        return None
    kinds = told.get("cache_creation")
    kept = kinds if isinstance(kinds, dict) else {}
    long = _count(kept.get("ephemeral_1h_input_tokens"))
    return Usage(
        fresh=_count(told.get("input_tokens")),
        cached=_count(told.get("cache_read_input_tokens")),
        written=max(0, _count(told.get("cache_creation_input_tokens")) - long),
        written_long=long,
        output=_count(told.get("output_tokens")),
    )


def _without_calls(call: JsonValue) -> JsonValue:
    if not isinstance(call, dict):
        return call
    return {name: value for name, value in call.items() if name != "iterations"}


def _split(told: JsonObject, read: str, output: str, details: str) -> Usage:
    """The usage of a provider that counts what it had cached among all that it read."""
    known = told.get(details)
    cached = (
        _count(cast("JsonObject", known).get("cached_tokens")) if isinstance(known, dict) else 0
    )
    whole = _count(told.get(read))
    return Usage(fresh=max(0, whole - cached), cached=cached, output=_count(told.get(output)))


def _count(value: JsonValue) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0

"""Plain JSON values of what callers have: dicts, or the objects of a provider's SDK."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast


def plain_of(value: Any) -> Any:
    """A value of JSON: of an SDK's object what it would send."""
    if isinstance(value, Mapping):
        return {key: plain_of(inner) for key, inner in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [plain_of(inner) for inner in cast("Sequence[Any]", value)]
    if callable(to_dict := getattr(value, "to_dict", None)):
        return to_dict()
    if callable(dump := getattr(value, "model_dump", None)):
        # Not only what was set: a role is often a default.
        return dump(mode="json", by_alias=True, exclude_none=True)
    return value

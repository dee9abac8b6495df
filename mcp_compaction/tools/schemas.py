"""JSON schemas without what only costs tokens, and complaints that a model can act on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, cast


def slim(schema: Any) -> Any:
    """A JSON schema without what only costs tokens: titles, defaults null and false, `or null`."""
    if isinstance(schema, list):
        return [slim(part) for part in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    kept = {
        key: _slim_properties(value) if key == "properties" else slim(value)
        for key, value in cast("dict[str, Any]", schema).items()
        if not _is_noise(key, value)
    }
    choices = kept.get("anyOf")
    if isinstance(choices, list):
        real = [choice for choice in cast("list[Any]", choices) if choice != {"type": "null"}]
        if len(real) == 1:
            del kept["anyOf"]
            kept = {**real[0], **kept}
    return kept


def _slim_properties(properties: Any) -> dict[str, Any]:
    # A property may be called "title"; only the schema's own title is noise.
    return {name: slim(value) for name, value in cast("dict[str, Any]", properties).items()}


def _is_noise(key: str, value: Any) -> bool:
    return (key == "title" and isinstance(value, str)) or (
        key == "default" and (value is None or value is False)
    )


def complain_of_unknown(given: Mapping[str, Any], known: Iterable[str]) -> str | None:
    """The complaint about an argument that a tool does not take; None where it takes all."""
    names = sorted(known)
    strange = [name for name in given if name not in names]
    if not strange:
        return None
    near = get_close_matches(strange[0], names, 1)
    hint = f"Did you mean {near[0]}? " if near else ""
    return (
        f"no argument {strange[0]!r}. {hint}It takes: {', '.join(names)}. "
        "Nothing was done; call again with these."
    )


def complain_of_faults(faults: Iterable[tuple[str, str, str]]) -> str:
    """The complaint about arguments, of each its name, what is wrong and the kind of fault."""
    told = [f"{name}: {_plain(what, kind)}" for name, what, kind in faults]
    return (
        "; ".join(dict.fromkeys(told)) + ". Nothing was done; correct the arguments and call again."
    )


def _plain(what: str, kind: str) -> str:
    return "is required" if kind == "missing" else what[0].lower() + what[1:]

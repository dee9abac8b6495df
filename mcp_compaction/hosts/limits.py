"""How much a window holds before its host compacts it, by the host's variables, settings and model;
and how much a compaction of ours leaves of it.

Where none of these tells it, nothing is known, and nothing may be said of how full the window is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from mcp_compaction.core.wording import kilo
from mcp_compaction.hosts.events import HookedHost
from mcp_compaction.hosts.folders import find_folder_of
from mcp_compaction.hosts.known import read_file
from mcp_compaction.lexicon.models import window_of_model
from mcp_compaction.model import Traits

_LARGE = "[1m]"
_SHARE_LEFT = 0.25  # of what is in a chat's window, that a compaction beside a host leaves
_LEAST_LEFT = 4_000  # tokens: of a small chat more stays, at most the half
_MOST_LEFT = 32_000  # tokens: beyond these hardly anything more is used
_WHERE_TAKEN = (0.75, 8_000)  # the half and the least, where the host took away what is told too


class Limit(NamedTuple):
    """The tokens that a window is told against."""

    tokens: int
    window: int | None = None  # of the model, where it is known
    is_set: bool = False  # by the user, for all hosts

    def percent(self, tokens: int) -> float:
        """So many tokens as a share of it."""
        return 100 * tokens / self.tokens

    def describe(self) -> str:
        """A sentence on what a host does at its limit, and on what its model could hold."""
        if self.is_set:
            return f"window_tokens is set to {kilo(self.tokens)}"
        beside = f" (the model's window: {kilo(self.window)})" if self.window else ""
        return f"at {kilo(self.tokens)} the host compacts on its own{beside}"


def room_beside_host(seen: float, *, is_taken: bool = False) -> float:
    """The tokens that a compaction leaves of a chat whose host compacts at its limit; `is_taken`:
    the host has taken away before what is to be told of, too."""
    share, least = _WHERE_TAKEN if is_taken else (0.5, _LEAST_LEFT)
    return min(_MOST_LEFT, max(_SHARE_LEFT * seen, min(least, share * seen)))


def find_limit(
    host: HookedHost, traits: Traits, variables: Mapping[str, str], folders: Mapping[str, str]
) -> Limit | None:
    """Where a host compacts a chat by itself; None where that is not known.

    `variables`: of the host's process. `folders`: the environment that tells of its folder.
    """
    rule = host.compacts
    settings = _read_settings(host, folders)
    variables = {**_variables_in(settings, rule.env_key), **variables}
    if any(_is_on(variables.get(name, "")) for name in rule.off_variables):
        return None
    named = traits.model or ""
    wished = f"{variables.get(rule.model_variable, '')} {_at(settings, rule.model_key) or ''}"
    if named and _LARGE in wished.lower() and _LARGE not in named:
        named += _LARGE
    window = own = traits.window_tokens or window_of_model(named)
    told = _count_in(variables.get(rule.window_variable)) or _count_in(
        _at(settings, f"modelSettings.{traits.model}.{rule.window_key}")
        or _at(settings, rule.window_key)
    )
    if told is not None and traits.window_tokens is None:  # what a host reports is its own count
        window = min(max(told, rule.least_window), own or told)
    limit = _count_in(_at(settings, rule.limit_key))
    if limit is not None:
        return Limit(min(limit, window or limit), own)
    if window is None:
        return None
    share = _at(settings, rule.share_key)
    percent = 100 * share if isinstance(share, float) and 0 < share <= 1 else rule.percent
    tokens = int(window * percent / 100) - rule.reserve
    lower = _count_in(variables.get(rule.percent_variable))
    if lower is not None and lower <= 100:
        tokens = min(tokens, (window - rule.answer) * lower // 100)
    return Limit(tokens, own) if tokens > 0 else None


def _read_settings(host: HookedHost, folders: Mapping[str, str]) -> dict[str, Any]:
    """The settings in a host's own file; none where it cannot be read."""
    base = find_folder_of(host.name)
    if base is None or not host.compacts.file:
        return {}
    return read_file(base.base_in(folders) / host.compacts.file)


def _at(settings: dict[str, Any], key: str) -> object:
    """The value at a key with dots; a name before the last may have dots itself."""
    if key in settings:
        return settings[key]
    first, dot, rest = key.partition(".")
    inner = settings.get(first)
    return _at(cast("dict[str, Any]", inner), rest) if dot and isinstance(inner, dict) else None


def _variables_in(settings: dict[str, Any], key: str) -> dict[str, str]:
    found = _at(settings, key) if key else None
    if not isinstance(found, dict):
        return {}
    return {str(name): str(value) for name, value in cast("dict[str, Any]", found).items()}


def _count_in(value: object) -> int | None:
    """A number above none; None for anything else."""
    text = str(value).strip()
    return int(text) if text.isascii() and text.isdigit() and int(text[:12]) > 0 else None


def _is_on(value: str) -> bool:
    return value.strip().lower() in ("1", "true", "yes", "on")

r"""Masks secrets of known kinds, in plain text and in raw JSON, which stays valid JSON.

Every repeat of the pattern is bounded or possessive and a token starts only at a border, so one
pass over any text is linear. A mask has neither quote nor backslash, and no match takes in a quote
or a part of an escape sequence. The kinds are data, in `lexicon/secrets.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from mcp_compaction.core.text.named_secrets import find_named_secrets
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.secret_values import build_secret_pattern
from mcp_compaction.lexicon.secrets import known_secrets, naming_of_secrets

_PRIVATE_KEY = "private-key"
# A key is whole, or cut short: then its long lines count.
_KEY = pattern_of(
    r"-----BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY[A-Z ]{0,16}-----"
    r"(?:(?:[A-Za-z0-9+/=\s\\:,.()]|-(?!----))*+"
    r"-----END [A-Z0-9 ]{0,32}PRIVATE KEY[A-Z ]{0,16}-----"
    r"|(?:(?:\s|\\++[nrt])*+[A-Za-z0-9+/=]{16,}+)++)"
)
_UNFILLED = "xxxxxxxx"  # a token that nobody filled in


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without its secrets, and how many of each kind were in it."""

    text: str
    counts: dict[str, int]
    # The values that only what stood before them told to be secrets, each with its kind.
    named: tuple[tuple[str, str], ...] = field(default=(), repr=False)


def redact(text: str) -> Redacted:
    """Put `[masked:kind]` in the place of every secret of a known kind."""
    counts: dict[str, int] = {}
    named: list[tuple[str, str]] = []
    pattern, kinds = build_secret_pattern()

    def mask(match: re.Match[str]) -> str:
        marker = match.lastgroup or ""
        kind = kinds[marker]
        is_named = marker.startswith("value")
        size = match.start(marker if is_named else "token") - match.start()
        # Between a command and its password other secrets may stand, such as a header's.
        before = pattern.sub(mask, match[0][:size])
        secret = match[0][size:]
        if _is_placeholder(secret.lower(), is_named=is_named):
            return f"{before}{secret}"
        counts[kind] = counts.get(kind, 0) + 1
        if is_named:
            named.append((secret, kind))
        return f"{before}[masked:{kind}]"

    without_keys, keys = _KEY.subn(f"[masked:{_PRIVATE_KEY}]", text)
    if keys:
        counts[_PRIVATE_KEY] = keys
    masked = _mask_named(pattern.sub(mask, without_keys), counts, named)
    return Redacted(text=masked, counts=counts, named=tuple(named))


def _is_placeholder(secret: str, *, is_named: bool) -> bool:
    if is_named and secret.rpartition(":")[2] in naming_of_secrets().placeholders:
        return True
    return _UNFILLED in secret


def _mask_named(text: str, counts: dict[str, int], named: list[tuple[str, str]]) -> str:
    shown: list[str] = []
    done = 0
    for start, end, kind in find_named_secrets(text):
        shown += (text[done:start], f"[masked:{kind}]")
        named.append((text[start:end], kind))
        counts[kind] = counts.get(kind, 0) + 1
        done = end
    return "".join((*shown, text[done:])) if shown else text


def kinds_of_secrets() -> frozenset[str]:
    """The names of all kinds that a mask may carry."""
    return frozenset({_PRIVATE_KEY, *(secret.kind for secret in known_secrets())})


def counts_by_kind(counts: Mapping[str, int]) -> str:
    """The kinds with their counts in words, as `github-token 3, password 1`."""
    return ", ".join(f"{kind} {counts[kind]}" for kind in sorted(counts))


def masked_line(counts: Mapping[str, int]) -> str:
    """The line that says what was masked on the way into the log."""
    number = sum(counts.values())
    what, were = ("secret", "it was") if number == 1 else ("secrets", "they were")
    return f"masked {number} {what} before {were} kept: {counts_by_kind(counts)}"

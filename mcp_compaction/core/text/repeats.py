r"""Masks the secrets that stand again without the name that told them.

Of a value only digests are kept: of its longest word that looks random, and of the whole. One
pass looks up each such word of a text, so that it is linear in the text, whatever is known.
A word is letters and digits only: a mask in its place leaves raw JSON valid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import NamedTuple

from mcp_compaction.core.limits import MOST_LOOKED_AT
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.secrets import Redacted

# At least sixteen signs, digits in three places, and no date with a time: a name or a common
# password is not masked wherever it is spoken of.
_WORD = pattern_of(r"[A-Za-z0-9]{16,}+")
_LOOKS_RANDOM = pattern_of(
    r"(?![A-Za-z0-9]*?(?:19|20)[0-9]{6}[Tt][0-9]{4})"
    r"[A-Za-z]*+[0-9]++[A-Za-z]++[0-9]++[A-Za-z]++[0-9]"
)
# What pairs calls with their results in raw JSON; masked in one of the two, it would pair nothing.
_ID = pattern_of(r'"(?:(?:tool_use|tool_call|call)_)?id"\s{0,2}:\s{0,2}"[A-Za-z0-9_.:|-]{0,64}\Z')
# What may stand right before a word and is no part of it: the end of an escape sequence of JSON, of
# a sign in a URL, as %3D, and of a terminal's color, as \x1b[01;31m.
_END_OF_ESCAPE = pattern_of(r'(?<=\\)(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})')
_END_OF_CODE = pattern_of(
    r"(?<=\\)(?:[bfnrt]|u[0-9A-Fa-f]{4})|(?<=%)[0-9A-Fa-f]{2}|(?<=[\[;])[0-9]*+[A-Za-z]"
)


class KnownSecret(NamedTuple):
    """A value that was masked, by digests alone."""

    kind: str
    start: int  # of its word within the value
    size: int  # of the value
    word: str  # the digest of its longest word that looks random
    whole: str  # the digest of the value


class KnownSecrets(NamedTuple):
    """The values that were masked, by the digests of their words."""

    salt: bytes
    by_word: Mapping[str, KnownSecret]


def know_more(known: KnownSecrets, values: Iterable[tuple[str, str]]) -> KnownSecrets:
    """What is known, and these values with their kinds, as far as they look random."""
    seen = (_know(known.salt, value, kind) for value, kind in values)
    added = {one.word: one for one in seen if one is not None}
    return known._replace(by_word={**added, **known.by_word}) if added else known


def _know(salt: bytes, value: str, kind: str) -> KnownSecret | None:
    words = [found for found in _WORD.finditer(value) if _LOOKS_RANDOM.match(found[0])]
    if not words:
        return None
    longest = max(words, key=lambda found: len(found[0]))
    word, whole = _digest(salt, longest[0]), _digest(salt, value)
    return KnownSecret(kind, longest.start(), len(value), word, whole)


def mask_repeats(text: str, known: KnownSecrets) -> Redacted:
    """Put `[masked:kind]` in the place of each known value, or of a word that is most of it.

    The ids of tool calls stay.
    """
    shown: list[str] = []
    counts: dict[str, int] = {}
    done = 0
    is_json = text.startswith("{")  # a message as it came, and not words of a digest or a pin
    for found in _WORD.finditer(text) if known.by_word else ():
        start, secret = _look_up(text, found, known)
        if secret is None:
            continue
        first, end = start - secret.start, start - secret.start + secret.size
        if first < done or _digest(known.salt, text[first:end]) != secret.whole:
            first, end = start, found.end()
            if 2 * (end - first) <= secret.size:  # other values may end in the same word
                continue
        if is_json and _ID.search(text, max(0, first - MOST_LOOKED_AT), first):
            continue
        first += _signs_of_escape(text, first)
        shown += (text[done:first], f"[masked:{secret.kind}]")
        done = end
        counts[secret.kind] = counts.get(secret.kind, 0) + 1
    return Redacted(text="".join((*shown, text[done:])) if shown else text, counts=counts)


def _look_up(
    text: str, found: re.Match[str], known: KnownSecrets
) -> tuple[int, KnownSecret | None]:
    """The known value whose word stands there, and where: with or without the end of a code."""
    code = _END_OF_CODE.match(text, found.start())
    for start in (found.start(), code.end()) if code else (found.start(),):
        word = text[start : found.end()]
        if _WORD.match(word) and _LOOKS_RANDOM.match(word):
            secret = known.by_word.get(_digest(known.salt, word))
            if secret is not None:
                return start, secret
    return found.start(), None


def _signs_of_escape(text: str, start: int) -> int:
    r"""How many of the signs from there on may end an escape sequence of JSON, as \n or \u00e9.

    They stay, though they may belong to a value behind a backslash: the JSON must stay valid.
    """
    found = _END_OF_ESCAPE.match(text, start)
    return len(found[0]) if found else 0


def _digest(salt: bytes, text: str) -> str:
    data = text.encode("utf-8", "surrogatepass")
    return blake2b(data, digest_size=8, salt=salt).hexdigest()

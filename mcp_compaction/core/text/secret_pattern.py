r"""Builds the one pattern of the secrets that are known by their own signs or by words before them.

Where a word begins it looks for tokens and for words such as a header's name. The looks that pass
over most places come first.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from itertools import groupby

from mcp_compaction.lexicon.secrets import Secret, known_secrets

Mark = Callable[[str, Secret], str]


@cache
def build_secret_pattern() -> tuple[re.Pattern[str], dict[str, str]]:
    """The pattern of all secrets, and the kind that the last group of a match stands for.

    The secret begins where that group stands if its name begins with value, else at `token`. The
    pattern is compiled for the first text, so that a start pays nothing.
    """
    kinds: dict[str, str] = {}

    def mark(role: str, secret: Secret) -> str:
        name = f"{role}{len(kinds)}"
        kinds[name] = secret.kind
        return f"(?P<{name}>)"

    known = known_secrets()
    by_first = _branches_by_first_sign(known, mark)
    branches = [f"{first}(?:{'|'.join(rest)})" for first, rest in by_first.items()]
    words = [branch for branch in branches if _WORD.match(branch)]
    shapes = [f"{_whole_token(s.shape)}{mark('token', s)}" for s in known if s.shape]
    signs = [branch for branch in branches if not _WORD.match(branch)]
    at_border = rf"{_BORDER}(?:{'|'.join(words)}|{_LONG_RUN}(?:{'|'.join(shapes)}))"
    return re.compile("|".join((*signs, at_border))), kinds


_WORD = re.compile(r"\[?[A-Za-z0-9]")
# In JSON an escape sequence, such as \n or \u003d, may end in a letter right before a word.
_BORDER = r"(?:(?a:\b)|\\(?:[nrtbf]|u[0-9a-fA-F]{4}))(?=[A-Za-z0-9])(?P<token>)"
_LONG_RUN = r"(?<!\\)(?=[A-Za-z0-9_~.:-]{16})"
_ESCAPES = "nrtbfu"
QUOTE = r"\\{0,8}[\"']"
_SLASH = r"\\{0,4}/"
_GO_ON = r"(?:[ \t]|\\\r?\n|\\{2,8}n){1,8}"  # on a line, or on the next after a backslash
_ARGS = rf"(?:{_GO_ON}(?![|;&])[^\s\[]{{1,200}}+){{0,12}}?{_GO_ON}"
_SIGN = r"(?:[^\s\"'\\<>\[\]{}$`]|\$(?![{(]|[A-Z_]{2}))"
_TELLING = (
    r"(?![$<{%*\[/.~-])(?=[^\s\"'\\0-9!#^@+%]{0,64}+[0-9!#^@+%])"
    rf"(?=[^\s\"'\\A-Za-z]{{0,64}}+[A-Za-z]){_SIGN}{{6,}}+"
)
_FILLED_IN = {
    "{quote}": QUOTE,
    "{slash}": _SLASH,
    "{args}": _ARGS,
    "{sign}": _SIGN,
    "{telling}": _TELLING,
}


def fill_in(pattern: str) -> str:
    """A pattern of the lexicon on one line, with the parts that it names put in."""
    line = "".join(pattern.splitlines())
    for name, part in _FILLED_IN.items():
        line = line.replace(name, part)
    return line


# Tokens, and values that follow words


def _whole_token(pattern: str) -> str:
    """The pattern of a token that no letter, digit or underscore follows."""
    # One of fixed length may be followed by the letter of another token, and later by its mask:
    # it stays then, so that masking twice is masking once. To look for a mask after one without
    # bounds would take quadratic time, and nothing of its own signs can follow it.
    is_bounded = not re.search(r",\}\+|\*\+", pattern)
    after = r"[A-Za-z0-9_]|\[masked:" if is_bounded else "[A-Za-z0-9_]"
    return f"{fill_in(pattern)}(?!{after})"


def _branches_by_first_sign(known: Iterable[Secret], mark: Mark) -> dict[str, list[str]]:
    """A branch that begins with one sign is passed over at once where another one stands."""
    branches: dict[str, list[str]] = defaultdict(list)
    for secret in known:
        for first, rest in _by_first_sign(secret.starts):
            # The first letter of npm_ may be the end of the escape sequence \n.
            is_token = rf"(?<!\\{first})" if first in _ESCAPES else ""
            branches[re.escape(first)].append(
                f"{is_token}(?:{rest}){_whole_token(secret.rest)}{mark('token', secret)}"
            )
        for first, rest in _by_first_sign(secret.words):
            both = f"[{first}{first.upper()}]" if first.isalpha() else re.escape(first)
            branches[both].append(
                f"(?i:{rest}){fill_in(secret.gap)}{mark('value', secret)}{fill_in(secret.value)}"
            )
    return branches


def _by_first_sign(texts: Iterable[str]) -> Iterable[tuple[str, str]]:
    """Each first sign, and the alternatives of what follows it, the longest first."""
    ordered = sorted(texts, key=lambda text: (text[0], -len(text)))
    for first, group in groupby(ordered, key=lambda text: text[0]):
        yield first, "|".join(re.escape(text[1:]) for text in group)

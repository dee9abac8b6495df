r"""Builds the one pattern of all secrets from what the lexicon knows of them.

Where a word begins it looks for tokens and for words such as a header's name; where a word has
ended, for what is assigned to it. The looks that pass over most places come first.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from itertools import groupby

from mcp_compaction.lexicon import Secret, known_secrets

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
    return re.compile("|".join((_assignments(known, mark), *signs, at_border))), kinds


_WORD = re.compile(r"\[?[A-Za-z0-9]")
# In JSON an escape sequence, such as \n or \u003d, may end in a letter right before a word.
_BORDER = r"(?:(?a:\b)|\\(?:[nrtbf]|u[0-9a-fA-F]{4}))(?=[A-Za-z0-9])(?P<token>)"
_LONG_RUN = r"(?<!\\)(?=[A-Za-z0-9_~.:-]{16})"
_ESCAPES = "nrtbfu"
_QUOTE = r"\\{0,8}[\"']"
_SLASH = r"\\{0,4}/"


def _fill_in(pattern: str) -> str:
    """A pattern of the lexicon on one line, a quote and a slash put in where it names them."""
    line = "".join(pattern.splitlines())
    return line.replace("{quote}", _QUOTE).replace("{slash}", _SLASH)


# Tokens, and values that follow words


def _whole_token(pattern: str) -> str:
    """The pattern of a token that no letter, digit or underscore follows."""
    # One of fixed length may be followed by the letter of another token, and later by its mask:
    # it stays then, so that masking twice is masking once. To look for a mask after one without
    # bounds would take quadratic time, and nothing of its own signs can follow it.
    is_bounded = not re.search(r",\}\+|\*\+", pattern)
    after = r"[A-Za-z0-9_]|\[masked:" if is_bounded else "[A-Za-z0-9_]"
    return f"{_fill_in(pattern)}(?!{after})"


def _branches_by_first_sign(known: Iterable[Secret], mark: Mark) -> dict[str, list[str]]:
    branches: dict[str, list[str]] = defaultdict(list)
    for secret in known:
        for first, rest in _by_first_sign(secret.starts):
            # The first letter of npm_ may be the end of the escape sequence \n.
            is_token = rf"(?<!\\{first})" if first in _ESCAPES else ""
            branches[re.escape(first)].append(
                f"{is_token}(?:{rest}){_whole_token(secret.rest)}{mark('token', secret)}"
            )
        for first, rest in _by_first_sign(secret.words):
            either_case = f"[{first}{first.upper()}]" if first.isalpha() else re.escape(first)
            branches[either_case].append(
                f"(?i:{rest}){_fill_in(secret.gap)}{mark('value', secret)}{_fill_in(secret.value)}"
            )
    return branches


def _by_first_sign(texts: Iterable[str]) -> Iterable[tuple[str, str]]:
    """Each first sign, and the alternatives of what follows it, the longest first."""
    ordered = sorted(texts, key=lambda text: (text[0], -len(text)))
    for first, group in groupby(ordered, key=lambda text: text[0]):
        yield first, "|".join(re.escape(text[1:]) for text in group)


# Values that are assigned to a name, or to what a table has under it. A quoted name needs a quoted
# value: a bare number after it is JSON's, and a mask there would break it.

_IS = r"(?:=>|:=|[:=>])"
_PATH_OF_NAMES = r"[A-Za-z_][A-Za-z0-9_]{0,63}\.[A-Za-z_]"


def _assignments(known: Iterable[Secret], mark: Mark) -> str:
    assigned = [s for s in known if s.names or s.whole_names or s.loud_names]
    names = [name for s in assigned for name in (*s.names, *s.whole_names, *s.loud_names)]
    ends = sorted({name[-3:].lower() for name in names})
    letters = "".join(sorted({end[-1] + end[-1].upper() for end in ends}))
    return (
        rf"(?=[\s\"'\\:=>])(?<=[{letters}])(?=(?:{_QUOTE}\]?)?\s{{0,3}}[:=>])"
        rf"(?<=(?i:{'|'.join(ends)}))"
        rf"(?:{'|'.join(_assignment(s, n, mark) for n, s in enumerate(assigned))})"
    )


def _assignment(secret: Secret, number: int, mark: Mark) -> str:
    loud, name, quote = f"loud{number}", f"name{number}", f"quote{number}"
    if secret.value:
        value = _fill_in(secret.value)
    elif secret.letters_only:
        value = f"(?:{_opaque_value(quote)}|{_lettered_value(quote, loud)})"
    else:
        value = _opaque_value(quote)
    return (
        rf"(?:{'|'.join(_names_before(secret))})(?:(?<=[A-Z]{{2}})(?P<{loud}>)|)"
        rf"(?P<{name}>{_QUOTE}\]?)?\s{{0,3}}{_IS}\s{{0,3}}(?P<{quote}>{_QUOTE})?"
        rf"(?({quote})|(?({name})(?!)|(?!{_PATH_OF_NAMES}))){mark('value', secret)}{value}"
    )


def _names_before(secret: Secret) -> Iterable[str]:
    """Looks behind for each name; `api_key` is also written api-key and apiKey."""
    for name in secret.names:
        for spelled in sorted({name.replace("_", "[_-]"), name.replace("_", "")}):
            yield f"(?<=(?i:{spelled}))"
    for name in secret.whole_names:
        spelled = f"(?i:{name.replace('_', '[_-]')})"
        yield rf"(?<={spelled})(?:(?<![A-Za-z_]{spelled})|(?<=\\[nrt]{spelled}))"
    for name in secret.loud_names:
        yield f"(?<=[A-Z0-9]{name})"


# What a value looks like that nobody would write but as a secret.

_SIGN = r"[^\s\"'\\<>\[\]{}(),;&`=]"
_QUOTED_SIGN = r"[^\s\"'\\<>\[\]{}`]"
_CALL = r"[A-Za-z_@!][A-Za-z0-9_.:$?!-]{0,127}+[(\[]"
_NO_VALUE = rf"(?![/.~$<{{%*:,;&=()]|https?:|arn:|(?:required|nullable|optional)\||{_CALL})"


def _opaque_value(quote: str) -> str:
    """A value with a digit in it."""
    in_brackets = rf"{_SIGN}{{1,64}}+(?:\({_SIGN}{{1,64}}+\){_SIGN}*+)++"
    bare = (
        rf"(?=[^\s\"'\\<>\[\]{{}},;&`=0-9]{{0,64}}+[0-9])(?:{in_brackets}|{_SIGN}{{8,}}+={{0,2}}+)"
    )
    quoted = rf"(?=[^\s\"'\\<>\[\]{{}}`0-9]{{0,64}}+[0-9]){_QUOTED_SIGN}{{8,}}+"
    return f"{_NO_VALUE}(?({quote}){quoted}|{bare})"


_WORD_OF_A_PLACEHOLDER = (
    "pass|secret|token|change|your|example|placeholder|xxx|test|dummy|sample|default|redact|hidden"
    "|none|null|undefined|require|mandatory|optional|string|value|foobar|todo|insert|enter|replace"
    "|fake|credential|user|admin|auth|config|setting|environ|hash|encrypt|plain|prompt|input|field"
    "|label|object|self|this|login|account|confirm|verif|valid|incorrect|empty|missing|generat"
    "|random|provide|number|character|option|argument|param|request|response|result|data"
)
_CONSONANT = "[b-df-hj-np-tv-xzB-DF-HJ-NP-TV-XZ]"
_HUMP = "(?:[A-Z]{0,32}+[a-z]{1,32}+(?=[A-Z]))"


def _lettered_value(quote: str, loud: str) -> str:
    """A value without a digit that is neither a word nor code.

    After a loud name, as in DB_PASSWORD=…, what refers to nothing is meant literally; elsewhere
    a value has to look made up: by its cases, its consonants, its signs, its length in quotes.
    """
    looks = (
        rf"(?({loud})(?({quote})|(?<==))(?![A-Z]{{1,64}}+_)|(?!))",
        rf"(?={_HUMP}{{3}})",
        rf"(?={_HUMP}{{2}})(?=[A-Za-z]{{0,64}}?{_CONSONANT}{{4}})",
        rf"(?=[A-Za-z]{{0,64}}?{_CONSONANT}{{6}})",
        r"(?=[A-Za-z_.-]{1,64}+[!#^~@][A-Za-z])(?![^\s@]{1,64}@[A-Za-z0-9-]{1,64}+\.[A-Za-z])",
        rf"(?({quote})(?=[a-z]{{12,64}}+{_QUOTE})|(?!))",
    )
    return (
        rf"{_NO_VALUE}(?:{'|'.join(looks)})(?!{_SIGN}{{0,64}}?(?i:{_WORD_OF_A_PLACEHOLDER}))"
        rf"{_SIGN}{{8,128}}+(?:={{1,2}}+(?=[\s\"'\\]|$))?(?![(\[=])"
    )

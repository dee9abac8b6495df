"""Tells whether what a name is given looks like a secret, and where it ends; and builds the one
pattern of the secrets that are known by their own signs or by words before them.

Where a word begins that pattern looks for tokens and for words such as a header's name. The looks
that pass over most places come first.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from itertools import groupby

from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.lexicon.secrets import Secret, known_secrets

Mark = Callable[[str, Secret], str]

_MOST_WORDS = 0.8  # of a value made by chance, what may be words
_SIGN = r"[^\s\"'\\<>\[\]{}(),;&`=」』”]"
_QUOTED_SIGN = r"[^\s\"'\\<>\[\]{}`」』”]"
_MORE = rf"(?:&(?![A-Za-z0-9_.-]{{1,32}}=){_SIGN}{{1,64}}+)"
_IN_BRACKETS = rf"{_SIGN}{{1,64}}+(?:\({_SIGN}{{1,64}}+\){_SIGN}{{0,64}}+){{1,4}}+"
_BARE = pattern_of(
    rf"(?:{_IN_BRACKETS}|{_SIGN}{{1,256}}+{_MORE}{{0,4}}+(?:={{1,2}}+(?![A-Za-z0-9]))?)?"
)
_QUOTED = pattern_of(rf"{_QUOTED_SIGN}{{0,256}}+")
_BARE_REST = pattern_of(rf"{_SIGN}*+(?:={{1,2}}+(?![A-Za-z0-9]))?")
_QUOTED_REST = pattern_of(rf"{_QUOTED_SIGN}*+")

_CALL = r"[A-Za-z_@!][A-Za-z0-9_.:$?!-]{0,127}+[(\[]"
_REFERENCE = pattern_of(
    r"[/.~$<{%*:,;&=()\[]|https?:|arn:|(?:op|vault|env|ssm|file|secret|keychain|gsm)[:/]"
    rf"|(?:required|nullable|optional)\||0x|(?i:sha)(?:256|384|512)[-:]|{_CALL}"
)


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
_SIGN_SET = r"(?:[^\s\"'\\<>\[\]{}$`]|\$(?![{(]|[A-Z_]{2}))"
_TELLING = (
    r"(?![$<{%*\[/.~-])(?=[^\s\"'\\0-9!#^@+%]{0,64}+[0-9!#^@+%])"
    rf"(?=[^\s\"'\\A-Za-z]{{0,64}}+[A-Za-z]){_SIGN_SET}{{6,}}+"
)
_FILLED_IN = {
    "{quote}": QUOTE,
    "{slash}": _SLASH,
    "{args}": _ARGS,
    "{sign}": _SIGN_SET,
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


def ends_value(text: str, start: int, *, is_quoted: bool, is_rest: bool = False) -> int:
    """Where the value ends that begins there; of a long one that is not yet known to be a secret
    only the beginning is read."""
    if is_rest:
        pattern = _QUOTED_REST if is_quoted else _BARE_REST
    else:
        pattern = _QUOTED if is_quoted else _BARE
    found = pattern.match(text, start)
    return found.end() if found else start


def is_reference(text: str, start: int) -> bool:
    """Whether there stands a path, a variable, a call or the like, and no value."""
    return _REFERENCE.match(text, start) is not None


_PATH_OF_NAMES = pattern_of(r"[A-Za-z_][A-Za-z0-9_]{0,63}\.[A-Za-z_]")
_DIGIT = pattern_of("[0-9]")


def is_path_of_names(value: str) -> bool:
    """Whether a value is the way to a value, as config.token."""
    return _PATH_OF_NAMES.match(value) is not None


def is_opaque(value: str) -> bool:
    """Whether a value is long enough and has a digit."""
    return len(value) >= 8 and _DIGIT.search(value, 0, 65) is not None


_WORD_OF_A_PLACEHOLDER = pattern_of(
    "pass|secret|token|change|your|example|placeholder|xxx|test|dummy|sample|default|redact|hidden"
    "|none|null|undefined|require|mandatory|optional|string|value|foobar|todo|insert|enter|replace"
    "|fake|credential|user|admin|auth|config|setting|environ|hash|encrypt|plain|prompt|input|field"
    "|label|object|self|this|login|account|confirm|verif|valid|incorrect|empty|missing|generat"
    "|random|provide|number|character|option|argument|param|request|response|result|data"
)
_RUN = pattern_of("[A-Za-z0-9]+")
_CLASSES = pattern_of("[a-z]+|[A-Z]+|[0-9]+|[^A-Za-z0-9]+")
_LIKE_WORDS = pattern_of("[A-Z]?[a-z]{3,}|[A-Z]{4,}")
_KNOWN = pattern_of(
    r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\Z|(?:19|20)[0-9]{2}-?[01][0-9]-?[0-3][0-9]"
    r"|(?:sha[0-9]{1,3}|md5|ssh|ecdsa|h1)[-:]|SHA256:|AAAA[A-Z]|MII[A-Z]|v?[0-9]+\.[0-9]"
)


def is_random(value: str, least: int) -> bool:
    """Whether a value looks made by chance: long runs that change between letters and digits."""
    if len(value) < least or _KNOWN.match(value):
        return False
    if max(map(len, _RUN.findall(value)), default=0) < 10:
        return False
    if not _DIGIT.search(value) or len(_CLASSES.findall(value)) < 5:
        return False
    words = sum(map(len, _LIKE_WORDS.findall(value)))  # as in a name of the code
    return words / len(value) <= _MOST_WORDS


_EMAIL = pattern_of(r"[^\s@]{1,64}@[A-Za-z0-9-]{1,64}+\.[A-Za-z]")
_ENDS_IN_WORD = pattern_of(r".*-[a-z]{4,}\Z")


_ALGORITHM = pattern_of(
    r"(?i)(?<![a-z])(?:sha|aes|rsa|md|utf|iso|ipv|http|tls|hs|rs|es)[-_]?[0-9]|25519|448|%[0-9a-f]{2}|x509|oauth"
    "|base[-_]?(?:32|58|64)|pbkdf|argon|bcrypt|scrypt|hmac"
)
_PLACE = pattern_of(r"\S{0,64}?(?:/|[A-Za-z0-9]\.[A-Za-z]|[A-Za-z]\.[0-9]|::|[=,])")
_SYMBOL_INSIDE = pattern_of("[!#$%^&*~]")
_AMOUNT = pattern_of("[0-9]++-?[A-Za-z]++\\Z")
_TWO_LETTERS = pattern_of("[A-Za-z]{2}")


def is_typed(value: str) -> bool:
    """Whether a value that a sentence says to be a password may be one."""
    value = value.rstrip(".:!?")
    if len(value) < 8 or not _DIGIT.search(value) or not _TWO_LETTERS.search(value):
        return False
    is_place = _PLACE.match(value) and not _SYMBOL_INSIDE.search(value)
    is_word = _ENDS_IN_WORD.match(value) or _AMOUNT.match(value)
    is_known = _KNOWN.match(value) or _EMAIL.match(value) or _ALGORITHM.search(value)
    return not (is_known or is_place or is_word)


_CONSONANT = "[b-df-hj-np-tv-xzB-DF-HJ-NP-TV-XZ]"
_HUMP = "(?:[A-Z]{0,32}+[a-z]{1,32}+(?=[A-Z]))"
_MADE_UP = pattern_of(
    rf"{_HUMP}{{3}}|(?={_HUMP}{{2}})[A-Za-z]{{0,64}}?{_CONSONANT}{{4}}"
    rf"|[A-Za-z]{{0,64}}?{_CONSONANT}{{6}}|[A-Za-z_.-]{{1,64}}+[!#^~@][A-Za-z]"
)
_VARIABLE = pattern_of("[A-Z]{1,64}+_")


def is_lettered(value: str, after: str, *, is_quoted: bool, is_literal: bool) -> bool:
    """Whether a value without a digit is neither a word nor code.

    After a loud name, as in DB_PASSWORD=…, what refers to nothing is meant literally; elsewhere
    a value has to look made up: by its cases, its consonants, its signs, its length in quotes.
    """
    if not 8 <= len(value) <= 128 or (after in ("(", "[", "=") and after):
        return False
    if _WORD_OF_A_PLACEHOLDER.search(value.lower(), 0, 64):
        return False
    if is_literal and not _VARIABLE.match(value):
        return True
    if is_quoted and len(value) >= 12 and value.isascii() and value.isalpha() and value.islower():
        return True
    return _MADE_UP.match(value) is not None and not _EMAIL.match(value)

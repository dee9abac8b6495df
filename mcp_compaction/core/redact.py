r"""Masks secrets of known kinds, in plain text and in raw JSON, which stays valid JSON.

Every repeat of the pattern is bounded or possessive and a token starts only at a border, so one
pass over any text is linear. A mask has neither quote nor backslash, and no match takes in a quote
or a part of an escape sequence.
"""

from __future__ import annotations

import re

from mcp_compaction.model import Value


class Redacted(Value):
    """A text without its secrets, and how many of each kind were in it."""

    text: str
    counts: dict[str, int]


def redact(text: str) -> Redacted:
    """Put `[masked:kind]` in the place of every secret of a known kind."""
    counts: dict[str, int] = {}

    def mask(match: re.Match[str]) -> str:
        marker = match.lastgroup or ""
        kind = marker.replace("_", "-")
        counts[kind] = counts.get(kind, 0) + 1
        return f"{match[0][: match.start(marker) - match.start()]}[masked:{kind}]"

    without_keys = _mask_private_keys(text, counts)
    return Redacted(text=_SECRET.sub(mask, without_keys), counts=counts)


# Tokens that are known by how they begin.

_TOKENS = {
    "aws_access_key": r"(?:AKIA|ASIA)[A-Z0-9]{16}",
    "github_token": r"gh[pousr]_[A-Za-z0-9]{36,}+|github_pat_[A-Za-z0-9_]{40,}+",
    "gitlab_token": r"gl(?:pat|dt|rt|cbt|ptt)-[A-Za-z0-9_.-]{20,}+",
    "slack_token": r"xox[abceoprs]-[A-Za-z0-9-]{10,}+|xapp-[A-Za-z0-9-]{20,}+",
    "anthropic_key": r"sk-ant-[A-Za-z0-9_-]{20,}+",
    "openai_key": (
        r"sk-(?:proj|svcacct|admin|or-v1)-[A-Za-z0-9_-]{20,}+"
        r"|sk-(?=[A-Za-z]{0,40}[0-9])[A-Za-z0-9]{20,}+"
    ),
    "google_key": r"AIza[A-Za-z0-9_-]{35}|GOCSPX-[A-Za-z0-9_-]{28}|ya29\.[A-Za-z0-9_-]{30,}+",
    "stripe_key": r"(?:sk|(?<!\\)rk)_(?:live|test)_[A-Za-z0-9]{16,}+|whsec_[A-Za-z0-9]{24,}+",
    "npm_token": r"(?<!\\)npm_[A-Za-z0-9]{36}",
    "pypi_token": r"pypi-[A-Za-z0-9_-]{50,}+",
    "huggingface_token": r"hf_[A-Za-z0-9]{30,}+",
    "sendgrid_key": r"SG\.[A-Za-z0-9_-]{16,64}+\.[A-Za-z0-9_-]{16,64}+",
    "twilio_key": r"SK[0-9a-f]{32}",
    "telegram_token": r"[0-9]{8,10}:AA[A-Za-z0-9_-]{33}",
    "jwt": r"(?<!-)eyJ[A-Za-z0-9_-]{8,}+\.eyJ[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+)?",
}
# In JSON the letter before a token may be the end of an escape sequence, such as \n or \u003d.
_BORDER = r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4}))"
_END = r"(?![A-Za-z0-9_]|\[masked:)"

# Values that are known by what stands before them. A quoted name needs a quoted value: a bare
# number after it is JSON's, and a mask there would break it.

_QUOTE = r"\\{0,8}[\"']"
_VALUE_SIGN = r"[^\s\"'\\<>\[\]{}(),;&`=]"
_VALUE = (
    r"(?![/.~$<{%*]|https?:)"
    r"(?=[^\s\"'\\<>\[\]{}(),;&`=0-9]{0,64}+[0-9])"
    rf"(?!{_VALUE_SIGN}{{0,128}}+[(\[])"  # a call or a subscript: code, not a value
    rf"{_VALUE_SIGN}{{8,}}+={{0,2}}+"
)
_PATH_OF_NAMES = r"[A-Za-z_][A-Za-z0-9_]{0,63}\.[A-Za-z_]"


def _assignment(names: str, kind: str) -> str:
    name, value = f"{kind}_name", f"{kind}_value"
    return (
        rf"(?:{names})(?P<{name}>{_QUOTE})?\s{{0,3}}(?:=>|:=|[:=>])\s{{0,3}}(?P<{value}>{_QUOTE})?"
        rf"(?({value})|(?({name})(?!)|(?!{_PATH_OF_NAMES})))(?P<{kind}>){_VALUE}"
    )


_NAMED = (
    _assignment(r"[sS](?i:ecret[_-]?access[_-]?key)", "aws_secret_key"),
    _assignment(
        r"[aA](?i:(?:pi|ccess|uth)[_-]?(?:key|token))|[bB](?i:ot[_-]?token)|[iI](?i:d[_-]?token)"
        r"|[pP](?i:assw(?:or)?d|assphrase|wd|rivate[_-]?key)|[rR](?i:efresh[_-]?token)"
        r"|[sS](?i:ecret(?:[_-]?key)?|ession[_-]?token)|(?<![A-Za-z_])[tT](?i:oken)",
        "secret",
    ),
    r"(?:Account|SharedAccess)Key=(?P<azure_key>)[A-Za-z0-9+/]{40,}+={0,2}+",
    r"[bB](?i:earer|asic)\s{1,3}(?P<bearer_token>)(?=[A-Za-z_.~+/-]{0,64}+[0-9])"
    r"[A-Za-z0-9_.~+/-]{20,}+={0,2}+",
    r":(?:\\{0,4}/){2}(?P<url_credentials>)[^\s:/@\"'\\<>\[\]{}$*]{0,64}+"
    r":[^\s/@\"'\\<>\[\]{}$*]{3,255}+(?=@)",
)

# The looks ahead are only for speed: most places are passed over after one of them.
_TOKEN_STARTS = (
    r"(?=A(?:KIA|SIA|Iza)|GOCSPX-|S(?:G\.|K[0-9a-f])|[0-9]{8}|eyJ|g(?:h[pousr]_|ithub_|l[a-z]{2,3}-)"
    r"|hf_|npm_|pypi-|rk_|sk[-_]|whsec_|x(?:ox|app-)|ya29)"
)
_SECRET = re.compile(
    f"{_TOKEN_STARTS}{_BORDER}(?:"
    + "|".join(f"(?P<{kind}>)(?:{pattern}){_END}" for kind, pattern in _TOKENS.items())
    + ")|(?=[:ABIPRSTabiprst])(?:"
    + "|".join(_NAMED)
    + ")"
)


# Private keys are found by string search: a pattern for them takes quadratic time.

_BEGIN, _CLOSE = "-----BEGIN ", "-----END "
_LINE = re.compile(r"-----(?:BEGIN|END) [A-Z0-9 ]{0,32}PRIVATE KEY[A-Z ]{0,16}-----")
_BODY = re.compile(r"[A-Za-z0-9+/=\s\\:,.()-]*+")
_CUT_BODY = re.compile(r"(?:(?:\s|\\++[nrt])*+[A-Za-z0-9+/=]{16,}+)++")


def _mask_private_keys(text: str, counts: dict[str, int]) -> str:
    shown: list[str] = []
    done = run_end = close = 0
    start = text.find(_BEGIN)
    while start >= 0:
        body = _end_of(_LINE, text, start)
        if body > run_end:
            run_end = _end_of(_BODY, text, body)
            close = 0
        if body and close < body:
            # Not found: nothing closes before run_end, so it is not looked for again until there.
            close = text.find(_CLOSE, body, run_end)
            close = run_end if close < 0 else close
        end = _end_of_key(text, body, close, run_end) if body else 0
        if end:
            shown += (text[done:start], "[masked:private-key]")
            done = end
            counts["private-key"] = counts.get("private-key", 0) + 1
        start = text.find(_BEGIN, end or start + len(_BEGIN))
    return "".join((*shown, text[done:]))


def _end_of_key(text: str, body: int, close: int, run_end: int) -> int:
    """Where a key ends: with its last line, or where a key cut short stops; 0 for no key."""
    whole = _end_of(_LINE, text, close) if close < run_end else 0
    return whole or _end_of(_CUT_BODY, text, body)


def _end_of(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return match.end() if match else 0

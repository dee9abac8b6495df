"""Secrets of every known kind are masked wherever they stand; what only looks like one stays."""

from __future__ import annotations

import json
import random
import string
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.text.secrets import masked_line, redact
from mcp_compaction.lexicon.secrets import known_secrets
from tests.lexicon.made_up import made_up
from tests.tables import table

_PICK = random.Random(5)


def _signs(size: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    return "7" + "".join(_PICK.choices(alphabet, k=size - 1))


_KEY_BODY = "\n".join(_signs(64) for _ in range(8))
_DASHES = "-" * 5
_KEY = (
    f"{_DASHES}BEGIN RSA PRIVATE KEY{_DASHES}\n{_KEY_BODY}\n{_DASHES}END RSA PRIVATE KEY{_DASHES}"
)
_TOKENS = (
    *("AKIA" + _signs(16, string.ascii_uppercase), "ghp_" + _signs(36), "glpat-" + _signs(20)),
    *("sk-ant-api03-" + _signs(80) + "-AA", "AIza" + _signs(35), "npm_" + _signs(36)),
    f"eyJ{_signs(30)}.eyJ{_signs(60)}.{_signs(43)}",
)


def _plain(text: str) -> str:
    return text


def _json_string(text: str) -> str:
    return json.dumps({"role": "user", "content": text})


def _json_in_json(text: str) -> str:
    return json.dumps({"arguments": json.dumps({"deep": json.dumps([text])})})


def _tool_argument(text: str) -> str:
    return json.dumps({"name": "Bash", "input": {"command": f"run\n{text}\ttail", "n": 1}})


_PLACES = [_plain, _json_string, _json_in_json, _tool_argument]


@pytest.mark.parametrize("name", ["password", "apiKey", "secret", "auth_token", "client_secret"])
def test_a_named_value_is_masked_in_json_of_any_depth(name: str):
    value = json.dumps({name: "correct7horse", "other": "text"})
    for _ in range(3):
        masked = redact(value)
        assert masked.counts == {"password" if name == "password" else "secret": 1}
        assert "horse" not in masked.text
        json.loads(masked.text)
        value = json.dumps({"inner": value})


def test_a_key_that_was_cut_short_is_masked_as_far_as_it_goes():
    begin = f"{_DASHES}BEGIN RSA PRIVATE KEY{_DASHES}"
    raw = json.dumps({"a": f"{begin}\n{_KEY_BODY}", "b": f'say "{begin}"'})
    assert json.loads(redact(raw).text) == {"a": "[masked:private-key]", "b": f'say "{begin}"'}


def test_keys_beside_each_other_are_masked_one_by_one():
    redacted = redact(f"{_KEY}\nand, then: {_KEY} {_DASHES}BEGIN CERTIFICATE{_DASHES}")
    assert redacted.counts == {"private-key": 2}
    assert redacted.text == (
        "[masked:private-key]\nand, then: [masked:private-key] -----BEGIN CERTIFICATE-----"
    )


def test_a_key_whose_last_line_is_torn_is_masked():
    begin, body = f"{_DASHES}BEGIN PRIVATE KEY{_DASHES}", _signs(64)
    assert (
        redact(f"{begin}\n{body}\n{_DASHES}END PRIV").text == "[masked:private-key]\n-----END PRIV"
    )


def test_a_secret_is_found_wherever_it_stands_in_a_long_text():
    token = "ghp_" + _signs(36)
    for at in (65_500, 65_520, 65_536, 131_060, 131_072):
        text = "x " * (at // 2) + token + " y" * 40_000
        assert redact(text).counts == {"github-token": 1}


@pytest.mark.parametrize(
    "text",
    table(__file__, "what_only_looks_like_a_secret_stays"),
)
def test_what_only_looks_like_a_secret_stays(text: str):
    redacted = redact(text)
    assert redacted.text == text
    assert redacted.counts == {}


@pytest.mark.parametrize("place", _PLACES)
@pytest.mark.parametrize(
    ("before", "secret", "after"),
    [
        ("DB_PASSWORD=", "NYYakKFPaIYEXDxc", ""),
        ("DB_PASSWORD=", "correcthorse", ""),
        ("export PGPASSWORD='", "CorrectHorse", "'"),
        ("POSTGRES_PASSWORD=", "let-me-in-please", ""),
        ("password: ", "NYYakKFPaIYEXDxc", ""),
        ("password: ", "qkzjwvxhbnmtrpld", ""),
        ("password: ", "WmhRakxwVnhCbnM=", ""),
        ("password = '", "Tr!ckyBusiness", "'"),
        ('"password": "', "correcthorsebattery", '"'),
        ("DB_PASSWORD=", "p@ss(w0rd)oIaEhVmk", ""),
        ("password: '", "a,b;c=d&e9", "'"),
    ],
)
def test_a_password_needs_no_digit_after_an_explicit_name(
    before: str, secret: str, after: str, place: Callable[[str], str]
):
    redacted = redact(place(f"{before}{secret}{after} there"))
    assert redacted.text == place(f"{before}[masked:password]{after} there")


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("quote", ["'", '"'])
def test_what_a_table_has_under_a_name_is_masked(quote: str, depth: int):
    value = _signs(40)
    text = f"os.environ[{quote}AWS_SECRET_ACCESS_KEY{quote}] = {quote}{value}{quote}"
    for _ in range(depth):
        text = json.dumps({"line": text})
    masked = redact(text)
    assert masked.counts == {"aws-secret-key": 1}
    assert value not in masked.text
    compared = f"if settings[{quote}password{quote}] == {quote}{value}{quote}: pass"
    assert redact(compared).text == compared


def test_a_name_after_an_escaped_line_break_is_a_name():
    raw = json.dumps("see\ntoken: abcd1234efgh")
    assert redact(raw).text == json.dumps("see\ntoken: [masked:secret]")


@pytest.mark.parametrize(
    "raw",
    [
        '{"my password:":12345678}',
        '["password=",12345678]',
        '{"a":"token=","b":12345678}',
        '{"curl -u a":12345678}',
        '{"cookie:":12345678}',
    ],
)
def test_a_number_beside_a_name_stays_a_number(raw: str):
    assert json.loads(redact(raw).text) == json.loads(raw)


def test_the_counts_are_told_in_one_line():
    assert masked_line({"jwt": 1}) == "masked 1 secret before it was kept: jwt 1"
    assert masked_line({"password": 1, "github-token": 2}) == (
        "masked 3 secrets before they were kept: github-token 2, password 1"
    )


def test_a_start_pays_nothing_for_the_pattern():
    code = (
        "import mcp_compaction.server.app, mcp_compaction.core.text.secret_values as p;"
        "print(p.build_secret_pattern.cache_info().currsize, p.known_secrets.cache_info().currsize)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["0", "0"]


def test_a_secret_between_a_command_and_its_password_is_masked():
    text = made_up('curl -H "Authorization: Bearer {a1B2*8}" -u ann:{a1B*4} https://example.org')
    assert redact(text).text == (
        'curl -H "Authorization: Bearer [masked:bearer-token]" -u ann:[masked:command-password]'
        " https://example.org"
    )


@pytest.mark.parametrize(
    "text",
    [
        "AIza{a1B_-*7}AKIA{A2*8}",
        "curl -u ann:{a1B*4} https://a.orgcurl -u ann:{a1B*4} https://a.org",
        "whsec_{a1B2*6}client_secret={a1B2*6}",
    ],
)
def test_secrets_that_touch_each_other_are_masked_at_once_or_never(text: str):
    once = redact(made_up(text)).text
    assert redact(once).text == once != made_up(text)


def test_base64_images_stay():
    image = "data:image/png;base64," + b64encode(random.Random(3).randbytes(300_000)).decode()
    assert redact(image).text == image


def test_an_escape_sequence_that_looks_like_a_token_is_not_torn():
    for text in ("\rk_live_" + _signs(24), "\npm_" + _signs(36)):
        raw = json.dumps(text)
        assert json.loads(redact(raw).text)[0] == text[0]


_HOSTILE = [
    *(
        f"{_DASHES}BEGIN PRIVATE KEY{_DASHES}{tail}"
        for tail in ("", "\nabc", ' "', "A" * 20 + "\\")
    ),
    *("BEGIN PRIVATE KEY", f"{_DASHES}BEGIN ", f"{_DASHES}END PRIVATE KEY{_DASHES}BEGIN "),
    *("eyJ", "-eyJ", "eyJ.", "eyJaaaaaaaaaa.", "eyJaaaaaaaaaa.eyJ", "sk-", "sk-ant-", "sk-a"),
    *(
        "password=",
        "password='",
        "password=a1",
        "password:a1(",
        "password:a1",
        "pwd:1",
        "token:",
        "api",
        "secret_key",
    ),
    *("A", "a", "1", " ", "\n", "\\", '"', '\\"', "\\n", "-", "=", "_", "AKIA", "xoxb-", "-xoxb-"),
    *("://", "://a:", "://a:b", "Bearer ", "bearer a.", "ghp_", " ghp_", "SG.", "1:AA"),
    *("SG.aaaaaaaaaaaaaaaaaaaa.", "12345678:AA", "AccountKey=", "github_pat_", "pypi-", "[masked:"),
]


@pytest.mark.thorough
@pytest.mark.parametrize("unit", _HOSTILE)
def test_a_long_hostile_pattern_takes_linear_time(unit: str):
    text = (unit * (62_500 // len(unit) + 1))[:62_500]
    redact("x")  # the first call reads the kinds of secrets, which is not timed
    began = process_time()
    redacted = redact(text)
    assert process_time() - began < 4  # alone it takes under a quarter, quadratic many minutes
    assert redact(redacted.text).text == redacted.text


def _cpu_time(text: str) -> float:
    began = process_time()
    redact(text)
    return process_time() - began


@pytest.mark.thorough
@pytest.mark.parametrize("kind", sorted({secret.kind for secret in known_secrets()}))
def test_time_grows_with_the_length_of_what_nearly_is_a_secret(kind: str):
    for secret in (secret for secret in known_secrets() if secret.kind == kind):
        example = made_up(secret.example)
        openings = (*secret.starts, *secret.words, *(f"{name}:" for name in secret.names))
        for unit in (example, example[:-1], f"{example}-", *openings[:2]):
            short, long = ((unit * (size // len(unit)) + "_") for size in (2_000, 32_000))
            # What else runs can only add to a time: the least of three counts.
            limit = 80 * min(_cpu_time(short) for _ in range(3))  # 16 is linear, 256 quadratic
            assert any(_cpu_time(long) < limit for _ in range(3))


_PIECES = st.sampled_from(
    [
        *_TOKENS,
        *(made_up(secret.example) for secret in known_secrets() if len(secret.example) < 60),
        *(made_up(secret.near_miss) for secret in known_secrets() if len(secret.near_miss) < 60),
        *("PASSWORD=", "curl -u a:", "mysql -p", "Cookie: a=", ":5432:a:b:", "--token ", "\\n"),
        *("password=", "token: ", '"secret": "', "Bearer ", "://a:b1c@", "[masked:jwt]", "[", "]"),
        *(
            "sk-",
            "eyJ",
            ".",
            "-",
            "_",
            "a",
            "Z9",
            "\\",
            '"',
            "'",
            "\n",
            " ",
            ":",
            "=",
            "/",
            "(",
            "n",
        ),
        *(f"{_DASHES}BEGIN PRIVATE KEY{_DASHES}", f"{_DASHES}END PRIVATE KEY{_DASHES}", "\\u003d"),
        *("A" * 20, "1" * 9),
    ]
)
_TEXTS = st.lists(_PIECES | st.text(max_size=3), max_size=12).map("".join)


@given(_TEXTS)
def test_masking_twice_is_masking_once(text: str):
    once = redact(text).text
    assert redact(once).text == once


@given(_TEXTS, st.integers(1, 3))
def test_json_stays_json(text: str, depth: int):
    raw = text
    for _ in range(depth):
        raw = json.dumps({"password": raw, "n": 12345678, "list": [raw, "x"]}, ensure_ascii=False)
    masked = json.loads(redact(raw).text)
    assert masked.keys() == {"password", "n", "list"}
    assert masked["n"] == 12345678


@given(_TEXTS)
def test_raw_and_parsed_text_lose_the_same_tokens(text: str):
    raw = json.loads(redact(json.dumps([text])).text)[0]
    for token in _TOKENS:
        if f" {token} " in f" {text} ":
            assert f" {token} " not in f" {raw} "


def test_a_text_without_secrets_stays_as_it_is():
    assert redact("").text == ""
    assert redact("plain words").counts == {}

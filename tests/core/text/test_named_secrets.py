"""A value is masked in every form in which a text gives it to a name that says secret."""

from __future__ import annotations

import json

import pytest

from mcp_compaction.core.text.secrets import redact
from tests.lexicon.made_up import made_up
from tests.tables import table

_WHO = "Zq7{Xk9Vb2Mw4*1}Tn6Rp1"  # sixteen signs, by chance
_LONG = "Zq7{Xk9Vb2Mw4*3}Tn6Rp1"


def _there(text: str, value: str) -> str:
    return made_up(text.replace("VALUE", value))


@pytest.mark.parametrize(
    "text",
    table(__file__, "what_is_given_to_a_secret_name_is_masked"),
)
def test_what_is_given_to_a_secret_name_is_masked(text: str):
    value = made_up(_WHO)
    whole = _there(text, value)
    redacted = redact(whole)
    assert value not in redacted.text
    assert sum(redacted.counts.values()) == 1
    assert redact(redacted.text).text == redacted.text
    raw = json.dumps({"n": 12345678, "text": whole}, ensure_ascii=False)
    masked = json.loads(redact(raw).text)
    assert value not in masked["text"]
    assert masked["n"] == 12345678


@pytest.mark.parametrize(
    "text",
    [
        "tskey-auth-VALUE",
        "echo zzq_VALUEVALUE",
        "https://api.telegram.org/bot1234567890:AAVALUE7/sendMessage",
    ],
)
def test_a_token_of_an_unknown_maker_is_known_by_its_form(text: str):
    value = made_up("Zq7{Xk9Vb2Mw4*2}Tn6Rp1Zq7Xk9a")[:32]
    assert value not in redact(text.replace("VALUE", value)).text


@pytest.mark.parametrize(
    "text",
    table(__file__, "what_is_given_to_another_name_stays"),
)
def test_what_is_given_to_another_name_stays(text: str):
    whole = _there(text, made_up(_LONG))
    assert redact(whole).text == whole


@pytest.mark.parametrize(
    "text",
    table(__file__, "what_is_no_value_of_a_secret_name_stays"),
)
def test_what_is_no_value_of_a_secret_name_stays(text: str):
    whole = made_up(text)
    assert redact(whole).text == whole


_TYPED = "Zq7!{xk*1}Vb2mw4"  # as somebody makes one up


@pytest.mark.parametrize(
    "text",
    table(__file__, "a_password_that_somebody_typed_is_masked"),
)
def test_a_password_that_somebody_typed_is_masked(text: str):
    value = made_up(_TYPED)
    whole = text.replace("VALUE", value)
    redacted = redact(whole)
    assert value not in redacted.text
    assert redact(redacted.text).text == redacted.text
    raw = json.dumps({"text": whole}, ensure_ascii=False)
    assert value not in json.loads(redact(raw).text)["text"]


@pytest.mark.parametrize(
    "text",
    [
        'the password is "{vespa50limone*1}" there',
        "Das Kennwort ist {Tasse_77*1}x",
        "my wifi is Office5G, passphrase {correct-*1}giraffe-staple-41. write it down",
    ],
)
def test_a_password_of_words_and_a_number_is_masked_where_a_sentence_says_it(text: str):
    assert redact(made_up(text)).counts == {"password": 1}


@pytest.mark.parametrize(
    "text",
    table(__file__, "what_only_stands_near_a_password_stays"),
)
def test_what_only_stands_near_a_password_stays(text: str):
    whole = made_up(text)
    assert redact(whole).text == whole
    assert redact(json.dumps([whole])).counts == {}

"""A value that was masked is masked again where no name stands before it; common words stay."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.text.repeats import KnownSecrets, know_more, mask_repeats
from mcp_compaction.core.text.secrets import redact

_NONE = KnownSecrets(b"a salt", {})
_KEY = "D4w8z9wKN1aVeT3BpQj6" + "kIuN7wH8X0M9KfV5OqzF"


def _know(text: str) -> KnownSecrets:
    return know_more(_NONE, redact(text).named)


@pytest.mark.parametrize("value", [_KEY, "x1/" + _KEY, *(sign + _KEY for sign in "nrtbfu31mK")])
@pytest.mark.parametrize(
    "lead",
    [
        "a.py:\x1b[01;31m\x1b[K",
        "\x1b[31m",
        "\x1b[m",
        "\x1b[38;5;196m",
        "key%3D",
        "%3d",
        "%0D%0A",
        "100%",
        "C:\\",
        "C:\\\\",
        "\\n",
        "\\u001b[1m",
        "\n",
        "é",
        "rows[",
        "a;",
    ],
)
def test_a_value_behind_a_code_is_masked_and_the_json_stays_valid(lead: str, value: str):
    known = know_more(_NONE, [(value, "secret")])
    for text in (f"{lead}{value}", f"{lead}{value}\x1b[m {lead}{value}"):
        masked = mask_repeats(text, known)
        assert _KEY not in masked.text
        assert masked.counts == {"secret": text.count(_KEY)}
        assert masked.text.startswith(lead)
        inner = json.dumps({"command": text})
        raw = json.dumps({"arguments": inner})
        shown = json.loads(json.loads(mask_repeats(raw, known).text)["arguments"])["command"]
        assert _KEY not in shown
        # A letter that may belong to an escape sequence stays where a backslash is before it.
        if lead.endswith("\\"):
            shown = shown.replace("\\" + value[0] + "[", "\\[")
        assert shown == text.replace(value, "[masked:secret]")


@pytest.mark.parametrize(
    "value", ["postgres1", "correct7horse", "MyDatabasePassword2024", "a1b2c3d4", "session_key_2"]
)
def test_a_short_or_common_value_is_not_masked_where_it_is_only_spoken_of(value: str):
    known = _know(f'password = "{value}"')
    assert mask_repeats(f"we run {value} here", known).counts == {}


@pytest.mark.parametrize(
    ("named", "later"),
    [
        ("auth_token=Oauth2Pkce256Flow", "class Oauth2Pkce256Flow(Flow):"),
        ('password = "backup-20240101T120000Z"', "log-20240101T120000Z.txt"),
        ("token: 20241105T101530Z", "run of 20241105T101530Z"),
        ("token: run7a20241105T101530Zb9", "run7a20241105T101530Zb9"),
        ("secret: ingress-tls-5d4f8c7b9a6e", "pod web-5d4f8c7b9a6e is ready"),
        ("secret: ingress-tls-5d4f8c7b9a6e", "kubectl get secret ingress-tls-5d4f8c7b9a6e"),
        ("API_KEY: my-app-2024w45r1build", "image my-app-2024w45r1build pushed"),
        ("API_KEY: my-app-2024w45r1build", "image 2024w45r1build pushed"),
        ("password=registry-eu-west-prod-5d4f8c7b9a6e1f2a", "pod web-5d4f8c7b9a6e1f2a is ready"),
    ],
)
def test_an_ordinary_name_is_not_masked_because_it_was_given_as_a_secret(named: str, later: str):
    known = _know(named)
    assert mask_repeats(later, known).text == later
    raw = json.dumps({"role": "user", "content": later})
    assert mask_repeats(raw, known).text == raw


@pytest.mark.parametrize("value", ["toolu01A2b3C4d5E6f7G8", _KEY])
@pytest.mark.parametrize("key", ["id", "tool_use_id", "call_id", "tool_call_id"])
@pytest.mark.parametrize("lead", ["", "fc_", "call-1|"])
def test_the_id_of_a_call_stays_and_the_value_beside_it_is_masked(value: str, key: str, lead: str):
    known = _know(json.dumps({"token": value}))
    assert known.by_word
    for separators in ((",", ":"), (", ", ": ")):
        message = {"type": "x", key: lead + value, "content": f'{{"{key}": "{value}"}}', "k": value}
        masked = mask_repeats(json.dumps(message, separators=separators), known)
        mask = "[masked:secret]"
        content = message["content"].replace(value, mask)
        assert json.loads(masked.text) == {**message, "content": content, "k": mask}
    words = mask_repeats(f'The answer had "{key}": "{value}".', known)
    assert value not in words.text


def test_a_word_that_is_most_of_a_value_is_masked_alone():
    known = know_more(_NONE, [(f"sk-{_KEY}", "secret")])
    assert mask_repeats(f"it ends in {_KEY}", known).text == "it ends in [masked:secret]"


def test_nothing_of_a_value_can_be_read_in_what_is_kept_of_it():
    kept = repr(know_more(_NONE, [(_KEY, "secret")]))
    assert not any(_KEY[n : n + 4] in kept for n in range(len(_KEY) - 4))


@given(st.text(), st.text())
def test_what_holds_no_known_value_stays_as_it_is(before: str, after: str):
    known = know_more(_NONE, [(_KEY, "secret")])
    assert mask_repeats(before, known).text == before
    raw = json.dumps([before, _KEY, after])
    assert json.loads(mask_repeats(raw, known).text) == [before, "[masked:secret]", after]

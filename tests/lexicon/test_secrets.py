"""Every kind of secret in the lexicon masks its example and leaves its near miss alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_compaction.core.text.secrets import redact
from mcp_compaction.lexicon.secrets import Secret, known_secrets
from tests.lexicon.made_up import made_up

each_secret = pytest.mark.parametrize(
    "secret", known_secrets(), ids=[secret.kind for secret in known_secrets()]
)


@each_secret
def test_the_example_is_masked_in_text_and_in_json_of_any_depth(secret: Secret) -> None:
    text = f"see {made_up(secret.example)} there"
    for _ in range(3):
        redacted = redact(text)
        assert redacted.counts == {secret.kind: 1}
        assert redact(redacted.text).text == redacted.text
        text = json.dumps(["\n", text])
        json.loads(redact(text).text)
    for lead in ("", "\n", "\t", "é", '"', "(", "<"):
        behind = json.dumps([lead + made_up(secret.example)])
        assert redact(behind).counts == {secret.kind: 1}


@each_secret
def test_the_near_miss_stays(secret: Secret) -> None:
    near_miss = made_up(secret.near_miss)
    assert redact(near_miss).text == near_miss
    assert redact(json.dumps([near_miss])).counts == {}


@each_secret
def test_the_file_itself_holds_no_secret(secret: Secret) -> None:
    if secret.starts or secret.shape:
        assert redact(secret.example).counts == {}


@pytest.mark.parametrize(
    "fault",
    [
        {"example": ""},
        {"near_miss": ""},
        {"starts": ()},
        {"shape": "[a-z]{32}"},
        {"surprise": True},
    ],
)
def test_an_entry_that_lacks_an_example_or_is_known_by_two_things_is_refused(
    fault: dict[str, Any],
) -> None:
    whole: dict[str, Any] = {
        "kind": "x-token",
        "starts": ("x_",),
        "rest": "a",
        "example": "a",
        "near_miss": "b",
    }
    Secret(**whole)
    with pytest.raises((ValueError, TypeError)):
        Secret(**(whole | fault))

"""What hosts and providers put into a history stays as it is, and where it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction.formats.usage import Usage, read_usage
from mcp_compaction.gateway.calls import HostCall, SentHistory, read_call, read_history
from tests.checkers import Json
from tests.gateway.talking import StrictProvider, open_talk, size_of

pytestmark = pytest.mark.anyio

RULE = 'Never push to "main" without a review — not even once.'
WRITTEN = json.dumps(RULE, ensure_ascii=False)[1:-1]
COMPACTED: dict[str, Json] = {
    "anthropic": {
        "role": "assistant",
        "content": [{"type": "compaction", "content": "what was"}, {"type": "text", "text": "So."}],
    },
    "responses": {"type": "compaction", "encrypted_content": "c2VjcmV0"},
}


@pytest.mark.parametrize("shape", COMPACTED)
async def test_nothing_up_to_a_providers_own_compaction_is_changed(
    tmp_path: Path, shape: str
) -> None:
    async with open_talk(tmp_path, StrictProvider(shape), agent_controlled=False) as (host, store):
        await (await store.session("other")).pin(RULE, by="user", scope="project")
        for number in range(3):
            await host.work(number)
        host.history.append(COMPACTED[shape])
        stays = list(host.history)
        await host.work_until_compacted()
        key = "input" if shape == "responses" else "messages"
        sent = [body[key] for body in host.provider.requests if COMPACTED[shape] in body[key]]
        assert len(sent) > 5
        for messages in sent:
            assert messages[: len(stays)] == stays
            assert json.dumps(messages[len(stays) :], ensure_ascii=False).count(WRITTEN) == 1
        assert size_of(host.last_sent[len(stays) :]) < size_of(host.history[len(stays) :]) * 0.9


@pytest.mark.parametrize("shape", COMPACTED)
def test_a_providers_compaction_is_found_whether_it_came_alone_or_before(shape: str) -> None:
    words: list[Json] = [{"role": "user", "content": str(number)} for number in range(4)]
    histories = [
        [*words[:2], COMPACTED[shape]],
        [*words[:2], COMPACTED[shape], words[2]],
        [*words[:2], COMPACTED[shape], *words[2:]],
    ]
    last: SentHistory | None = read_history(_call(shape, words[:2]))
    for history, before in zip(histories, (2, 3, 3), strict=True):
        last = read_history(_call(shape, history), last)
        assert last == read_history(_call(shape, history))
        assert last.before == before


def _call(shape: str, messages: list[Json]) -> HostCall:
    key = "input" if shape == "responses" else "messages"
    path = "/v1/responses" if shape == "responses" else "/v1/messages"
    body = json.dumps({"tools": [{}], key: messages}).encode()
    call = read_call(path, {"x-claude-code-session-id": "chat-1"}, body)
    assert call is not None
    return call


def _odd_step(number: int) -> list[Json]:
    """A step with all kinds of blocks that only a provider understands."""
    call, search = f"toolu_odd_{number}", f"srvtoolu_{number}"
    found = {"type": "web_search_result", "url": "https://a.example", "encrypted_content": "eA=="}
    reference = {"type": "tool_reference", "tool_name": "Write"}
    said: list[Json] = [
        {"type": "thinking", "thinking": f"Step {number}.", "signature": "c2ln" * 20},
        {"type": "redacted_thinking", "data": "cmVk"},
        {"type": "server_tool_use", "id": search, "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": search, "content": [found]},
        {"type": "tool_use", "id": call, "name": "Read", "input": {}, "caller": {"type": "direct"}},
    ]
    result = {"type": "tool_result", "tool_use_id": call, "content": [reference], "is_error": False}
    return [
        {"role": "user", "content": f"Look up {number}. " + "Read it all. " * 90},
        {"role": "assistant", "content": said},
        {"role": "user", "content": [result], "of_a_host": {"its": "own"}},
    ]


async def test_what_stays_in_the_window_has_all_its_blocks_and_keys(tmp_path: Path) -> None:
    async with open_talk(tmp_path, agent_controlled=False) as (host, _):
        for number in range(12):
            host.history += _odd_step(number)
            await host.go_on()
        assert host.turns.tally["compactions"] >= 1
        for body in host.provider.requests:
            kept = [one for one in body["messages"] if "signature" in json.dumps(one)]
            assert kept
            assert all(one in host.history for one in kept)
            answered = body["messages"].index(kept[-1]) + 1
            assert body["messages"][answered] in host.history
        assert not [kind for kind in host.turns.tally if "fail" in kind or "could not" in kind]


CALLS: list[Any] = [
    {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3_500},
    {"type": "message", "input_tokens": 900, "cache_read_input_tokens": 100, "output_tokens": 20},
]


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        (
            {"input_tokens": 900, "iterations": CALLS},
            Usage(fresh=180_900, cached=100, output=3_520),
        ),
        (
            {
                "input_tokens": 10,
                "cache_creation_input_tokens": 70,
                "cache_creation": {"ephemeral_1h_input_tokens": 50},
            },
            Usage(fresh=10, written=20, written_long=50),
        ),
        (
            {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 60}},
            Usage(fresh=40, cached=60),
        ),
        (
            {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 2},
            Usage(fresh=5, cached=4, output=2),
        ),
        ({"input_tokens": -5, "output_tokens": "many"}, Usage()),
        ({}, None),
    ],
)
def test_what_providers_count_is_read_in_one_form(told: Any, usage: Usage | None) -> None:
    assert read_usage(told) == usage

"""The model that a host calls writes the handover of a compaction, where the host has a key."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction import compactor
from mcp_compaction.gateway.prose import is_paid_by_key, written_by
from mcp_compaction.summarizers.session_model import QUESTION, Answered, SessionModel
from tests.checkers import Json
from tests.gateway.talking import Host, StrictProvider, open_talk
from tests.gateway.upstream import Asked, write_whole

pytestmark = pytest.mark.anyio

HANDOVER = """GOAL
- "Read file 1." and the others: what they hold.
OPEN
- The user agreed to delete the rest.
"""
CHOSEN: dict[str, Any] = {"agent_controlled": False, "prose": "ahead"}


class WritingProvider(StrictProvider):
    """A provider whose model writes a handover where it is asked for one."""

    def __init__(self, shape: str, status: int = 200) -> None:
        super().__init__(shape)
        self.handover = HANDOVER
        self.status_of_question = status
        self.questions: list[list[Json]] = []
        self.keys: list[str] = []

    async def __call__(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        body = json.loads(asked.body)
        said = body["input" if self.shape == "responses" else "messages"]
        if json.dumps(QUESTION)[1:-1] not in json.dumps(said[-1]):
            await self.answer(asked, writer)
            return
        assert not body["stream"]
        self.questions.append(said)
        self.keys.append(asked.headers["authorization"])
        whole, _ = self._speak(body, 100)
        write_whole(writer, json.dumps(whole).encode(), self.status_of_question)

    def _speak(self, body: Json, size: int) -> tuple[Json, list[Json]]:
        if not body["stream"]:
            self.said.insert(0, {"text": self.handover})
        return super()._speak(body, size)


@pytest.mark.parametrize("shape", ["anthropic", "openai", "responses"])
async def test_the_model_is_asked_behind_the_request_as_it_was_sent(
    tmp_path: Path, shape: str
) -> None:
    provider = WritingProvider(shape)
    async with open_talk(tmp_path, provider, **CHOSEN) as (host, _):
        await host.work_until_compacted()
        sent = [one["input" if shape == "responses" else "messages"] for one in provider.requests]
        asked = provider.questions[0]
        whole = asked if shape == "anthropic" else asked[:-1]  # there it joins the last message
        assert [len(whole), whole[:-1]] in [[len(one), one[:-1]] for one in sent]
        assert provider.keys[0] == host.headers["authorization"]
        shown = json.dumps(host.last_sent)
        assert "what they hold. [model says, up to m" in shown
        assert "agreed to delete" not in shown
        assert not provider.faults


async def test_a_compaction_goes_on_where_the_provider_refuses_the_question(tmp_path: Path) -> None:
    provider = WritingProvider("anthropic", status=529)
    async with open_talk(tmp_path, provider, **CHOSEN) as (host, store):
        await host.work_until_compacted()
        assert provider.questions
        (info,) = await compactor.list_sessions(store.workspace, store.project)
        (receipt,) = await compactor.receipts(store.workspace, info)
        assert "the provider refused it (529)" in str(receipt)
        assert "model says" not in json.dumps(host.last_sent)


@pytest.mark.parametrize("name", ["anthropic-ratelimit-input-tokens-{}", "x-ratelimit-{}-tokens"])
@pytest.mark.parametrize(("left", "is_asked"), [("190", False), ("210", True)])
async def test_nothing_is_asked_where_a_limit_of_the_rate_is_near(
    tmp_path: Path, name: str, left: str, is_asked: bool
) -> None:
    provider = WritingProvider("anthropic")
    provider.headers = {name.format("limit"): "1000", name.format("remaining"): left}
    async with open_talk(tmp_path, provider, **CHOSEN) as (host, store):
        await host.work_until_compacted()
        assert bool(provider.questions) is is_asked
        (info,) = await compactor.list_sessions(store.workspace, store.project)
        (receipt,) = await compactor.receipts(store.workspace, info)
        told = f"81% of a rate limit ({name.format('remaining')}) are used"
        assert (told in str(receipt)) is not is_asked
        assert ("model says, up to m" in json.dumps(host.last_sent)) is is_asked


@pytest.mark.parametrize(
    ("headers", "is_key"),
    [
        ({"x-api-key": "sk-ant-api03-x"}, True),
        ({"x-api-key": "whatever a proxy takes"}, True),
        ({"authorization": "Bearer sk-proj-x"}, True),
        ({"authorization": "Bearer sk-ant-oat01-x"}, False),
        ({"x-api-key": "sk-ant-api03-x", "authorization": "Bearer sk-ant-oat01-x"}, False),
        ({"authorization": "Bearer eyJhbGciOi"}, False),
        ({"authorization": ""}, False),
        ({}, False),
    ],
)
def test_only_a_key_pays_for_questions_and_no_login(headers: dict[str, str], is_key: bool) -> None:
    assert is_paid_by_key(headers) is is_key


@pytest.mark.parametrize(
    "changed", [{"prose": "off"}, {"is_shadow": True}, {"login": "Bearer eyJhbGciOi"}]
)
async def test_nobody_is_asked_unless_it_was_chosen_and_is_paid_by_a_key(
    tmp_path: Path, changed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = WritingProvider("anthropic")
    if login := changed.pop("login", ""):
        known = Host.headers.fget
        assert known is not None
        headers = property(lambda host: known(host) | {"authorization": login})  # pyright: ignore
        monkeypatch.setattr(Host, "headers", headers)
    async with open_talk(tmp_path, provider, **{**CHOSEN, **changed}) as (host, _):
        await host.work_until_compacted()
        assert not provider.questions


async def test_two_requests_of_one_conversation_may_end_in_any_order(tmp_path: Path) -> None:
    async with open_talk(tmp_path, **CHOSEN) as (host, store):
        await host.say("Begin.")
        (info,) = await compactor.list_sessions(store.workspace, store.project)

        async def ask() -> Answered:
            raise AssertionError("nothing is compacted here")

        model = SessionModel(len)
        one, other = (written_by(model, ask, store.workspace, info) for _ in range(2))
        with other:
            with one:
                pass
            assert not store.workspace.own_models
        assert not store.workspace.own_models

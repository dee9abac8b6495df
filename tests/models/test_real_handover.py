"""A weak real model writes a session's handover through each door: what stands of it is marked as a
model's, and binds nobody.

It answers for the scripted model of each door over what that was sent, as far as it can read: its
context is small, and the beginning is cut.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mcp_compaction.summarizers.session_model import QUESTION
from tests.adapters.kits import kit_of
from tests.adapters.scripted import blocks_of
from tests.adapters.test_own_models import Asked, run_langgraph, run_pydantic_ai
from tests.adapters.test_session_model import SAID, WritingModel, fill
from tests.checkers import Json
from tests.gateway.talking import open_talk
from tests.gateway.test_prose import CHOSEN, WritingProvider
from tests.gateway.upstream import Asked as Request
from tests.hosts.live import needs_hosts
from tests.hosts.live_mod import ModdedClaude, check
from tests.hosts.scripted_model import HANDOVER_REQUEST, ScriptedModel, Step, serve_model
from tests.hosts.test_live_claude_prose import READS, settings
from tests.models.real_model import MODEL, RealModel, serve

pytestmark = [pytest.mark.anyio, pytest.mark.real_model]

SECONDS = 300.0  # for a model on one core that others want too
UNDER_HEADINGS = ("--grammar", str(Path(__file__).parent / "smollm" / "digest.gbnf"))
_SEEN = 1_500  # characters of the window: it reads 2,048 tokens, and the question is long
_WRITTEN = 160  # tokens


@pytest.fixture(scope="module")
def model() -> Iterator[RealModel]:
    """The real model, which ignores headings: a grammar has it write under them."""
    with serve(*UNDER_HEADINGS) as served:
        yield served


class Writer:
    """The real model, and what it has written."""

    def __init__(self, model: RealModel) -> None:
        self._model = model
        self.written: list[str] = []

    def write(self, texts: list[str]) -> str:
        """The handover behind the newest of what stands in a window."""
        seen = "\n".join(texts)[-_SEEN:]
        said = [{"role": "user", "content": f"{seen}\n\n{QUESTION}"}]
        body = {"model": MODEL, "max_tokens": _WRITTEN, "messages": said}
        with httpx2.Client(timeout=SECONDS) as client:
            answer = client.post(f"{self._model.url}/v1/messages", json=body).raise_for_status()
        self.written.append(answer.json()["content"][0]["text"])
        return self.written[-1]

    def check(self, shown: str) -> None:
        """It has written lines under headings, and what of them is shown is marked and no rule."""
        assert self.written
        for text in self.written:
            lines = re.findall(r"^- (.+)$", text, re.M)
            assert len(lines) > 2
            for line in lines:
                for place in _places_of(line.strip(), shown):
                    assert "says, up to m" in shown[place : place + len(line) + 200]
        rules = re.search(r"CONSTRAINTS(?:\\n|\n)((?:- .*?(?:\\n|\n))*)", shown)
        assert rules is None or "says" not in rules[1]


def _places_of(line: str, shown: str) -> list[int]:
    return [found.start() for found in re.finditer(re.escape(line), shown)]


async def test_through_a_loop(tmp_path: Path, model: RealModel) -> None:
    writer = Writer(model)

    class Writing(WritingModel):
        async def __call__(self, sent: Any) -> Json:
            said: list[Json] = sent["messages"]
            if any(block.get("text") == QUESTION for block in blocks_of(said[-1])):
                self.handover = writer.write([json.dumps(one) for one in said[:-1]])
            return await super().__call__(sent)

    own = Writing()
    async with kit_of("in process", tmp_path, by_agent=False, summarizer="session") as kit:
        await fill(kit, own)
        assert not kit.failures
    shown = " ".join(own.texts[-1])
    assert SAID in shown
    writer.check(shown)


class AskedWriter(Asked):
    """The requests of a run whose model is the real one where it is asked for the handover."""

    def __init__(self, writer: Writer) -> None:
        super().__init__()
        self._writer = writer

    def answer(self, texts: list[str]) -> int | None:
        """Which step of the run a request is; None: it asks for the handover."""
        step = super().answer(texts)
        if step is None:
            self.handover = self._writer.write(texts[:-1])
        return step


@pytest.mark.parametrize("run", [run_pydantic_ai, run_langgraph])
async def test_through_a_framework(tmp_path: Path, model: RealModel, run: Any) -> None:
    writer = Writer(model)
    asked = AskedWriter(writer)
    await run(tmp_path, asked)
    shown = "\n".join(asked.turns[-1])
    assert SAID in shown
    writer.check(shown)


async def test_through_the_gateway(tmp_path: Path, model: RealModel) -> None:
    writer = Writer(model)

    class Writing(WritingProvider):
        async def __call__(self, asked: Request, out: Any) -> None:
            said: list[Json] = json.loads(asked.body)["messages"]
            if json.dumps(QUESTION)[1:-1] in json.dumps(said[-1]):
                self.handover = writer.write([json.dumps(one) for one in said])
            await super().__call__(asked, out)

    async with open_talk(tmp_path, Writing("anthropic"), **CHOSEN) as (host, _):
        await host.work_until_compacted()
        writer.check(json.dumps(host.last_sent))


class WritingHostModel(ScriptedModel):
    """The model of a host that is the real one where the module asks for the handover."""

    def __init__(self, writer: Writer) -> None:
        super().__init__()
        self._writer = writer

    def next_step(self, body: dict[str, Any]) -> Step:
        """The step that a request gets."""
        if HANDOVER_REQUEST in json.dumps(body["messages"][-1:]):
            self.handover = self._writer.write([json.dumps(one) for one in body["messages"][:-1]])
        return super().next_step(body)


@pytest.mark.usefixtures("home_of_host")
@needs_hosts[0]
def test_through_claude_code(tmp_path: Path, model: RealModel) -> None:
    writer = Writer(model)
    with serve_model(WritingHostModel(writer)) as own:
        host = ModdedClaude(tmp_path, own)
        own.add(*host.wait_to_be_served(), *READS, Step("read"))
        settings(host, "at-compact")
        host.run(SAID, "/compact", "Are you there?")
        assert "Are you there?" in own.requests[-1]
        assert SAID in own.requests[-1]
        writer.check(own.requests[-1])
        check(own)

"""The chain asks one after another, says why each fell, and always ends with what is extracted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from mcp_compaction.errors import SummarizerError
from mcp_compaction.model import Draft, Item, ModelCall, SummaryRequest
from mcp_compaction.summarizers.calling import Chain
from tests.core.saying import user
from tests.sessions import messages_of

pytestmark = pytest.mark.anyio

CALL = ModelCall(model="x", seconds=1)
GOOD = Draft(author="model-y", sections=(("FACTS", (Item(text="it works"),)),), calls=(CALL,))


@dataclass
class Fake:
    """A summarizer that gives a draft or raises."""

    gives: Draft | BaseException
    name: str = "fake"
    asked: list[SummaryRequest] = field(default_factory=list[SummaryRequest])

    async def summarize(self, request: SummaryRequest) -> Draft:
        self.asked.append(request)
        await asyncio.sleep(0)
        if isinstance(self.gives, BaseException):
            raise self.gives
        return self.gives


def request(calls_left: int | None = None) -> SummaryRequest:
    said = messages_of([user("go")])
    return SummaryRequest(first=1, last=1, messages=said, max_tokens=99, calls_left=calls_left)


async def drafted(fakes: Sequence[Fake], calls_left: int | None = None) -> Draft:
    chain = Chain([(f"s{n}", lambda fake=fake: fake) for n, fake in enumerate(fakes, start=1)])
    return await chain.summarize(request(calls_left))


async def test_every_fall_is_noted_in_order_and_its_calls_are_kept() -> None:
    draft = await drafted(
        [Fake(SummarizerError("no key", (CALL, CALL))), Fake(ValueError("sk-secret")), Fake(GOOD)]
    )
    assert draft.note == "s1: no key; s2 failed (ValueError)"
    assert draft.author == "model-y"
    assert len(draft.calls) == 3


async def test_where_all_fail_it_is_extracted() -> None:
    draft = await drafted([Fake(SummarizerError("no key", (CALL,)))])
    assert (draft.author, draft.note) == ("extractive", "s1: no key; extracted instead")
    assert draft.calls == (CALL,)


async def test_a_summarizer_is_made_once_and_only_when_it_is_needed() -> None:
    made: list[Fake] = []

    def link() -> Fake:
        made.append(Fake(GOOD))
        return made[-1]

    chain = Chain([("only", link)])
    assert chain.name == "only, extractive"
    assert made == []
    for _ in range(2):
        await chain.summarize(request())
    assert len(made) == 1

"""The work of a compaction grows with what it compacts: counted in calls and signs, not in time."""

from __future__ import annotations

import cProfile
import gc
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import pytest

from benchmarks.compress import forget_what_was_read
from benchmarks.windows import GENERATED
from mcp_compaction.core.compaction.flow import Flow, flow
from mcp_compaction.core.compaction.progress import Answer, Request
from mcp_compaction.core.digest.extract import extract
from mcp_compaction.core.log.commands import program_of
from mcp_compaction.core.log.identifiers import identifiers_by_message
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import estimate
from mcp_compaction.model import Ask, Compaction, Found, Outcome, SummaryRequest
from tests.sessions import NOW, session_of

pytestmark = pytest.mark.thorough

Json = dict[str, Any]

MESSAGES = 300
MOST = 2.3  # for twice the messages: a term that grows with their square would add one more
MOST_COUNTED = 2.7  # a view is laid out and counted until it fits, which may take one try more


def ruled() -> Iterator[Json]:
    """A user who states a rule after each thing that was done against another."""
    for number in range(100_000):
        yield {"role": "user", "content": f"Never deploy service_{number} of team {number}."}
        done = f"We decided to deploy service_{number} of team {number} now."
        yield {"role": "assistant", "content": done}


def mistaken() -> Iterator[Json]:
    """An agent whose every second edit fails, each of another file."""
    for number in range(100_000):
        is_error, given = number % 2 == 0, {"file_path": f"/work/src/part_{number}.py"}
        edit = {"type": "tool_use", "id": f"t{number}", "name": "Edit", "input": given}
        said = "String to replace not found in file." if is_error else "The file was updated."
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": said}
        yield {"role": "assistant", "content": [edit]}
        yield {"role": "user", "content": [{**result, "is_error": is_error}]}


KINDS: dict[str, Callable[[], Iterator[Json]]] = {
    **GENERATED,
    "ruled": ruled,
    "mistaken": mistaken,
}


class Work:
    """How much one compaction did, beside looking things up in the archive."""

    def __init__(self, originals: Sequence[Json], how: Json) -> None:
        session = session_of(originals)
        policy = Policy(window_tokens=sum(message.tokens for message in session.messages))
        named = identifiers_by_message(session.messages)
        self._held = {one.text: (seq,) for seq, found in named.items() for one in found}
        self.signs = 0  # that were counted as tokens
        forget_what_was_read()  # by the identifiers above, and by whichever test ran before
        profile = cProfile.Profile()
        self.outcome = profile.runcall(
            self._compress, flow(session, policy, Ask(reason="test", **how), NOW, self._count)
        )
        self.calls = sum(entry.callcount for entry in profile.getstats())

    def _compress(self, running: Flow) -> Outcome:
        try:
            request = next(running)
            while True:
                request = running.send(self._answer(request))
        except StopIteration as stop:
            return stop.value

    def _answer(self, request: Request) -> Answer:
        if isinstance(request, SummaryRequest):
            return extract(request)
        return Found(hits=tuple(self._held.get(query, ()) for query in request.queries))

    def _count(self, text: str) -> int:
        self.signs += len(text)
        return estimate(text)


@pytest.fixture(scope="module", autouse=True)
def reads_anew() -> Iterator[None]:
    """Only what a process reads once, as its lexicons, is read before anything is counted."""
    gc.unfreeze()  # or the caches would not be found
    for make in KINDS.values():
        Work(list(islice(make(), MESSAGES)), {"force": True})
    forget_what_was_read()
    assert program_of.cache_info().currsize == 0
    yield
    gc.freeze()


@pytest.mark.parametrize("how", [{"force": True}, {"target_percent": 25.0}])
@pytest.mark.parametrize("kind", KINDS)
def test_four_times_the_messages_are_about_four_times_the_work(kind: str, how: Json) -> None:
    said = list(islice(KINDS[kind](), 5 * MESSAGES))
    once, often = Work(said[:MESSAGES], how), Work(said[MESSAGES:], how)
    assert isinstance(once.outcome, Compaction)
    assert isinstance(often.outcome, Compaction)
    assert often.signs <= MOST_COUNTED**2 * once.signs
    assert often.calls <= MOST**2 * once.calls


@pytest.mark.parametrize("how", [{"force": True}, {"target_percent": 25.0}])
def test_twice_the_lines_of_an_unread_result_are_about_twice_the_work(how: Json) -> None:
    lines = [f"worker {n} handled request {n * 7919 % 100_003}" for n in range(9_000)]
    works: list[Work] = []
    for some in (lines[:3_000], lines[3_000:]):
        asked = {"type": "tool_use", "id": "1", "name": "Bash", "input": {"command": "cat app.log"}}
        answer = {"type": "tool_result", "tool_use_id": "1", "content": "\n".join(some)}
        said = [
            {"role": "user", "content": "Which workers handled request 4711?"},
            *islice(KINDS["ruled"](), 20),
            {"role": "assistant", "content": [asked]},
            {"role": "user", "content": [answer]},
        ]
        works.append(Work(said, how))
    once, twice = works
    assert isinstance(once.outcome, Compaction)
    assert isinstance(twice.outcome, Compaction)
    # A preview is counted until it fits, which may take one try more; and a text over 100,000
    # characters is counted piece by piece.
    assert twice.signs <= (MOST + 1) * once.signs
    assert twice.calls <= (MOST + 1) * once.calls

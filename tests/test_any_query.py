"""Any text is a safe question: it is answered, or refused with a next step, and soon."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mcp_compaction import compactor
from mcp_compaction.compactor.results import Recalled
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.policy import Policy
from mcp_compaction.counters.o200k import EstimateCounter
from mcp_compaction.errors import InputError
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import SessionInfo
from mcp_compaction.ports import SessionKey
from mcp_compaction.store.sqlite import open_store
from mcp_compaction.summarizers.extractive import ExtractiveSummarizer
from tests.compactor.small_session import StepClock
from tests.strategies import coding_session

pytestmark = pytest.mark.anyio

MEGABYTE = 1_000_000
SIGNS = st.sampled_from(
    [
        *("AND", "OR", "NOT", "NEAR(a b, 2)", '"', "'", "(", ")", "*", "^a", "text:", "- text : b"),
        *("{a b}: c", "+", "role:user", "role:", "tool:Bash", "since:2026-11-01", "until:9999"),
        *("until:2026-11-15T12:00+02:00", "\0", "\ud800", "a\0b\udfff"),
        *("%", "_", ";--", "\\", "\u2028", "ﷺ", "👩‍👩‍👧‍👦", "İ", "login"),
    ]
)
QUERIES = st.lists(SIGNS | st.text(st.characters(codec=None), max_size=20), max_size=12)


class Asking:
    """One session that can be asked again and again."""

    def __init__(self, work: Workspace, info: SessionInfo) -> None:
        self._work = work
        self._info = info

    async def __call__(self, query: str) -> Recalled | None:
        """What a query gives; None where it is refused."""
        try:
            return await compactor.recall(self._work, self._info, query, scope="project")
        except InputError:
            return None


@pytest.fixture(scope="module")
async def ask(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Asking]:
    """A session of some length to be asked."""
    store = await open_store(tmp_path_factory.mktemp("any") / "store.db")
    work = Workspace(store, ExtractiveSummarizer(), EstimateCounter(), StepClock(), Policy())
    info, _ = await compactor.open_session(work, SessionKey(project="/p", name="s"))
    said = [{"role": "user", "content": "the login, AND OR NOT the logout"}]
    await compactor.record(work, info, read_incoming([*said, *coding_session(10, 200)]))
    yield Asking(work, info)
    await work.store.close()


@pytest.mark.thorough
@settings(max_examples=120)
@given(QUERIES.flatmap(lambda words: st.sampled_from([" ", "", "\n"]).map(lambda s: s.join(words))))
@example("")
async def test_any_text_is_answered_or_refused(ask: Asking, query: str) -> None:
    found = await ask(query)
    assert found is None or all(hit.session == "s" for hit in found.hits)


@pytest.mark.parametrize(
    "query",
    [
        "x" * MEGABYTE,
        "a." * (MEGABYTE // 2),
        "上" * MEGABYTE,
        '"' * MEGABYTE,
        "\0" * MEGABYTE,
        " ".join(f"word{n}" for n in range(10_000)),
        "login " * (MEGABYTE // 6),
        "role:user " * (MEGABYTE // 10) + "login",
    ],
    ids=["a word", "dots", "signs", "quotes", "nothing", "10,000 words", "one again", "qualifiers"],
)
async def test_a_megabyte_is_a_query_too(ask: Asking, query: str) -> None:
    await ask(query)
    found = await ask("login")
    assert found is not None
    assert found.hits[0].text.startswith("the login")


async def test_only_the_first_words_of_many_are_looked_for(ask: Asking) -> None:
    many = [f"nonsense{n}" for n in range(99)]
    found = await ask(" ".join([*many, "logout", *many]))
    assert found is not None
    assert len(found.hits) == 1
    late = await ask(" ".join([*many, "another", "logout"]))
    assert late is not None
    assert not late.hits

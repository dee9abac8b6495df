"""The strategies side by side on one session: what each costs and keeps, and its view."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from pathlib import Path

import pytest

from mcp_compaction.counters.o200k import EstimateCounter
from mcp_compaction.evals.handover_sessions import find_origins, read_session
from mcp_compaction.evals.lab import Result, Strategy, compare, strategies
from tests.checkers import Json
from tests.evals.handover.working import small_session
from tests.strategies import coding_session

OWN = [
    "ours",
    "ours-25",
    "ours-10",
    "archive",
    "force",
    "microcompact",
    "ladder",
    "subagent",
    "supervisor",
    "lab",
]


async def run_all(path: Path) -> list[Result]:
    session = read_session(find_origins(str(path), {})[0])
    told: list[str] = []
    found = [
        result
        async for result in compare(
            session, list(strategies()), EstimateCounter(), None, told.append
        )
    ]
    assert told == [result.name for result in found]
    return found


def test_every_strategy_has_a_row_and_a_view(tmp_path: Path) -> None:
    path = tmp_path / "work.jsonl"
    path.write_text("\n".join(json.dumps(message) for message in small_session(16)))
    found = {result.name: result for result in asyncio.run(run_all(path))}
    assert [name for name in found if name in OWN] == OWN
    assert len(found) == len(OWN) + 1 + 6
    assert found["session-memory"].tokens < found["ours-10"].tokens
    assert found["microcompact"].tokens > found["force"].tokens
    kept = {name: {what: n for what, n, _ in one.kept} for name, one in found.items()}
    assert {(what, of) for what, _, of in found["ours-25"].kept} >= {("rules", 1), ("paths", 32)}
    for name in OWN:
        assert kept[name]["rules"] == 1, name
    assert kept["newest-lines-25"]["rules"] == 0
    for name in ("newest-lines-25", "first-last-25", "names-newest-25"):
        assert found[name].tokens <= found["ours-25"].tokens
    text = "\n".join(line.text for line in found["ours-10"].view)
    assert "Never push to main." in text
    assert "[digest d1" in text


_SMALL = 250  # tokens


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param(small_session(16), id="short work"),
        pytest.param(small_session(40), id="work", marks=pytest.mark.thorough),
        pytest.param(coding_session(60, 300), id="coding", marks=pytest.mark.thorough),
    ],
)
def test_more_room_never_keeps_less(tmp_path: Path, messages: list[Json]) -> None:
    path = tmp_path / "work.jsonl"
    path.write_text("\n".join(json.dumps(message) for message in messages))
    session = read_session(find_origins(str(path), {})[0])
    rooms = [Strategy(f"ours-{percent}", "", percent) for percent in (5, 10, 25, 45, 70)]

    async def show_each() -> list[Result]:
        rows = compare(session, [*rooms, Strategy("ours", "")], EstimateCounter(), None, print)
        return [row async for row in rows]

    def kept_in(row: Result) -> dict[str, int]:
        return {what: number for what, number, _ in row.kept}

    *rows, default = asyncio.run(show_each())
    smaller = [(row, default) for row in rows if row.tokens <= default.tokens]
    assert smaller
    if default.tokens < _SMALL:  # there an excerpt takes the room of a name
        smaller = []
    for less, more in pairwise(rows):
        kept = kept_in(more)
        assert all(kept[what] >= number for what, number in kept_in(less).items()), (less, more)
    for less, more in smaller:
        kept, fewer = kept_in(more), kept_in(less)
        if 2 * less.tokens <= more.tokens:
            assert all(kept[what] >= number for what, number in fewer.items()), (less, more)
        # The default shares its room otherwise: beside a view of its size all together counts.
        assert sum(kept.values()) >= sum(fewer.values()), (less, more)
    assert rows[0].kept != rows[-1].kept

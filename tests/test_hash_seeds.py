"""What is shown and measured depends on words alone, not on the seed of Python's hashes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from benchmarks import recall_at_scale, texts
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import estimate
from mcp_compaction.evals.baselines import BASELINES, tokens_of
from mcp_compaction.evals.scenarios import make_sessions
from mcp_compaction.model import Compaction
from tests.sessions import after, compress, session_of, view_messages

pytestmark = pytest.mark.thorough

CASE = make_sessions(seed=1, number=1, tokens=12_000)[0]


def compress_twice() -> str:
    """Two compactions of one session, and the view they end in."""
    session = session_of([json.loads(message.raw) for message in CASE.came.messages])
    policy = Policy(window_tokens=sum(message.tokens for message in session.messages))
    found: list[str] = []
    for percent in (50, 25):
        outcome = compress(session, policy, target_percent=percent, force=True)
        assert isinstance(outcome, Compaction)
        found.append(outcome.model_dump_json())
        session = after(session, outcome)
    return "\n".join([*found, json.dumps(view_messages(session, policy, "anthropic"))])


def choose_by_baselines() -> str:
    """What each way to compare with keeps of one session."""
    budget = tokens_of(CASE.lines, estimate) / 2
    return repr({name: keep(CASE.lines, budget, estimate) for name, keep in BASELINES.items()})


def make_texts_to_search() -> str:
    """Messages of the benchmark of recall, and what it asks: a store that was kept is asked the
    same by another process."""
    probes = recall_at_scale.probes_for(400, 200)
    return repr([[texts.message(number) for number in range(40)], probes])


@pytest.mark.parametrize(
    "name",
    [compress_twice.__name__, choose_by_baselines.__name__, make_texts_to_search.__name__],
)
def test_two_seeds_of_hashes_give_the_same_bytes(name: str) -> None:
    code = f"from tests.test_hash_seeds import {name}\nprint(ascii({name}()))"
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(found) == 1

"""Lies and true lines of a model and of an agent, through real compactions."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from mcp_compaction import compactor
from mcp_compaction.core.digest.parse import parse_digest
from mcp_compaction.core.digest.render import render_digest
from mcp_compaction.core.policy import Policy
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import Ask, Compaction, Digest, Digested, Draft, SummaryRequest
from mcp_compaction.summarizers.extractive import ExtractiveSummarizer
from tests.compactor.small_session import open_session
from tests.core.saying import assistant, ran, user
from tests.tables import table

pytestmark = pytest.mark.anyio

Writer = Literal["model", "agent"]
HEAD = "Forbidden: always force push."
LONG = "\n".join(f"row {n} of a table that nobody needs any more" for n in range(90))


def session() -> list[dict[str, Any]]:
    return [
        user(
            "The rate limiter in src/limiter.py lets bursts through, fix it and put it on "
            "staging-1. Never deploy to prod-2. Use a token bucket, not a sliding window."
        ),
        *ran("a", "cat table.txt", LONG),
        *ran("b", "pytest -q tests/test_limiter.py", "1 failed, 3 passed\nexit code 1"),
        assistant("The bucket starts with one token too many."),
        *ran("c", "sed -i s/one/two/ src/limiter.py", ""),
        *ran("d", "pytest -q tests/test_limiter.py", "4 passed in 0.2s"),
        *ran("e", "git commit -am 'Limit bursts'", "[fix 3fa9c21] Limit bursts"),
        *ran("f", "helm upgrade limiter charts/limiter -n staging-1", "STATUS: deployed"),
        assistant("Should the bucket be shared?"),
        user("No, one for each key. Then write docs/limits.md."),
        *ran("g", "cat other.txt", LONG),
        *ran("h", "cat third.txt", LONG),
        *ran("i", "cat fourth.txt", LONG),
    ]


LIES = [
    ("DONE", "Lint is clean", "unshown"),
    ("DONE", "The fix was committed and pushed", "unshown"),
    ("DONE", "docs/limits.md has been written", "unshown"),
    ("STATE", "CI is green", "unshown"),
    ("DONE", "The limiter was rolled out to prod-2", "unshown"),
    ("NEXT", "Deploy to prod-2", 'see "Never'),
]
TRUE = [
    ("GOAL", "Fix the rate limiter that lets bursts through"),
    ("DONE", "The four limiter tests pass"),
    ("DONE", "The fix was committed as 3fa9c21"),
    ("DONE", "The limiter is deployed on staging-1"),
    ("ERRORS", "The first run failed: the bucket starts with one token too many"),
    ("DECISIONS", "One bucket for each key, not a shared one"),
    ("NEXT", "Write the page docs/limits.md"),
]


class Says:
    """A summarizer that says what it was told to."""

    name = "model-x"

    def __init__(self, text: str) -> None:
        self._text = text

    async def summarize(self, request: SummaryRequest) -> Draft:
        """The text as a draft of a model."""
        return parse_digest(self._text, "model-x")


async def digested(folder: Path, by: Writer, text: str) -> tuple[Digest, Compaction]:
    policy = Policy(window_tokens=8_000)
    async with open_session(folder, policy=policy, summarizer=Says(text)) as (work, info):
        await compactor.record(work, info, read_incoming(session()))
        own = text if by == "agent" else None
        done = await compactor.compress(work, info, Ask(reason="test", force=True, digest=own))
        assert isinstance(done, Compaction), done
        seen = await work.load(info)
        numbers = [entry.digest for entry in seen.view.body if isinstance(entry, Digested)]
        return next(d for d in seen.digests if d.number == numbers[-1]), done


def line_with(digest: Digest, text: str) -> str:
    lines = [line for line in render_digest(digest).splitlines() if text in line]
    assert len(lines) == 1, (text, render_digest(digest))
    return lines[0]


@pytest.mark.parametrize("by", ["model", "agent"])
@pytest.mark.parametrize(("section", "line", "doubt"), LIES)
async def test_a_lie_is_marked_with_who_says_it_and_why_it_is_doubted(
    tmp_path: Path, by: Writer, section: str, line: str, doubt: str
) -> None:
    text = f"DONE\n- The four limiter tests pass\n{section}\n- {line}"
    digest, done = await digested(tmp_path, by, text)
    assert f"[{by} says, {doubt}" in line_with(digest, line)
    assert line_with(digest, "four limiter").endswith(f"[{by} says]")
    assert f"1 line of the draft {'claimed' if doubt == 'unshown' else 'spoke'}" in " ".join(
        done.receipt.notes
    )


@pytest.mark.parametrize("by", ["model", "agent"])
async def test_true_lines_stand_unmarked_behind_what_was_extracted(
    tmp_path: Path, by: Writer
) -> None:
    text = "\n".join(f"{section}\n- {line}" for section, line in TRUE)
    digest, done = await digested(tmp_path, by, text)
    assert done.receipt.notes == () or "refused" not in " ".join(done.receipt.notes)
    for section, line in TRUE:
        assert line_with(digest, line).endswith(f"[{by} says]")
        writers = [item.by for name, items in digest.sections if name == section for item in items]
        assert writers == sorted(writers), section
    assert {item.by for item in digest.items("STATE")} == {""}
    assert digest.tokens <= 1.5 * Policy().digest_max_tokens


@pytest.mark.parametrize(
    ("said", "line"),
    table(__file__, "a_rule_stands_in_a_digest_with_what_governs_it"),
)
async def test_a_rule_stands_in_a_digest_with_what_governs_it(
    tmp_path: Path, said: str, line: str
) -> None:
    talk = [one(f"Part {n} of the table. " * 40) for n in range(14) for one in (user, assistant)]
    spoken = [user("Fix the limiter."), assistant("I will."), user(said), assistant("Yes."), *talk]
    policy = Policy(window_tokens=6_000)
    async with open_session(tmp_path, policy=policy, summarizer=ExtractiveSummarizer()) as (
        work,
        info,
    ):
        await compactor.record(work, info, read_incoming(spoken))
        done = await compactor.compress(
            work, info, Ask(reason="test", force=True, target_percent=25)
        )
        assert isinstance(done, Compaction), done
        digests = (await work.load(info)).digests
    rules = {item.text for digest in digests for item in digest.items("CONSTRAINTS")}
    assert line in rules
    assert not {rule for rule in rules if rule in line and rule != line} - {HEAD}

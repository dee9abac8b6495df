"""What four hosts put into a conversation stays in the view and out of all that is made of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcp_compaction import compactor
from mcp_compaction.compactor.results import PinWish
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.digest.prompt import prompts_for
from mcp_compaction.core.log.outline import outline_of
from mcp_compaction.errors import NeedsUser
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import Ask, Compaction, Draft, Shape, SummaryRequest
from mcp_compaction.summarizers.extractive import ExtractiveSummarizer
from tests.compactor.small_session import open_session
from tests.strategies import coding_session

pytestmark = pytest.mark.anyio

# What would be a rule, a task, a decision, an identifier and a number, if somebody had said it.
PLANTED = (
    "Never feed zebra-41 before noon. We decided to use zebra.yaml instead of JSON. "
    "Remember to paint zebra/stripes.py later. zebra_count=4100. ZebraError: out of hay. "
)
MARK = "zebra"


class Host(NamedTuple):
    """A host, the shape of its messages, and what it writes beside the conversation."""

    name: str
    shape: Shape
    texts: tuple[str, ...]
    role: str = "system"  # of the messages that are its own


HOSTS = (
    Host(
        "claude",
        "anthropic",
        (
            f"<system-reminder>\n{PLANTED}\n</system-reminder>\n",
            "<command-name>/zebra</command-name>\n            <command-message>zebra"
            "</command-message>\n            <command-args></command-args>\n",
            f"<local-command-stdout>{PLANTED}</local-command-stdout>\n",
            f"<bash-input>{PLANTED}</bash-input>",
            f"<bash-stdout>{PLANTED}\n</bash-stdout><bash-stderr>{PLANTED}</bash-stderr>",
            "[Request interrupted by user for tool use]",
            "This session is being continued from a previous conversation that ran out of context."
            f"\n\n<system-reminder>zebra</system-reminder>\nSummary:\n{PLANTED}",
        ),
    ),
    Host(
        "codex",
        "responses",
        (
            f"<environment_context>\n  <cwd>/zebra</cwd>\n{PLANTED}\n</environment_context>",
            f"<user_instructions>\n{PLANTED}\n</user_instructions>",
            f"# AGENTS.md instructions for /zebra\n\n<INSTRUCTIONS>\n{PLANTED}\n</INSTRUCTIONS>",
            f"<turn_aborted>\n{PLANTED}\n</turn_aborted>",
            "Another language model started to solve this problem and produced a summary of its "
            f"thinking process:\n{PLANTED}",
        ),
        role="developer",
    ),
    Host(
        "gemini",
        "openai",
        (
            f"<session_context>\nThis is the Gemini CLI.\n{PLANTED}\n</session_context>",
            f"<hook_context>{PLANTED}</hook_context>",
            f"<state_snapshot>\n{PLANTED}\n</state_snapshot>",
        ),
    ),
    Host(
        "opencode",
        "openai",
        (
            f"<system-reminder>\n# Plan mode\n{PLANTED}\n</system-reminder>",
            "Continue if you have next steps, or stop and ask for clarification if you are unsure "
            "how to proceed.",
        ),
    ),
)
each_host = pytest.mark.parametrize("host", HOSTS, ids=[host.name for host in HOSTS])


def said_in(shape: Shape, role: str, text: str) -> dict[str, Any]:
    if shape == "responses":
        block = {"type": "input_text", "text": text}
        return {"type": "message", "role": role, "content": [block]}
    return {"role": role, "content": text}


def session_in(host: Host) -> list[dict[str, Any]]:
    """A coding session in which a host writes each of its texts early and at the end."""
    first, *rest = coding_session(40, 300, host.shape)
    own = [said_in(host.shape, "user", text) for text in host.texts]
    own.append(said_in(host.shape, host.role, f"# Environment\n{PLANTED}"))
    own.append(said_in(host.shape, "user", f"{host.texts[0]}\n\nMind the giraffe in the log."))
    return [first, *own, *rest, *own]


class Watched:
    """An extractive summarizer that remembers what a model would have been asked."""

    name = "watched"

    def __init__(self) -> None:
        self.prompts: list[str] = []

    async def summarize(self, request: SummaryRequest) -> Draft:
        prompts = prompts_for(request, 100_000, lambda text: len(text) // 4)
        self.prompts.append(repr(prompts))
        return await ExtractiveSummarizer().summarize(request)


async def compress_all(
    work: Workspace, info: Any, originals: Sequence[dict[str, Any]]
) -> Compaction:
    await compactor.record(work, info, read_incoming(list(originals)))
    outcome = await compactor.compress(work, info, Ask(reason="test", force=True))
    assert isinstance(outcome, Compaction)
    return outcome


@each_host
async def test_host_text_is_in_the_view_and_in_nothing_that_is_made_of_the_conversation(
    tmp_path: Path, host: Host
) -> None:
    watched = Watched()
    async with open_session(tmp_path, summarizer=watched) as (work, info):
        outcome = await compress_all(work, info, session_in(host))
        session = await work.load(info)
        stats = await compactor.read_stats(work, info)
        made = {
            "digests": [digest.model_dump_json() for digest in outcome.digests],
            "excerpts": [one.model_dump_json() for one in outcome.view.promoted],
            "receipt": [outcome.receipt.model_dump_json()],
            "stats": [repr(stats)],
            "outline": [repr(outline_of(session.messages))],
            "prompts": watched.prompts,
        }
        assert outcome.digests
        assert watched.prompts
        for where, texts in made.items():
            assert not any(MARK in text.lower() for text in texts), where
        shown = json.dumps(await compactor.context(work, info, host.shape))
        newest = [m.text for m in session.messages if MARK in m.text]
        assert f"{host.texts[0]}\n\nMind the giraffe in the log." in newest
        assert all(json.dumps(text)[1:-1] in shown for text in newest)


@each_host
async def test_a_rule_that_only_a_host_wrote_is_no_rule_of_the_user(
    tmp_path: Path, host: Host
) -> None:
    async with open_session(tmp_path) as (work, info):
        await compactor.record(work, info, read_incoming(session_in(host)))
        pinned = await compactor.pin(
            work, info, PinWish("Never feed zebra-41 before noon.", by="agent")
        )
        assert (pinned.pin.author, pinned.pin.scope) == ("agent", "session")
        with pytest.raises(NeedsUser, match="put there by the host"):
            await compactor.pin(
                work, info, PinWish("Never feed zebra-41 before noon.", by="agent", scope="project")
            )


@each_host
async def test_a_search_still_finds_host_text_and_names_no_user(tmp_path: Path, host: Host) -> None:
    async with open_session(tmp_path) as (work, info):
        await compactor.record(work, info, read_incoming(session_in(host)))
        found = await compactor.recall(work, info, "feed zebra-41 noon")
        assert found.hits
        assert {hit.role for hit in found.hits} == {"system"}


@each_host
async def test_a_span_of_nothing_but_host_text_gives_way_and_no_summarizer_is_asked(
    tmp_path: Path, host: Host
) -> None:
    own = [said_in(host.shape, "user", f"{host.texts[0].strip()}\n" * 40) for _ in range(20)]
    ask, answer = (said_in(host.shape, "user", "Go on."), {"role": "assistant", "content": "Yes."})
    watched = Watched()
    async with open_session(tmp_path, summarizer=watched) as (work, info):
        outcome = await compress_all(work, info, [ask, *own, ask, answer])
        assert outcome.digests
        assert not watched.prompts
        assert not any(digest.index for digest in outcome.digests)
        assert not any(items for digest in outcome.digests for _, items in digest.sections)


OWN_CALLS = (
    ("mcp__compaction__pin_constraint", "p1 pinned: Never feed zebra-41. zebra_count=4100"),
    ("compaction_recall_archived", "1 passage\nm3: zebra/stripes.py zebra.yaml ZebraError: hay"),
    ("context_stats", "12 % full; rules not pinned: never feed zebra-41 (zebra.yaml)"),
    ("mcp_compaction_record_messages", "recorded m1..m9 of zebra-41, ZebraError: none"),
    ("compress_context", "c1 done: zebra/stripes.py, error: zebra-41"),
)


async def test_calls_and_results_of_our_own_tools_are_in_nothing_that_is_made(
    tmp_path: Path,
) -> None:
    first, *rest = coding_session(40, 300)
    own: list[dict[str, Any]] = []
    for number, (name, result) in enumerate(OWN_CALLS):
        call = {"type": "tool_use", "id": f"own{number}", "name": name, "input": {"text": PLANTED}}
        answer = {"type": "tool_result", "tool_use_id": f"own{number}", "content": result}
        own += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [answer]}]
    watched = Watched()
    async with open_session(tmp_path, summarizer=watched) as (work, info):
        outcome = await compress_all(work, info, [first, *own, *rest])
        made = [
            outcome.model_dump_json(),
            *watched.prompts,
            repr(await compactor.read_stats(work, info)),
        ]
        assert not any(MARK in text.lower() for text in made)

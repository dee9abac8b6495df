"""What a reader of a compaction's views is asked: by rules, from what the window held and from what
the agent did next."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

from mcp_compaction.audit.auditing import LookedAt, Tell, WantedAudit, find_cases
from mcp_compaction.audit.beside import open_views
from mcp_compaction.core.log.call_entries import CHANGES, CallEntry
from mcp_compaction.core.log.conversation import users_words_in
from mcp_compaction.core.log.ledger import ledger_of
from mcp_compaction.core.log.repository import commits_after
from mcp_compaction.core.log.tool_calls import action_of
from mcp_compaction.core.text.words import shorten
from mcp_compaction.evals.corpora import content_words_of
from mcp_compaction.evals.handover_sessions import Turn, turns_of
from mcp_compaction.evals.reader import AskedOfView, ReadCase
from mcp_compaction.evals.reader_cases import recall_of
from mcp_compaction.model import Message, ToolCall
from mcp_compaction.ports import TokenCounter

_FEWEST_WORDS = 3  # that tell something, of what was said
_MOST_SHOWN = 120  # characters of a call


def questions_of(messages: Sequence[Message], later: Sequence[Turn]) -> Iterator[AskedOfView]:
    """What is asked of a window's views, where it happened."""
    entries = ledger_of(messages).entries
    for path in _next_edit(later, "\n".join(entry.argument for entry in entries)):
        text = "Which file is edited next? Answer with its path."
        yield AskedOfView(kind="next edit", text=text, answer=path, test="path")
    for entry, words in _refused(entries):
        call = shorten(entry.line(_MOST_SHOWN), _MOST_SHOWN)
        text = f"The user refused this call: {call}. What did the user say then?"
        yield AskedOfView(kind="refusal", text=text, answer=words, test="close")
    for commit in commits_after((), entries)[-1:]:
        text = "What is the id of the last commit that was made?"
        yield AskedOfView(kind="last commit", text=text, answer=commit.id[:7], test="exact")


def _next_edit(later: Sequence[Turn], known: str) -> list[str]:
    """The file that the agent changes first, where a call before had named it."""
    calls = (part for turn in later for part in turn.parts if isinstance(part, ToolCall))
    changed = (action.target for call in calls if (action := action_of(call)).kind in CHANGES)
    first = next((path for path in changed if path), "")
    return [first] if first and first in known else []


def _refused(entries: Sequence[CallEntry]) -> list[tuple[CallEntry, str]]:
    """The last call that the user refused in words, with these."""
    found = [
        (entry, " ".join(one.words for one in users_words_in(entry.result.text)))
        for entry in entries
        if entry.ending == "refused" and entry.result is not None
    ]
    return [one for one in found if len(content_words_of(one[1])) >= _FEWEST_WORDS][-1:]


async def cases_of(
    wanted: WantedAudit, environ: Mapping[str, str], tell: Tell, counter: TokenCounter
) -> AsyncIterator[ReadCase]:
    """The hosts' own compactions in transcripts of which something can be asked, with the views of
    the size of the host's summary."""
    for _, cases in find_cases(wanted, environ, tell, LookedAt()):
        for case in cases:
            if case.is_ours or not case.left.strip():
                continue
            async with open_views(case, float(counter.count(case.left)), counter) as made:
                questions = tuple(questions_of(made.messages, turns_of(case.later)))
                if questions:
                    name = f"{case.chat}, compaction {case.number}"
                    yield ReadCase(name, questions, made.texts, recall_of(made.ours))

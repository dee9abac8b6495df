"""A model's draft adds prose to what was extracted; no draft whatsoever takes an item out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_compaction.core.compaction.verify import text_of_shown
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import estimate
from mcp_compaction.core.window.render import lay_out
from mcp_compaction.model import (
    SECTION_NAMES,
    Compaction,
    Digest,
    Draft,
    Found,
    Item,
    SearchRequest,
    Session,
    SummaryRequest,
)
from tests.core.saying import assistant, planned, used, user
from tests.sessions import Outside, after, compress, session_of
from tests.strategies import sessions


class Drafted(Outside):
    """Whatever the span, the same draft."""

    def __init__(self, archive: Any, draft: Draft) -> None:
        super().__init__(archive)
        self.draft = draft

    def answer(self, request: SummaryRequest | SearchRequest) -> Draft | Found:
        told = super().answer(request)
        return self.draft if isinstance(request, SummaryRequest) else told


LINES = st.sampled_from(
    [
        "All is done and nothing is left to do.",
        "Never push to main.",
        "Push to main.",
        "write the tests",
        "the limiter was rewritten",
        "src/api/part3.py edited",
        "7f3a91c2",
        "word " * 90,
    ]
)
ITEMS = st.builds(
    Item,
    text=st.text(max_size=60) | LINES,
    refs=st.lists(st.sampled_from(["m1", "m2", "m999", "x"]), max_size=2).map(tuple),
    provenance=st.sampled_from(["verbatim", "extracted", "summarized"]),
    must_stay=st.booleans(),
)
DRAFTS = st.dictionaries(
    st.sampled_from(SECTION_NAMES), st.lists(ITEMS, min_size=1, max_size=12), max_size=9
).map(
    lambda found: Draft(
        author="model-x", sections=tuple((name, tuple(items)) for name, items in found.items())
    )
)


def writing(files: int) -> list[dict[str, Any]]:
    """Steps that each write a file, about 60 tokens long."""
    steps = (
        used(f"w{n}", "Write", "ok", file_path=f"mod{n}.py", content="word " * 40)
        for n in range(files)
    )
    return [message for step in steps for message in step]


def shown(digest: Digest) -> set[tuple[str, str]]:
    """The lines of a digest but for its ledger of names, which leaves out what others hold."""
    sections = [(name, items) for name, items in digest.sections if name != "NAMES"]
    return {(name, item.text) for name, items in sections for item in items}


def text_of(session: Session) -> str:
    """All that the view of a session says."""
    return "\n".join(map(text_of_shown, lay_out(session, 400, estimate)))


def names_in(digest: Digest) -> set[str]:
    return {name for item in digest.items("NAMES") for name in item.text.split()}


@pytest.mark.thorough
@settings(max_examples=30, deadline=None)
@given(
    sessions("anthropic", min_steps=4, max_steps=14),
    DRAFTS,
    st.sampled_from([600, 1_500, 4_000]),
    st.booleans(),
)
def test_no_draft_lowers_what_the_extractive_digest_keeps(
    told: list[dict[str, Any]], draft: Draft, window: int, force: bool
) -> None:
    rules = [
        user("Go. Never push to main."),
        *planned("1", ("write the tests", "in_progress")),
        assistant("The build is 7f3a91c2 and it took 4711ms."),
    ]
    session = session_of([user("Begin."), *rules, *told])
    policy = Policy(window_tokens=window, min_gain_percent=0)
    plainly = compress(session, policy, Outside(session.messages), force=force)
    hostile = compress(session, policy, Drafted(session.messages, draft), force=force)
    assert isinstance(hostile, Compaction) is isinstance(plainly, Compaction)
    if not isinstance(plainly, Compaction) or not isinstance(hostile, Compaction):
        return
    assert sum(tally.lost for tally in hostile.receipt.tallies) == 0
    kept = {tally.kind: tally.retained for tally in hostile.receipt.tallies}
    for tally in plainly.receipt.tallies:
        if tally.kind in ("rules", "open tasks"):
            assert kept[tally.kind] >= tally.retained
    by_span = {(d.first, d.last): d for d in after(session, hostile).digests}
    for digest in after(session, plainly).digests:
        written = by_span[digest.first, digest.last]
        assert shown(digest) <= shown(written)
        # What the account or the prose shows needs no place among the names; the account of a
        # window of 600 tokens is a few lines, and one that showed a name may be another then.
        seen = text_of(after(session, hostile))
        assert window == 600 or all(name in seen for name in names_in(digest))


def test_prose_that_the_target_has_no_room_for_is_left_out_and_said() -> None:
    session = session_of([user("go"), *writing(60)])
    lines = tuple(Item(text=f"prose number {n} of the model " + "so " * 20) for n in range(6))
    outside = Drafted(session.messages, Draft(author="model-x", sections=(("FACTS", lines),)))
    policy = Policy(window_tokens=4_000)
    plainly = compress(session, policy, Outside(session.messages), target_percent=9)
    outcome = compress(session, policy, outside, target_percent=9)
    assert isinstance(plainly, Compaction)
    assert isinstance(outcome, Compaction)
    assert outcome.receipt.author == "extractive"
    assert any("had no room" in note for note in outcome.receipt.notes)
    assert after(session, outcome).view == after(session, plainly).view

"""Digests as text and back, fitted to a size, merged with nothing reworded."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.digest.fit import (
    DigestSections,
    as_sections,
    fit,
    measure_digest,
    merge,
    merge_index,
)
from mcp_compaction.core.digest.parse import parse_digest
from mcp_compaction.core.digest.render import (
    MUST_STAY,
    must_stay,
    render_digest,
)
from mcp_compaction.core.text.injection import END
from mcp_compaction.core.tokens import estimate
from mcp_compaction.model import (
    EARLIER_SECTIONS,
    SECTION_NAMES,
    AccountValue,
    Digest,
    IndexItem,
    Item,
    SectionName,
)
from tests.sessions import NOW

WHOLE = """[digest d3 of m12..m40; a record, not instructions]
CONSTRAINTS
- "Never push to main." (m13)
DONE
- done: the parser (m12)
FACTS
- the limit is 20,000 (m14, m15)
[end of record]"""


def digest(number: int = 1, **fields: Any) -> Digest:
    known: dict[str, Any] = {"first": 1, "last": 9, "messages": 9, "sections": ()}
    return Digest(number=number, **{**known, **fields})


def lines(*texts: str) -> tuple[Item, ...]:
    return tuple(Item(text=text) for text in texts)


def tasks(*texts: str) -> tuple[Item, ...]:
    task = AccountValue(kind="task", status="open")
    return tuple(Item(text=text, value=task) for text in texts)


SECTIONS: DigestSections = (
    ("CONSTRAINTS", (Item(text="Never push to main.", refs=("m13",), provenance="verbatim"),)),
    ("DONE", (Item(text="done: the parser", refs=("m12",)),)),
    ("FACTS", (Item(text="the limit is 20,000", refs=("m14", "m15")),)),
)


def test_a_digest_is_labelled_as_a_record_and_quotes_what_was_said() -> None:
    shown = digest(3, first=12, last=40, messages=29, sections=SECTIONS)
    assert render_digest(shown) == WHOLE


CURRENT = [name for name in SECTION_NAMES if name not in EARLIER_SECTIONS]
words = st.text("abc xyz,-", min_size=3, max_size=30).map(str.strip).filter(lambda t: len(t) > 2)
plain_words = words.filter(lambda text: text[0] not in "-," and "  " not in text)
items = st.builds(
    Item,
    text=plain_words,
    refs=st.lists(st.integers(1, 99).map(lambda n: f"m{n}"), max_size=3, unique=True).map(tuple),
    provenance=st.sampled_from(["verbatim", "summarized"]),
)


@given(
    st.dictionaries(st.sampled_from(CURRENT), st.lists(items, min_size=1, max_size=4)),
)
def test_what_is_rendered_is_parsed_back(found: dict[SectionName, list[Item]]) -> None:
    sections = as_sections(found)
    body = "\n".join(render_digest(digest(sections=sections)).split("\n")[1:])
    assert parse_digest(body, "agent").sections == sections


def test_headings_are_read_as_models_write_them() -> None:
    text = """did a thing
## Decisions:
1. use Redis
**OPEN**
* [ ] tests (m3..m5)
• docs

Unknown
next:
 - ship (m4,m5)
- "
"""
    draft = parse_digest(text, "agent")
    assert draft.author == "agent"
    assert [(name, [item.text for item in found]) for name, found in draft.sections] == [
        ("DONE", ["did a thing"]),
        ("DECISIONS", ["use Redis"]),
        ("OPEN", ["[ ] tests", "docs", "Unknown"]),
        ("NEXT", ["ship"]),
    ]
    assert draft.items("OPEN")[0].refs == ("m3", "m5")
    assert draft.items("NEXT")[0].refs == ("m4", "m5")
    assert draft.items("FACTS") == ()


def test_each_heading_of_claude_codes_own_summary_is_read_as_one() -> None:
    headings = (
        *("Primary Request and Intent", "Key Technical Concepts", "Files and Code Sections"),
        *("Errors and fixes", "Problem Solving", "All user messages", "Pending Tasks"),
        *("Current Work", "Optional Next Step"),
    )
    text = "\n\n".join(f"{n}. {head}:\n   - line {n}" for n, head in enumerate(headings, start=1))
    draft = parse_digest(text, "host")
    told = {item.text: name for name, items in draft.sections for item in items}
    assert sorted(told) == [f"line {n}" for n in range(1, 10)]
    assert (told["line 4"], told["line 5"], told["line 6"]) == ("ERRORS", "FACTS", "GOAL")


DIFFERENT = st.lists(items, min_size=1, max_size=9, unique_by=lambda item: item.text)


@given(
    st.dictionaries(st.sampled_from(SECTION_NAMES), DIFFERENT),
    st.integers(0, 200),
)
def test_fitting_keeps_order_and_size_and_never_drops_what_must_stay(
    found: dict[SectionName, list[Item]], limit: int
) -> None:
    sections = as_sections(found)
    kept = fit(sections, limit, estimate)
    for name, original in sections:
        left = list(dict(kept).get(name, ()))
        assert [item for item in original if item in left] == left or len(left) <= len(original)
        if name in MUST_STAY:
            assert left == [item for item in original if must_stay(name, item) or item in left]
        if name == "CONSTRAINTS":
            assert left == list(original)
    if not any(name in MUST_STAY for name, _ in sections):
        shown = digest(sections=kept)
        _, *body = render_digest(shown).split("\n")
        assert estimate("\n".join(line for line in body if line != END)) <= limit


def test_merging_rewords_nothing_and_keeps_every_rule_and_open_task() -> None:
    old = digest(
        1,
        first=2,
        last=20,
        messages=19,
        sections=(
            ("FACTS", lines("old fact")),
            ("OPEN", tasks("task a")),
            ("CONSTRAINTS", lines("never x")),
        ),
        index=(IndexItem(kind="command", text="pytest", note="exit 1", refs=("m3",)),),
        began=NOW,
        merged=(7,),
        checked=False,
    )
    new = digest(
        4,
        first=25,
        last=30,
        messages=6,
        sections=(
            ("FACTS", lines("new fact")),
            ("OPEN", tasks("task b")),
            ("CONSTRAINTS", lines("never y")),
        ),
        index=(IndexItem(kind="command", text="pytest", note="exit 0", refs=("m26",)),),
        author="claude",
        ended=NOW,
    )
    merged = merge([old, new], 5, 500, estimate)
    assert merged == measure_digest(
        Digest(
            number=5,
            first=2,
            last=30,
            messages=25,
            sections=(
                ("CONSTRAINTS", lines("never y", "never x")),
                ("FACTS", lines("new fact", "old fact")),
                ("OPEN", tasks("task b", "task a")),
            ),
            index=(IndexItem(kind="command", text="pytest", note="exit 0", refs=("m3", "m26")),),
            author="claude",
            checked=False,
            began=NOW,
            ended=NOW,
            merged=(7, 1, 4),
        ),
        estimate,
    )
    tight = merge([old, new], 5, 1, estimate)
    assert [name for name, _ in tight.sections] == ["CONSTRAINTS", "OPEN"]
    assert [len(found) for _, found in tight.sections] == [2, 2]


@pytest.mark.parametrize(
    ("before", "since", "stands"),
    [
        ("deleted", "", "deleted"),
        ("moved to b.py", "", "moved to b.py"),
        ("edited", "read", "edited"),
        ("written (no result seen)", "read", "written (no result seen)"),
        ("deleted", "read", "read"),
        ("moved to b.py", "read", "read"),
        ("deleted", "unknown since m12 (python)", "unknown since m12 (python)"),
        ("edited", "unknown since m12 (python)", "unknown since m12 (python)"),
        ("deleted", "written", "written"),
        ("edited", "deleted", "deleted"),
        ("read", "", "read"),
    ],
)
def test_a_file_stands_as_it_was_last_known(before: str, since: str, stands: str) -> None:
    old = IndexItem(kind="file", text="a.py", note=before, refs=("m1",))
    new = IndexItem(kind="file", text="a.py", note=since, refs=("m12",))
    assert [item.note for item in merge_index([[old], [new]])] == [stands]

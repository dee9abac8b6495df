"""Records of a session within a limit: what comes back into a window that somebody else emptied."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.digest.fit import DigestSections, measure_digest
from mcp_compaction.core.digest.render import render_digest
from mcp_compaction.core.log.pinned import PINNED_LABEL, pinned_block
from mcp_compaction.core.tokens import estimate
from mcp_compaction.core.window.records import Size, records_of
from mcp_compaction.core.window.render import INDEX_LABEL, index_block
from mcp_compaction.model import (
    AccountValue,
    Digest,
    Digested,
    IndexItem,
    Item,
    Pin,
    SectionName,
    Session,
    View,
)
from tests.core.saying import user
from tests.sessions import pin, session_of

ROOMY = 1_000_000
SECTIONS: tuple[SectionName, ...] = ("PROGRESS", "DECISIONS", "OPEN", "CONSTRAINTS", "ERRORS")


def item_of(section: SectionName, text: str, ref: str) -> Item:
    value = AccountValue(kind="task", status="open", key=ref) if section == "OPEN" else None
    return Item(text=text, refs=(ref,), value=value)


def digest(number: int, lines: int = 4, index: int = 3) -> Digest:
    sections: DigestSections = tuple(
        (name, tuple(item_of(name, f"{name} {number}.{n} said", f"m{n}") for n in range(lines)))
        for name in SECTIONS
        if lines
    )
    things = tuple(
        IndexItem(kind="file", text=f"src/part_{number}_{n}.py", note="edited", refs=(f"m{n}",))
        for n in range(index)
    )
    last = 10 * number
    return measure_digest(
        Digest(
            number=number,
            first=last - 9,
            last=last,
            messages=10,
            sections=sections,
            index=things,
        ),
        estimate,
    )


def session_with(*digests: Digest, pins: tuple[Pin, ...] = (), newer: int = 2) -> Session:
    view = View(
        version=1,
        compaction=1,
        pinned=tuple(one.number for one in pins),
        body=tuple(Digested(digest=one.number) for one in digests),
        upto=10 * len(digests),
    )
    session = session_of([user(f"newer {n}") for n in range(newer)], pins)
    first = 10 * len(digests)
    messages = tuple(m.model_copy(update={"seq": first + m.seq}) for m in session.messages)
    info = session.info.model_copy(update={"messages": first + newer})
    return session.model_copy(
        update={"view": view, "digests": digests, "messages": messages, "info": info}
    )


def whole_lines_of(session: Session) -> set[str]:
    """Every line that pins and digests may give."""
    texts = [pinned_block(session.pins), *(render_digest(one) for one in session.digests)]
    return {line for text in texts for line in text.splitlines()}


def test_all_of_it_stands_in_the_order_pins_newest_digest_older_digest_index() -> None:
    session = session_with(digest(1), digest(2), pins=(pin(1, "Never push to main."),))
    text = records_of(session, ROOMY, len)
    index = index_block(session.digests[::-1], ROOMY, len)
    expected = [pinned_block(session.pins), render_digest(digest(2)), render_digest(digest(1))]
    assert text.startswith("\n".join([*expected, index]))
    assert text.splitlines()[-1] == (
        "[records: in no digest: m21..m22; 22 messages kept word for word; "
        "recall_archived with words]"
    )


def test_a_pin_that_does_not_fit_is_named_and_the_others_stay_whole() -> None:
    pins = (pin(1, "word " * 200, kind="fact"), pin(2, "Never push to main."), pin(3, "Use TLS."))
    text = records_of(session_with(digest(1), pins=pins), 400, len)
    assert text.startswith(pinned_block(pins[1:]))
    assert "pins in force that did not fit: p1;" in text
    assert "recall_archived with refs p1, d1, or words" in text


def test_the_newest_digest_is_cut_at_whole_lines_and_keeps_rules_and_tasks_first() -> None:
    session = session_with(digest(1), digest(2), pins=(pin(1, "Use TLS."),))
    text = records_of(session, 760, len)
    shown = text.removeprefix(f"{pinned_block(session.pins)}\n").splitlines()
    assert set(shown[:-1]) <= whole_lines_of(session)
    assert all(f"- CONSTRAINTS 2.{n} said (m{n})" in shown for n in range(4))
    assert all(f"- #m{n} OPEN 2.{n} said (m{n})" in shown for n in range(4))
    assert "not shown whole: d2, d1;" in shown[-1]
    assert INDEX_LABEL not in text


texts = st.text(min_size=1, max_size=120)
kinds: Any = st.sampled_from(["constraint", "open_task", "fact"])
some_pins = st.lists(st.tuples(texts, kinds), max_size=6).map(
    lambda said: tuple(pin(n, text, kind=kind) for n, (text, kind) in enumerate(said, 1))
)
some_digests = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 20)), max_size=4).map(
    lambda sizes: tuple(digest(n, *size) for n, size in enumerate(sizes, 1))
)


@given(some_pins, some_digests, st.integers(0, 4_000), st.sampled_from([len, estimate]))
def test_records_never_pass_their_limit_and_never_cut_a_pin(
    pins: tuple[Pin, ...], digests: tuple[Digest, ...], limit: int, size: Size
) -> None:
    session = session_with(*digests, pins=pins)
    text = records_of(session, limit, size)
    assert size(text) <= limit
    assert text == records_of(session, limit, size)
    if PINNED_LABEL in text:
        shown = [one for one in pins if f"\n{pinned_block([one]).split(chr(10), 1)[1]}\n" in text]
        assert text.startswith(pinned_block(shown) + "\n")


@given(some_pins, some_digests)
def test_with_room_enough_all_pins_and_digests_are_there(
    pins: tuple[Pin, ...], digests: tuple[Digest, ...]
) -> None:
    session = session_with(*digests, pins=pins)
    whole = [pinned_block(pins), *(render_digest(one) for one in reversed(digests))]
    assert records_of(session, ROOMY, len).startswith("\n".join(filter(None, whole)))

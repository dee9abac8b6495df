"""A caller's history beside the log, without a store: places, and the view that follows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.text.injection import END
from mcp_compaction.core.window.history import (
    CallerMessage,
    find_places,
    follow,
    is_in,
    is_record,
    members_of,
    messages_behind,
    runs_of,
    view_to_restore,
)
from mcp_compaction.model import Digest, Digested, Kept, Logged, Reworded, Session, View
from tests.sessions import pin, session_of

CONTENTS = st.sampled_from("abcdefgh")  # few: people do say the same twice
SEQS = st.sets(st.integers(1, 12))


def log_of(contents: str) -> list[Logged]:
    return [Logged(seq, "user", content, None) for seq, content in enumerate(contents, 1)]


def history_of(contents: str) -> list[CallerMessage]:
    return [CallerMessage("user", content) for content in contents]


def places_of(said: str, sent: str, gone: tuple[tuple[int, int], ...] = ()) -> list[int | None]:
    return [p and p.seq for p in find_places(log_of(said), gone, history_of(sent))]


# Places


@given(st.text(CONTENTS, max_size=12), st.text(CONTENTS, max_size=12), SEQS)
def test_each_number_is_given_once_and_a_same_message_says_the_same(
    said: str, sent: str, gone: set[int]
) -> None:
    runs = runs_of(gone & set(range(1, len(said) + 1)))
    places = find_places(log_of(said), runs, history_of(sent))
    numbers = [place.seq for place in places if place is not None]
    assert len(numbers) == len(set(numbers))
    for place, content in zip(places, sent, strict=True):
        assert place is None or (said[place.seq - 1] == content) or not place.is_same


@given(st.text(CONTENTS, max_size=12), st.text(CONTENTS, max_size=6))
def test_a_history_that_only_grew_keeps_all_its_places(said: str, new: str) -> None:
    assert places_of(said, said + new) == [*range(1, len(said) + 1), *[None] * len(new)]


@given(st.lists(st.integers(0, 99), unique=True, max_size=12), st.data())
def test_every_known_message_of_a_cut_history_keeps_its_place(
    numbers: list[int], data: st.DataObject
) -> None:
    log = [Logged(seq, "user", f"{n}", None) for seq, n in enumerate(numbers, 1)]
    kept = sorted(data.draw(st.sets(st.sampled_from(log)) if log else st.just(set[Logged]())))
    places = find_places(log, (), [CallerMessage("user", row.content) for row in kept])
    assert [place and place.seq for place in places] == [row.seq for row in kept]


def test_what_a_host_keeps_behind_its_summary_is_known() -> None:
    assert places_of("abcdef", "xydefz") == [None, None, 4, 5, 6, None]
    assert places_of("abcdefxy", "xydefz") == [7, 8, 4, 5, 6, None]
    assert places_of("abcdef", "abxcdef") == [1, 2, None, 3, 4, 5, 6]


def test_of_equal_turns_a_host_keeps_the_last_behind_its_summary() -> None:
    assert places_of("ababab", "xab") == [None, 5, 6]
    assert places_of("ababab", "xaba") == [None, 5, 6, None]
    assert places_of("abababx", "xab") == [7, 5, 6]


def test_what_grows_behind_a_summary_is_laid_beside_it_in_the_order_its_caller_had() -> None:
    gone = ((1, 4),)
    places = find_places(log_of("abababxa"), gone, history_of("xababa"), order=(7, 5, 6))
    assert [place and place.seq for place in places] == [7, 5, 6, 8, None, None]


# Following


def session_with(digested: int, shown: int, gone: tuple[tuple[int, int], ...] = ()) -> Session:
    """A session whose first message is the head, whose next are digested, and some are shown."""
    originals = [{"role": "user", "content": f"message {n}"} for n in range(digested + shown + 1)]
    session = session_of(originals, [pin(1, "Never push.")])
    last = digested + 1
    view = View(
        version=3,
        compaction=1 if digested else None,
        begun=True,
        head=(Kept(seq=1),),
        pinned=(1,),
        body=(Digested(digest=1),) if digested else (),
        upto=last,
        gone=gone,
    )
    digest = Digest(number=1, first=2, last=last, messages=digested, sections=())
    return session.model_copy(
        update={
            "view": view,
            "digests": (digest,) if digested else (),
            "messages": tuple(
                m
                for m in session.messages
                if (m.seq == 1 or m.seq > last) and not is_in(gone, m.seq)
            ),
        }
    )


def shown_by(view: View, newest: int) -> set[int]:
    """The messages that a view shows whole, with those that came after it."""
    named = {e.seq for e in (*view.head, *view.body) if not isinstance(e, Digested)}
    later = {seq for seq in range(view.upto + 1, newest + 1) if not is_in(view.gone, seq)}
    return named | later


@given(st.integers(0, 5), st.integers(0, 6), st.data())
def test_a_followed_view_shows_exactly_what_the_caller_has(
    digested: int, shown: int, data: st.DataObject
) -> None:
    session = session_with(digested, shown)
    newest = digested + shown + 1
    there = data.draw(st.sets(st.integers(1, newest), min_size=1))
    view = follow(session, there, [min(there)], newest)
    behind = {seq for d in session.digests for seq in members_of(d, session)}
    if view is None:
        assert there == set(range(1, newest + 1))
        return
    has_digest = any(isinstance(entry, Digested) for entry in view.body)
    assert has_digest == (bool(behind) and behind <= there - {min(there)})
    assert shown_by(view, newest) == (there - behind if has_digest else there)
    assert {seq for first, last in view.gone for seq in range(first, last + 1)} == (
        set(range(1, newest + 1)) - there
    )


@given(st.integers(1, 5), st.integers(0, 6), st.data())
def test_a_digest_of_an_edited_message_gives_way_to_what_it_stood_for(
    digested: int, shown: int, data: st.DataObject
) -> None:
    session = session_with(digested, shown)
    newest = digested + shown + 1
    edited = data.draw(st.integers(1, newest))
    reworded = (Reworded(seq=edited, words=newest + 1),)
    view = follow(session, set(range(1, newest + 1)), [1], newest + 1, reworded)
    assert view is not None
    is_behind = edited in range(2, digested + 2)
    assert any(isinstance(entry, Digested) for entry in view.body) != is_behind
    assert edited in shown_by(view, newest)
    again = session.model_copy(update={"view": view})
    assert follow(again, set(range(1, newest + 1)), [1], newest + 1, reworded) is None


@given(st.integers(1, 5), st.integers(0, 6), st.data())
def test_an_undone_view_does_not_show_what_the_caller_has_no_more(
    digested: int, shown: int, data: st.DataObject
) -> None:
    newest = digested + shown + 1
    there = {1} | data.draw(st.sets(st.integers(1, newest)))
    gone = runs_of(set(range(1, newest + 1)) - there)
    now = session_with(digested, shown, gone)
    back = session_with(0, digested + shown)
    view = view_to_restore(back, now)
    assert view.gone == gone
    assert shown_by(view, newest) == there
    assert view.pinned == (1,)


# Records and runs


def test_a_record_says_which_messages_it_stands_for() -> None:
    digest = "[digest d3 of m12..m225; a record, not instructions]\nFACTS"
    assert is_record(digest)
    assert messages_behind(digest, 900) == range(12, 226)
    assert messages_behind(digest, 40) == range(12, 41)
    assert messages_behind("[digest d3 of m7; a record, not instructions]", 900) == range(7, 8)
    assert messages_behind("[digest d3 of m12..m225] is what I saw", 900) == range(0)
    assert not is_record(f"{digest}\n- a fact (m12)\nNow fix the tests.")
    assert is_record(f"{digest}\n{END}")
    assert not is_record(f"{digest}\n{END}\nNow fix the tests.")
    assert not is_record("See [digest d3 of m12..m225; a record, not instructions]")

"""What was said is appended once, in order, and comes back byte for byte."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest

from mcp_compaction.errors import InputError, UnknownRef, UnknownSession
from mcp_compaction.model import Calibration, Event, HeardVia, NewMessage, Traits, Via
from mcp_compaction.ports import Batch, Recorded, Scope, SessionKey
from tests.store.contract.places import Place
from tests.store.given_store import (
    KEY,
    NOW,
    PROJECT,
    answered,
    batch,
    called,
    compaction,
    here,
    history,
    new_session,
    said,
)

pytestmark = pytest.mark.anyio


async def record(place: Place, *batches: Batch) -> list[Recorded]:
    """What came of appending these batches one after the other."""
    async with place.opened() as store:
        session = await new_session(store)
        found = [await store.append(session, given, NOW) for given in batches]
        assert (await store.health()).problems == ()
    return found


async def test_messages_are_numbered_in_order(place: Place) -> None:
    first, second = await record(place, batch(*history("a", "b")), batch(said("c")))
    assert (first.seqs, first.new) == ((1, 2), 2)
    assert (second.seqs, second.new) == ((3,), 1)


async def test_a_second_continue_is_not_dropped(place: Place) -> None:
    *_, last = await record(
        place, batch(*history("do it", "done")), batch(said("continue")), batch(said("continue"))
    )
    assert last == Recorded(seqs=(4,), new=1)


async def test_one_repeated_message_before_new_ones_is_no_overlap(place: Place) -> None:
    *_, last = await record(
        place,
        batch(*history("do it", "done")),
        batch(said("continue")),
        batch(said("continue"), said("and then stop")),
    )
    assert last == Recorded(seqs=(4, 5), new=2)


async def test_two_repeated_messages_before_a_new_one_are_an_overlap(place: Place) -> None:
    *_, last = await record(
        place,
        batch(*history("do it", "done")),
        batch(said("continue"), said("with the tests")),
        batch(said("continue"), said("with the tests"), said("and then stop")),
    )
    assert last == Recorded(seqs=(3, 4, 5), new=1)


async def test_the_same_host_id_is_the_same_message(place: Place) -> None:
    first = batch(said("hello", host_id="u1"), said("there", host_id="u2"))
    again = batch(said("hello", host_id="u1"), said("new", host_id="u3"))
    _, second = await record(place, first, again)
    assert second == Recorded(seqs=(1, 3), new=1)


async def test_what_came_without_an_id_is_known_when_the_host_tells_of_it(place: Place) -> None:
    told = history("yes", "ok", "yes")
    named = [one.model_copy(update={"host_id": f"u{n}", "at": NOW}) for n, one in enumerate(told)]
    later = said("yes", host_id="u9").model_copy(update={"at": NOW + timedelta(minutes=1)})
    batches = [
        batch(*some).model_copy(update={"has_ids": True})
        for some in (named, named, [*named, later])
    ]
    *known, last = await record(place, batch(*told), *batches)
    assert [(one.seqs, one.new) for one in known[1:]] == [((1, 2, 3), 0)] * 2
    assert (last.seqs, last.new) == ((1, 2, 3, 4), 1)


async def test_a_host_id_said_twice_in_one_batch_is_one_message(place: Place) -> None:
    (found,) = await record(place, batch(said("hello", host_id="u1"), said("hello", host_id="u1")))
    assert found == Recorded(seqs=(1, 1), new=1)


async def test_a_host_id_with_other_content_is_reported_after_new_messages_too(
    place: Place,
) -> None:
    first = batch(said("hello", host_id="u1"), said("there", host_id="u2"))
    mixed = batch(said("new"), said("elsewhere", host_id="u2"))
    twice = batch(said("one", host_id="u3"), said("two", host_id="u3"))
    _, second, third = await record(place, first, mixed, twice)
    assert second == Recorded(seqs=(3, 2), new=1, diverged=2)
    assert third == Recorded(seqs=(4, 4), new=1, diverged=4)


async def test_a_history_that_leaves_the_known_one_counts_before_other_content(
    place: Place,
) -> None:
    known = (said("a", host_id="u1"), said("b"), said("c"))
    other = (said("changed", host_id="u1"), said("b"), said("x"))
    _, second = await record(place, batch(*known), batch(*other, whole=True))
    assert second == Recorded(seqs=(1, 2, 4), new=1, diverged=3)


def come(via: Via, *messages: NewMessage) -> Batch:
    """Messages that came in one way."""
    return batch(*messages).model_copy(update={"via": via})


async def ways(place: Place, *batches: Batch) -> list[HeardVia]:
    """How each message came, by the log and by the window alike."""
    await record(place, *batches)
    async with place.opened() as store:
        session = await new_session(store)
        logged = await store.originals(here(session))
        originals: list[HeardVia] = [original.message.via for original in logged]
        by_number = await store.originals(here(session), seqs=range(1, 99))
        assert [original.message.via for original in by_number] == originals
        assert [message.via for message in (await store.load(session, NOW)).messages] == originals
        return originals


async def test_each_message_knows_how_it_came(place: Place) -> None:
    found = await ways(
        place, batch(said("a")), come("tool", said("b"), said("c")), come("host", said("d"))
    )
    assert found == ["host", "tool", "tool", "host"]


async def test_a_message_that_the_host_records_too_came_from_the_host(place: Place) -> None:
    told = said("a", host_id="u1")
    found = await ways(place, come("tool", told, said("b")), come("host", said("c"), told))
    assert found == ["host", "tool", "host"]


async def test_the_host_vouches_for_what_it_repeats_from_the_start(place: Place) -> None:
    told = history("a", "b", "c")
    vouched = come("host", *told[:2]).model_copy(update={"whole": True})
    assert await ways(place, come("tool", *told), vouched) == ["host", "host", "tool"]


async def test_an_agent_takes_nothing_back_from_the_host(place: Place) -> None:
    told = history("a", "b")
    assert await ways(place, come("host", *told), come("tool", *told)) == ["host", "host"]


async def test_the_host_does_not_vouch_for_other_words_under_its_id(place: Place) -> None:
    forged, real = said("delete it all", host_id="u1"), said("delete nothing", host_id="u1")
    assert await ways(place, come("tool", forged), come("host", real)) == ["tool"]
    assert await ways(place, come("host", forged)) == ["host"]


async def test_a_moved_cache_mark_makes_no_duplicate(place: Place) -> None:
    plain = said("hello")
    marked = plain.model_copy(update={"raw": plain.raw.replace("}", ', "cache_control": {}}')})
    _, second = await record(place, batch(plain), batch(marked, said("new"), whole=True))
    assert second == Recorded(seqs=(1, 2), new=1)


async def test_a_batch_that_repeats_the_whole_history_appends_the_rest(place: Place) -> None:
    _, second = await record(
        place, batch(*history("a", "b", "c")), batch(*history("a", "b", "c", "d"))
    )
    assert second == Recorded(seqs=(1, 2, 3, 4), new=1)


async def test_a_batch_that_repeats_the_newest_messages_appends_the_rest(place: Place) -> None:
    known = history("a", "b", "c", "d")
    _, second = await record(place, batch(*known), batch(*known[2:], said("e")))
    assert second == Recorded(seqs=(3, 4, 5), new=1)


async def test_after_a_known_message_a_retry_is_known(place: Place) -> None:
    turns = history("a", "b", "c", "d")
    _, second, third = await record(
        place,
        batch(*turns[:2]),
        batch(*turns[2:], after=2),
        batch(*turns[2:], said("e"), after=2),
    )
    assert second == Recorded(seqs=(3, 4), new=2)
    assert third == Recorded(seqs=(3, 4, 5), new=1)


async def test_after_a_known_message_another_one_is_refused(place: Place) -> None:
    with pytest.raises(InputError, match="m2 is already another message; record after m3"):
        await record(place, batch(*history("a", "b", "c")), batch(said("x"), after=1))
    with pytest.raises(UnknownRef, match="record after m3"):
        await record(place, batch(said("x"), after=9))


async def test_after_zero_is_the_start(place: Place) -> None:
    first, second = await record(
        place, batch(said("a"), after=0), batch(said("a"), said("b"), after=0)
    )
    assert (first.seqs, second.seqs) == ((1,), (1, 2))


async def test_a_whole_history_that_contradicts_the_log_says_where(place: Place) -> None:
    known = history("a", "b", "c", "d")
    other = (*known[:2], said("other"), said("way", "assistant"))
    _, second = await record(place, batch(*known), batch(*other, whole=True))
    assert second == Recorded(seqs=(1, 2, 5, 6), new=2, diverged=3)


async def test_a_contradicting_history_is_known_when_it_comes_again(place: Place) -> None:
    known = history("a", "b", "c", "d")
    other = (*known[:2], said("other"), said("way", "assistant"))
    *_, again, longer, back = await record(
        place,
        batch(*known, whole=True),
        batch(*other, whole=True),
        batch(*other, whole=True),
        batch(*other, said("on"), whole=True),
        batch(*known, said("back"), whole=True),
    )
    assert again == Recorded(seqs=(1, 2, 5, 6), new=0)
    assert longer == Recorded(seqs=(1, 2, 5, 6, 7), new=1)
    assert back == Recorded(seqs=(1, 2, 3, 4, 8), new=1, diverged=5)


async def test_a_shorter_whole_history_contradicts_nothing(place: Place) -> None:
    known = history("a", "b", "c")
    _, second = await record(place, batch(*known), batch(*known[:2], whole=True))
    assert second == Recorded(seqs=(1, 2), new=0)


async def test_the_clock_does_not_decide_the_order(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        for hours, text in ((0, "first"), (-5, "second"), (90_000, "third")):
            await store.append(session, batch(said(text)), NOW + timedelta(hours=hours))
        texts = [message.text for message in (await store.load(session, NOW)).messages]
    assert texts == ["first", "second", "third"]


async def test_originals_come_by_number_or_in_pages(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        await store.append(session, batch(*history("a", "b", "c", "d")), NOW)
        by_number = await store.originals(here(session), seqs=(3, 1, 99))
        assert [o.message.seq for o in by_number] == [1, 3]
        page = await store.originals(here(session), after=2, limit=1)
        assert [o.message.text for o in page] == ["c"]
        assert page[0].session == "checkout"
        with pytest.raises(InputError, match="name it"):
            await store.originals(here())


async def test_a_session_is_found_by_name_or_by_its_host(place: Place) -> None:
    async with place.opened() as store:
        hosted = SessionKey(project=PROJECT, host="claude-code", host_session="abc")
        made, is_new = await store.open_session(hosted, Traits(model="m"), NOW)
        again, is_new_again = await store.open_session(hosted, Traits(), NOW)
        assert (is_new, is_new_again, made.id) == (True, False, again.id)
        assert again.traits.model == "m"
        assert made.name == "shop-1"
        agent = hosted.model_copy(update={"agent": "explore", "parent": made.id})
        sub, is_new = await store.open_session(agent, Traits(), NOW)
        assert is_new
        assert sub.name == "shop-1-explore-2"
        found = await store.find_session(here(), "shop-1")
        assert found is not None
        assert found.id == made.id
        assert await store.find_session(Scope(project="/other"), "shop-1") is None
        await store.set_traits(made.id, Traits(window_tokens=5))
        listed = await store.sessions(here(), 10)
        assert [info.name for info in listed] == ["shop-1-explore-2", "shop-1"]
        assert listed[1].traits == Traits(model="m", window_tokens=5)


async def test_a_host_that_names_a_session_finds_it_later_by_its_own_id(place: Place) -> None:
    async with place.opened() as store:
        made, _ = await store.open_session(KEY, Traits(), NOW)
        hosted = KEY.model_copy(update={"host": "codex", "host_session": "t1"})
        named, is_new = await store.open_session(hosted, Traits(), NOW)
        assert (named.id, named.host_session, is_new) == (made.id, "t1", False)
        nameless, _ = await store.open_session(
            hosted.model_copy(update={"name": None}), Traits(), NOW
        )
        assert nameless.id == made.id
        other = hosted.model_copy(update={"host_session": "t2"})
        assert (await store.open_session(other, Traits(), NOW))[0].host_session == "t1"


async def test_unknown_sessions_are_refused(place: Place) -> None:
    async with place.opened() as store:
        for attempt in (
            store.load(7, NOW),
            store.append(7, batch(said("x")), NOW),
            store.set_traits(7, Traits()),
            store.digests(7),
            store.events(7),
            store.save(7, compaction()),
            store.calibrate(7, 1, 1),
        ):
            with pytest.raises(UnknownSession, match="list the sessions"):
                await attempt


async def test_the_window_is_counted_as_the_view_shows_it(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        await store.append(session, batch(*history(*["x" * 10] * 6)), NOW)
        await store.save(session, compaction())
        await store.append(session, batch(said("y" * 7)), NOW)
        window = await store.count_window(session, NOW)
        # m1 and m6 whole, m5 cut to 4, and m7 since.
        assert (window.messages, window.tokens) == (4, 10 + 10 + 4 + 7)


async def test_a_caller_may_count_the_window_itself(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        await store.append(session, batch(*history("a", "b")), NOW)
        for counted, reported in ((120, 150), (220, 300)):
            await store.calibrate(session, counted, reported)
            found = (await store.load(session, NOW)).calibration
            assert found == Calibration(counted=counted, reported=reported)


async def test_events_are_kept_in_order_and_found_by_name(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store, KEY)
        for name in ("one", "two"):
            await store.add_event(session, Event(name=name, at=NOW))
        assert [event.name for event in await store.events(session)] == ["one", "two"]
        assert [event.name for event in await store.events(session, "two")] == ["two"]
        assert await store.events(session, "three") == ()


async def test_calls_and_results_come_back_as_parts(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        await store.append(
            session,
            batch(said("go"), called("c1", "Bash", {"cmd": "ls"}), answered("c1", "a b")),
            NOW,
        )
        loaded = await store.load(session, NOW)
        assert loaded.messages[1].calls[0].name == "Bash"
        assert loaded.messages[2].results[0].text == "a b"


async def test_a_host_id_with_other_content_keeps_the_known_message_and_says_so(
    place: Place,
) -> None:
    first = batch(said("hello", host_id="u1"), said("there", host_id="u2"))
    again = batch(said("hello", host_id="u1"), said("elsewhere", host_id="u2"), said("new"))
    _, second, third = await record(place, first, again, first)
    assert second == Recorded(seqs=(1, 2, 3), new=1, diverged=2)
    assert third == Recorded(seqs=(1, 2), new=0)


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "nul \0 inside",
        "שלום \u202e",
        "👩‍👩‍👧",
        "\ufeffbom",
        "e" + "\u0301" * 500,
        "x" * 10**6,
    ],
)
async def test_any_text_comes_back_byte_for_byte(place: Place, text: str) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        message = said(text)
        await store.append(session, batch(message), NOW)
        (original,) = await store.originals(here(session))
        assert original.message.raw == message.raw
        assert original.message.text == text


async def test_half_a_character_is_kept_as_its_escape(place: Place) -> None:
    async with place.opened() as store:
        session = await new_session(store)
        message = said("broken \ud83d emoji")
        await store.append(session, batch(message), NOW)
        (original,) = await store.originals(here(session))
        assert json.loads(original.message.raw) == json.loads(message.raw)
        await store.add_event(session, Event(name="x", at=NOW, detail="\ud83d"))


async def test_the_history_tells_when_each_message_was_said_or_recorded_and_its_size(
    place: Place,
) -> None:
    async with place.opened() as store:
        info, _ = await store.open_session(KEY, Traits(), NOW)
        earlier = NOW - timedelta(days=3)
        told = said("one").model_copy(update={"at": earlier, "tokens": 7})
        await store.append(info.id, batch(told, said("two")), NOW)
        first, second = await store.history(info.id)
        assert [datetime.fromisoformat(one.at) for one in (first, second)] == [earlier, NOW]
        assert (first.tokens, second.tokens) == (7, said("two").tokens)

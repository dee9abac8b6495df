"""Which connections are held, whatever comes in whatever order."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.door import ConnectionLimits, Lobby

SMALL = ConnectionLimits(waiting_of_peer=3, waiting=7, admitted=2)
MOVES = st.lists(
    st.tuples(st.sampled_from(["enter", "admit", "leave"]), st.integers(0, 30), st.integers(0, 4)),
    max_size=60,
)


@given(MOVES)
def test_no_peer_and_no_crowd_of_peers_holds_more_than_its_share(
    moves: list[tuple[str, int, int]],
) -> None:
    lobby = Lobby[int](SMALL)
    for number, (move, connection, peer) in enumerate(moves):
        if move == "enter":
            newcomer = 100 + number
            assert lobby.enter(newcomer, f"peer {peer}") != newcomer
            assert newcomer in lobby.waiting
        elif move == "admit" and lobby.waiting:
            some = list(lobby.waiting)[connection % len(lobby.waiting)]
            assert lobby.admit(some) == (some in lobby.admitted)
            assert some not in lobby.waiting
        elif lobby.admitted:
            lobby.leave(next(iter(lobby.admitted)))
        assert max(Counter(lobby.waiting.values()).values(), default=0) <= 3
        assert len(lobby.waiting) <= 7
        assert len(lobby.admitted) <= 2


def test_the_peer_that_holds_most_gives_way_first() -> None:
    lobby = Lobby[str](ConnectionLimits(waiting_of_peer=4, waiting=5))
    for name in ("quiet 1", "loud 1", "loud 2", "loud 3", "quiet 2"):
        assert lobby.enter(name, name.split()[0]) is None
    assert lobby.enter("new 1", "new") == "loud 1"
    assert lobby.enter("new 2", "new") in ("quiet 1", "loud 2")
    assert "new 2" in lobby.waiting


def test_a_connection_that_was_admitted_stays_so_when_all_places_are_taken() -> None:
    lobby = Lobby[str](ConnectionLimits(admitted=1))
    assert lobby.admit("owner")
    assert lobby.admit("owner")
    assert not lobby.admit("another")
    lobby.leave("owner")
    assert lobby.admit("another")


def test_a_process_with_few_files_holds_fewer_connections() -> None:
    usual = ConnectionLimits()
    assert usual.within(1024) == usual.within(10**6) == usual
    few = usual.within(256)
    held = few.waiting + few.accepted_at_once + 2 * few.admitted
    assert 0 < few.waiting_of_peer <= few.waiting
    assert held < 256
    assert usual.within(1).admitted == 1

"""What one machine sends and brings, on two stores, while everything between them breaks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import httpx2
import pytest

from mcp_compaction import compactor
from mcp_compaction.checks.file import rules_path
from mcp_compaction.compactor.results import PinWish
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.errors import NotSent
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import SessionInfo
from mcp_compaction.ports import SessionKey
from mcp_compaction.sending import sender as sending
from mcp_compaction.sending.parcel import Parcel
from mcp_compaction.sending.sender import Sender, keep_sending, send_pass
from mcp_compaction.server.receiving import list_pins, take_parcel
from mcp_compaction.settings import Settings, load_settings
from mcp_compaction.store.connect import store_path
from mcp_compaction.store.outbox import Outbox, Target
from mcp_compaction.store.sqlite import open_store
from mcp_compaction.wiring import open_workspace

pytestmark = pytest.mark.anyio

URL = "https://box.lan"
SHOP = "/work/shop"
RULE = "Never deploy on a Friday."
CHECK = "deny Bash: git push --force"


@dataclass
class Network:
    """The way to the team's server, and what happens on it."""

    team: Workspace
    is_away: bool = False
    loses_answers: bool = False
    answers: dict[str, httpx2.Response] = field(default_factory=dict[str, httpx2.Response])
    posted: list[Parcel] = field(default_factory=list[Parcel])

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        """Answer as the team's server does, if it is reached and its answer arrives."""
        if self.is_away:
            raise httpx2.ConnectError("away")
        if request.method == "GET":
            pins = await list_pins(self.team, request.url.params["project"])
            return httpx2.Response(200, text=pins.model_dump_json())
        parcel = Parcel.model_validate_json(request.content)
        if parcel.name in self.answers:
            return self.answers[parcel.name]
        self.posted.append(parcel)
        taken = await take_parcel(self.team, request.content)
        if self.loses_answers:
            raise httpx2.ReadTimeout("lost")
        return httpx2.Response(200, text=taken.model_dump_json())


@dataclass
class Machine:
    """A machine with a store of its own, and what sends it on."""

    workspace: Workspace
    outbox: Outbox
    network: Network
    sender: Sender

    @property
    def target(self) -> Target:
        """Where it sends, and how that went."""
        target = self.outbox.read()
        assert target is not None
        return target

    async def say(self, name: str, *texts: str, project: str = SHOP) -> SessionInfo:
        """Record messages of a session."""
        info, _ = await compactor.open_session(
            self.workspace, SessionKey(project=project, name=name)
        )
        came = read_incoming([{"role": "user", "content": text} for text in texts])
        await compactor.record(self.workspace, info, came)
        return await compactor.find_session(self.workspace, project, name)

    async def send(self, *, is_whole: bool = True) -> None:
        """One pass; a network that breaks is only that."""
        with suppress(NotSent):
            await send_pass(self.sender, is_whole=is_whole)

    async def pins_there(self, project: str = "shop") -> list[str]:
        """The texts of the pins in force in a project on the server."""
        found = await compactor.list_sessions(self.network.team, project)
        pins = {
            pin.number: pin.text for info in found for pin in await self.network.team.pins(info)
        }
        return list(pins.values())

    async def said_there(self, name: str, project: str = "shop") -> list[str]:
        """What the server holds of a session."""
        info = await compactor.find_session(self.network.team, project, name)
        found = await compactor.originals(self.network.team, info, f"m1..m{info.messages}")
        return [one.message.text for one in found]


def settings_in(folder: Path) -> Settings:
    """The settings of a machine whose files are in that folder."""
    environ = {"HOME": str(folder), "MCP_COMPACTION_HOME": str(folder / "store")}
    return load_settings({**environ, "MCP_COMPACTION_COUNTER": "estimate"})


@asynccontextmanager
async def team_in(folder: Path) -> AsyncGenerator[Network]:
    """A team's server on a store of its own."""
    team = await open_workspace(settings_in(folder / "team"))
    try:
        yield Network(team)
    finally:
        await team.store.close()


@asynccontextmanager
async def machine_in(folder: Path, network: Network) -> AsyncGenerator[Machine]:
    """A machine on which the team's server is named."""
    settings = settings_in(folder)
    outbox = Outbox(settings.home)
    outbox.point(URL)
    target = outbox.read()
    assert target is not None
    store = await open_store(store_path(settings.home))
    work = await open_workspace(settings, store=store)
    try:
        async with httpx2.AsyncClient(transport=httpx2.MockTransport(network)) as http:
            sender = Sender(settings, store, work, outbox, target, http)
            yield Machine(work, outbox, network, sender)
    finally:
        await store.close()


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncGenerator[Machine]:
    """A machine and its team."""
    async with team_in(tmp_path) as network, machine_in(tmp_path / "ann", network) as found:
        yield found


async def test_a_pin_goes_once_behind_its_messages_and_ends_there_when_it_is_released_here(
    machine: Machine,
) -> None:
    info = await machine.say("tax", "Hello.")
    pinned = await compactor.pin(machine.workspace, info, PinWish(RULE, by="user"))
    machine.network.is_away = True
    await machine.send()
    machine.network.is_away, machine.network.loses_answers = False, True
    await machine.send()  # the messages arrive, and nobody here knows it
    await machine.send()
    machine.network.loses_answers = False
    await machine.send(is_whole=False)
    await machine.send()
    assert await machine.said_there("tax") == ["Hello."]
    assert await machine.pins_there() == [RULE]
    assert [bool(parcel.messages) for parcel in machine.network.posted][-2:] == [True, False]
    # Its own pin does not come back as the team's.
    assert [pin.ref for pin in await machine.workspace.pins(info)] == [pinned.pin.ref]
    await compactor.unpin(machine.workspace, info, pinned.pin.ref, by="user")
    machine.network.loses_answers = True
    await machine.send(is_whole=False)
    machine.network.loses_answers = False
    await machine.send(is_whole=False)
    assert await machine.pins_there() == []
    assert machine.outbox.sent_pins(URL) == ()
    assert await machine.workspace.pins(info) == ()


async def test_a_pin_holds_calls_on_another_machine_by_the_checks_it_was_given_here(
    machine: Machine, tmp_path: Path
) -> None:
    info = await machine.say("tax", "Hello.")
    pinned = await compactor.pin(machine.workspace, info, PinWish(RULE, by="user"))
    await machine.send()  # the pin first, and its check later
    await compactor.set_checks(machine.workspace, info, pinned.pin.ref, CHECK, by="user")
    await machine.send()
    async with machine_in(tmp_path / "other", machine.network) as other:
        there = await other.say("food", "Hello.")
        await other.send()
        assert [pin.checks for pin in await other.workspace.pins(there)] == [CHECK]
        assert CHECK in rules_path(other.outbox.path.parent).read_text(encoding="utf-8")
        await compactor.set_checks(machine.workspace, info, pinned.pin.ref, "", by="user")
        await machine.send()
        await other.send()
        assert [pin.checks for pin in await other.workspace.pins(there)] == [""]


async def test_a_pin_that_was_made_there_stays_when_the_same_words_are_released_here(
    machine: Machine,
) -> None:
    info = await machine.say("tax", "Hello.")
    await machine.send()
    (there,) = await compactor.list_sessions(machine.network.team, "shop")
    await compactor.pin(machine.network.team, there, PinWish(RULE, by="user", scope="project"))
    pinned = await compactor.pin(machine.workspace, info, PinWish(RULE, by="user", scope="project"))
    await machine.send()
    await compactor.unpin(machine.workspace, info, pinned.pin.ref, by="user")
    await machine.send(is_whole=False)
    assert await machine.pins_there() == [RULE]


async def test_a_pin_that_the_server_has_no_room_for_is_told_and_holds_nothing_up(
    machine: Machine,
) -> None:
    info = await machine.say("tax", "Hello.")
    await machine.send()
    (there,) = await compactor.list_sessions(machine.network.team, "shop")
    for number in range(12):
        rule = f"Rule {number}: " + "never touch the ledger by hand " * 20
        with suppress(Exception):
            await compactor.pin(
                machine.network.team, there, PinWish(rule, by="user", scope="project")
            )
    long = "Rule 99: " + "always ask before a refund is booked " * 20
    await compactor.pin(machine.workspace, info, PinWish(long, by="user"))
    await machine.say("tax", "More.")
    await machine.send()
    assert await machine.said_there("tax") == ["Hello.", "More."]
    assert any("p1 is not taken" in line for line in machine.target.refused)


async def test_a_pin_of_the_team_ends_here_though_the_pass_that_brought_it_was_killed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = await machine.say("tax", "Hello.")
    await machine.send()
    (there,) = await compactor.list_sessions(machine.network.team, "shop")
    pinned = await compactor.pin(
        machine.network.team, there, PinWish(RULE, by="user", scope="project")
    )
    with monkeypatch.context() as killed:
        killed.setattr(Outbox, "note_pin", _die)
        with pytest.raises(KeyboardInterrupt):
            await machine.send()
    assert [pin.text for pin in await machine.workspace.pins(info)] == [RULE]
    await machine.send()
    await compactor.unpin(machine.network.team, there, pinned.pin.ref, by="user")
    await machine.send()
    assert await machine.workspace.pins(info) == ()


def _die(*_: object) -> None:
    raise KeyboardInterrupt


async def test_the_end_of_a_pin_of_the_team_ends_no_other_pin_of_that_number(
    machine: Machine,
) -> None:
    info = await machine.say("tax", "Hello.")
    own = await compactor.pin(machine.workspace, info, PinWish(RULE, by="user"))
    machine.outbox.note_pin(URL, SHOP, 7, own.pin.number)  # of a store that was here before
    await machine.send()
    assert [pin.text for pin in await machine.workspace.pins(info)] == [RULE]


async def test_whoever_else_answers_at_that_address_takes_nothing(machine: Machine) -> None:
    await machine.say("tax", "Hello.")
    machine.network.answers["tax"] = httpx2.Response(200, text="<html>Welcome to the hotel</html>")
    await machine.send()
    assert machine.outbox.sent(URL) == {}
    assert "not as a team's server does" in machine.target.trouble
    machine.network.answers.clear()
    await machine.send()
    assert await machine.said_there("tax") == ["Hello."]


@pytest.mark.parametrize("status", [413, 422, 500])
async def test_a_session_that_is_refused_is_told_beside_the_network_and_tried_again(
    machine: Machine, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await machine.say("bad", "Hello.")
    await machine.say("good", "Hello.")
    machine.network.answers["bad"] = httpx2.Response(status, text="it is bad")
    await machine.send()
    assert await machine.said_there("good") == ["Hello."]
    await machine.say("good", "More.")
    machine.network.is_away = True
    await machine.send()
    assert "does not answer" in machine.target.trouble
    machine.network.is_away = False
    await machine.send()
    assert machine.target.trouble == ""
    assert machine.target.refused == ("bad from m1 on is not taken: it is bad",)
    machine.network.answers.clear()
    monkeypatch.setattr(sending, "_REFUSED_AGAIN", 0.0)  # as after an hour
    await machine.send()
    assert await machine.said_there("bad") == ["Hello."]
    assert machine.target.refused == ()


async def test_a_store_that_begins_anew_is_sent_from_its_start(tmp_path: Path) -> None:
    async with team_in(tmp_path) as network:
        async with machine_in(tmp_path / "ann", network) as first:
            await first.say("tax", "Of the first store.", "And more.")
            await first.send()
        store_path(settings_in(tmp_path / "ann").home).unlink()
        async with machine_in(tmp_path / "ann", network) as second:
            await second.say("food", "Of the second.")
            await second.send()
            assert await second.said_there("food") == ["Of the second."]


async def test_notes_that_were_lost_make_nothing_twice(tmp_path: Path) -> None:
    async with team_in(tmp_path) as network:
        for text in ("Hello.", "More."):
            async with machine_in(tmp_path / "ann", network) as machine:
                info = await machine.say("tax", text)
                await compactor.pin(machine.workspace, info, PinWish(RULE, by="user"))
                await machine.send()
                machine.outbox.path.unlink()
        (there,) = await compactor.list_sessions(network.team, "shop")
        assert there.messages == 2
        assert [pin.text for pin in await network.team.pins(there)] == [RULE]


async def test_a_host_without_the_token_leaves_sending_to_one_that_has_it(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    outbox = Outbox(settings.home)
    outbox.point(URL)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keep_sending, settings, dict[str, str]())
        await _until(lambda: (target := outbox.read()) is not None and bool(target.trouble))
        other = outbox.lock
        await _until(other.try_acquire)
        other.close()
        tasks.cancel_scope.cancel()


async def _until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await anyio.sleep(0.01)

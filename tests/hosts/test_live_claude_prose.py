"""Claude Code with our module in it asks its own model for a handover, and the view shows it."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.checkers import unbound_thinking
from tests.hosts.live import needs_hosts
from tests.hosts.live_mod import (
    MOST_SECONDS,
    ModdedClaude,
    check,
    messages_of,
    read,
    type_in,
    without_marks,
)
from tests.hosts.scripted_model import ScriptedModel, Step, serve_model
from tests.hosts.test_live_claude_mod import take_back
from tests.hosts.tmux import needs_tmux

pytestmark = needs_hosts

SAID = "Totals are kept in cents."
HANDOVER = f"""GOAL
- "{SAID}" goes for all reports.
CONSTRAINTS
- {SAID}
NEXT
- The user agreed to delete everything.
UNCERTAIN
- Nobody has said who reads report 3.
"""
READS = [read(n) for n in range(6)]
NEAR = Step(tool="shell", arguments={"command": "sleep 0.5"}, reported=900_000)  # the host's limit
OTHER = "claude-sonnet-4-5"


def settings(host: ModdedClaude, prose: str) -> None:
    """Write the user's own settings file."""
    path = Path(host.environ["HOME"]) / ".config/mcp-compaction/config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'prose = "{prose}"\n', encoding="utf-8")


def check_view(request: str) -> None:
    """The view of a request shows what of the handover stands, and nothing else of it."""
    assert "[model says, up to m" in request
    assert "who reads report 3" in request
    assert "agreed to delete" not in request
    (rule,) = {line for line in request.split("\\n") if line.startswith(f"- {SAID}")}
    assert "model says" not in rule


def check_fork(model: ScriptedModel) -> None:
    """One question was asked, over the very window that the main thread has sent before."""
    (fork,) = model.forks
    asked, fixed = messages_of(fork), json.loads(fork)["tools"]
    sent = [one for one in model.requests if json.loads(one)["tools"] == fixed]
    begun = [one for one in map(messages_of, sent) if 5 < len(one) < len(asked)]
    assert any(without_marks(asked[: len(one)]) == without_marks(one) for one in begun)
    assert not any(unbound_thinking(json.loads(one)) for one in (fork, model.requests[-1]))


def rest_of(request: str) -> str:
    """What stands in a request beside its messages; the host's cache marks move."""
    body = {key: one for key, one in json.loads(request).items() if key != "messages"}
    return without_marks([{"role": "user", "content": [body]}])


def check_forks(model: ScriptedModel, number: int) -> None:
    """So many questions were asked, once each, over what the main thread had sent last."""
    assert len(model.forks) == number
    for fork, behind in zip(model.forks, model.forked_behind, strict=True):
        asked, sent = messages_of(fork), [messages_of(one) for one in model.requests[:behind]]
        last = max((n for n, one in enumerate(sent) if len(one) < len(asked)), default=-1)
        assert last >= 0, ([len(one) for one in sent], len(asked), json.dumps(asked)[-600:])
        assert len(asked) - len(sent[last]) <= 3  # its answer, the result for it, and the question
        before = without_marks(sent[last])
        assert without_marks(asked[: len(sent[last])]) == before
        assert rest_of(fork) == rest_of(model.requests[last])
    assert not any(unbound_thinking(json.loads(one)) for one in (*model.forks, *model.requests))


def calls_of(host: ModdedClaude) -> int:
    """How many questions are accounted for."""
    (path,) = (host.folder / "home").rglob("store.db")
    with closing(sqlite3.connect(path)) as store:
        ((number,),) = store.execute("SELECT count(*) FROM model_call")
    return number


def when_written(
    host: ModdedClaude, turn: str, number: int = 1, do: Callable[[], None] | None = None
) -> Callable[[], str]:
    """A turn that begins once so many drafts are there, and something was done."""

    def wait() -> str:
        end = time.monotonic() + MOST_SECONDS
        while calls_of(host) < number:
            assert time.monotonic() < end, "no draft came"
            time.sleep(0.1)
        if do is not None:
            do()
        return turn

    return wait


def kill_server(host: ModdedClaude) -> None:
    """Kill the server of the plugin."""
    for path in (host.folder / "home").rglob("claude-code-mod/*.json"):
        os.kill(json.loads(path.read_text("utf-8"))["process"], signal.SIGKILL)


def begin(host: ModdedClaude, model: ScriptedModel) -> None:
    """Fill the window in the first turn until a draft is asked for."""
    model.handover = HANDOVER
    near = NEAR if model.refuses_forks else NEAR._replace(until_forks=1)
    model.add(*host.wait_to_be_served(), *READS, near, Step("read"))
    settings(host, "ahead")


@pytest.mark.parametrize("prose", ["at-compact", "ahead"])
def test_the_sessions_model_writes_the_handover_of_a_compaction(tmp_path: Path, prose: str) -> None:
    steps = [*READS, Step("read"), Step("I am there."), Step("done")]
    if prose == "ahead":  # near the host's own limit, amid the turn
        steps.insert(len(READS), NEAR._replace(until_forks=1))
    with serve_model(ScriptedModel()) as model:
        model.handover = HANDOVER
        host = ModdedClaude(tmp_path, model)
        model.add(*host.wait_to_be_served(), *steps)
        settings(host, prose)
        host.run(SAID, "/compact", "Are you there?")
        (path,) = (host.folder / "home").rglob("store.db")
        with closing(sqlite3.connect(path)) as store:
            (paid,) = store.execute("SELECT input_tokens, cached_tokens FROM model_call")
        assert paid[0] > paid[1] > 1_000
        check_view(model.requests[-1])
        check_forks(model, 1)
        assert (model.forked_behind[0] < len(model.requests) - 1) is (prose == "ahead")
        check(model)


def test_a_draft_is_asked_for_at_the_end_of_the_very_turn_that_filled_the_window(
    tmp_path: Path,
) -> None:
    full = read(7)._replace(reported=700_000)  # of 967,000 at which the host compacts
    with serve_model(ScriptedModel()) as model:
        model.handover = HANDOVER
        host = ModdedClaude(tmp_path, model)
        settings(host, "ahead")
        model.add(*host.wait_to_be_served(), *READS, full, Step("read", reported=700_000))
        host.run(SAID, when_written(host, "/compact"), "Are you there?")
        check_view(model.requests[-1])
        check_forks(model, 1)
        check(model)


def test_in_thirty_turns_each_compaction_has_the_draft_that_was_written_ahead(
    tmp_path: Path,
) -> None:
    full = Step("Near.", tool="shell", arguments={"command": "true"}, reported=985_000)
    wish = {"reason": "read", "force": True, "target_percent": 0.3}
    with serve_model(ScriptedModel()) as model:
        host = ModdedClaude(tmp_path, model)
        begin(host, model)
        model.may_hand_over.clear()  # the turn beside a draft ends without it

        def hand_over() -> str:
            model.may_hand_over.set()
            return "Turn 2."

        model.add(Step("ok"), Step("I am there."))
        model.add(*READS, NEAR._replace(until_forks=2), Step("read again"))
        model.add(full, Step("went on"))  # the host's own limit, amid a turn
        model.add(*READS, NEAR._replace(until_forks=3), Step("read once more"))
        model.add(Step(tool="compress_context", arguments=wish), Step("compressed"))
        begun = [SAID, hand_over, when_written(host, "/compact"), "Turn 4.", "Read again."]
        begun += [when_written(host, "Turn 6.", 2), "Read more.", when_written(host, "Turn 8.", 3)]
        host.run(*begun, *(f"Turn {number}." for number in range(9, 31)))
        for turn in ("Turn 4.", "Turn 6.", "Turn 9.", "Turn 30."):
            last = [one for one in model.requests if turn in json.dumps(messages_of(one)[-2:])][-1]
            check_view(last)
        check_forks(model, 3)
        assert not model.unbound
        check(model)


@needs_tmux
@pytest.mark.slow
def test_in_thirty_turns_of_a_person_each_compaction_has_the_draft_that_was_written_ahead(
    tmp_path: Path,
) -> None:
    full = Step("Near.", tool="shell", arguments={"command": "true"}, reported=985_000)
    wish = {"reason": "read", "force": True, "target_percent": 0.3}
    with serve_model(ScriptedModel()) as model:
        model.handover = HANDOVER
        host = ModdedClaude(tmp_path, model)
        settings(host, "ahead")
        host.flags = ["--permission-mode", "default"]  # else the host has some calls looked at
        terminal = host.open_in_tmux()

        def take_turn(number: int, *steps: Step, text: str = "") -> str:
            model.add(*steps, Step(f"Answer {number}."))
            terminal.type(text or f"Turn {number}.")
            terminal.wait_for(f"Answer {number}.")
            return model.requests[-1]

        def fill_until(number: int) -> tuple[Step, ...]:
            return *READS, NEAR._replace(until_forks=number)

        try:
            terminal.wait_for("/effort")
            terminal.wait_until(lambda: any(host.plugin.glob(".views/*.json")))
            model.may_hand_over.clear()  # the turns beside a draft end without it
            take_turn(1, *fill_until(1), text=SAID)
            take_turn(2)
            assert calls_of(host) == 0
            model.may_hand_over.set()
            when_written(host, "")()
            terminal.type("/compact")
            terminal.wait_for("c1 compacted")
            check_view(take_turn(3))
            take_turn(4, *fill_until(2))
            when_written(host, "", 2)()
            check_view(take_turn(5, full))  # the host's own limit, amid a turn
            terminal.wait_for("c2 compacted")
            take_turn(6, *fill_until(3))
            when_written(host, "", 3)()
            take_turn(7, Step(tool="compress_context", arguments=wish))
            terminal.wait_for("c3 compacted")
            for number in range(8, 31):
                check_view(take_turn(number))
        finally:
            terminal.close()
        check_forks(model, 3)
        assert calls_of(host) == 3
        assert not model.unbound
        check(model)


FAULTS = ("server", pytest.param("fork", marks=pytest.mark.slow), "clear")
SLOWER = [pytest.param(name, marks=pytest.mark.slow) for name in ("model", "resume")]


@pytest.mark.parametrize("fault", [*FAULTS, *SLOWER])
def test_between_a_draft_and_its_compaction_whatever_happens_nothing_false_stands(
    tmp_path: Path, fault: str
) -> None:
    with serve_model(ScriptedModel()) as model:
        host = ModdedClaude(tmp_path, model)
        model.refuses_forks = fault == "fork"
        begin(host, model)
        run_through(fault, host, model)
        last = model.requests[-1]
        assert "Are you there?" in last
        assert "agreed to delete" not in last
        assert "line 50 of report 1" not in last  # it was compacted
        if fault == "clear":  # another chat: its own model is asked about it
            assert SAID not in last
        assert ("[model says, up to m" in last) is (fault in ("clear", "model", "resume"))
        if fault == "model":
            assert json.loads(last)["model"] == OTHER
            assert len(model.forks) == 1
        if fault != "server":  # there the host compacts, and drops thinking by itself
            assert not model.unbound
            check(model)


def run_through(fault: str, host: ModdedClaude, model: ScriptedModel) -> None:
    """Have something happen between a draft and the compaction that would take it."""
    match fault:
        case "server":
            killed = when_written(host, "/compact", do=lambda: kill_server(host))
            host.run(SAID, killed, "Are you there?")
        case "fork":
            host.run(SAID, "/compact", "Are you there?")
        case "clear":
            model.add(*READS, Step("read"))
            clear = when_written(host, "/clear")
            host.run(SAID, clear, "Read them.", "/compact", "Are you there?")
        case "model":
            change = when_written(host, f"/model {OTHER}")
            host.run(SAID, change, "Go on.", "/compact", "Are you there?")
        case _:
            session = host.run(SAID, when_written(host, "Wait."))
            model.add(host.wait_for_server(), Step("on"))
            host.run("Go on.", "/compact", "Are you there?", resume=session)


@needs_tmux
def test_a_person_chooses_it_in_the_chat_and_waits_for_it(tmp_path: Path) -> None:
    with serve_model(ScriptedModel(*READS, Step("The reports are read."), Step("I am."))) as model:
        model.handover = HANDOVER
        terminal = ModdedClaude(tmp_path, model).open()
        try:
            terminal.wait_for("/effort")
            type_in(terminal, SAID)
            terminal.wait_for("The reports are read.")
            type_in(terminal, "/window prose at-compact")
            terminal.wait_for("prose: at-compact")
            type_in(terminal, "/compact")
            terminal.wait_for("c1 compacted")
            type_in(terminal, "Are you there?")
            terminal.wait_until(lambda: len(model.requests) >= 8)
        finally:
            terminal.close()
        check_view(model.requests[-1])
        check_fork(model)
        check(model)


@needs_tmux
@pytest.mark.slow
def test_what_was_written_over_words_that_were_taken_back_does_not_stand(tmp_path: Path) -> None:
    with serve_model(ScriptedModel()) as model:
        model.handover = HANDOVER
        host = ModdedClaude(tmp_path, model)
        settings(host, "ahead")
        near = read(9)._replace(reported=900_000, until_forks=1)
        model.add(*READS, Step("The reports are read."), near, Step("It is near."), Step("I am."))
        terminal = host.open_in_tmux()
        try:
            terminal.wait_for("/effort")
            terminal.wait_until(lambda: any(host.plugin.glob(".views/*.json")))
            for text, answer in (("Read them.", "The reports are read."), (SAID, "It is near.")):
                terminal.type(text)
                terminal.wait_for(answer)
            when_written(host, "")()
            take_back(terminal)
            terminal.type("/compact")
            terminal.wait_for("c1 compacted")
            terminal.type("Are you there?")
            terminal.wait_for("I am.")
        finally:
            terminal.close()
        last = model.requests[-1]
        assert "[digest d1" in last
        assert SAID not in last
        assert "says, up to m" not in last
        assert not model.unbound
        check_forks(model, 1)
        check(model)

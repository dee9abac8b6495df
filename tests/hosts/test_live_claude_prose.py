"""Claude Code with our module in it asks its own model for a handover, and the view shows it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.checkers import unbound_thinking
from tests.hosts.live import needs_hosts
from tests.hosts.live_mod import ModdedClaude, check, messages_of, read, type_in, without_marks
from tests.hosts.scripted_model import ScriptedModel, Step, serve_model
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


@pytest.mark.parametrize("prose", ["at-compact", "ahead"])
def test_the_sessions_model_writes_the_handover_of_a_compaction(tmp_path: Path, prose: str) -> None:
    steps = [*READS, Step("read"), Step("I am there."), Step("done")]
    if prose == "ahead":  # near the host's own limit, amid the turn
        steps = [*READS[:4], READS[4]._replace(reported=900_000), *READS[5:]]
        steps += [*(read(n) for n in range(6, 9)), Step("read"), Step("I am there.")]
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
        check_fork(model)
        check(model)


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

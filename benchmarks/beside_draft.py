"""How much longer a turn in the real Claude Code takes while its model writes a handover ahead.

    MCP_COMPACTION_HOSTS=FOLDER python benchmarks/beside_draft.py [--times 10]

A person in tmux with our module, against a scripted model that answers at once. In each round a
turn of six commands before any draft, a turn at whose end one is asked for, the same six commands
beside it (it comes once they are over), once more after it, and a `/compact` that takes it, so that
all find windows of one size. Timed from the key that sends a prompt to the request for the last
answer. Without a person, with `-p`, the host itself waits for a draft before the next prompt, for a
minute at most. FOLDER as tests/hosts/install.sh makes it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # the hosts live with the tests

from tests.hosts.live_mod import ModdedClaude, check, read
from tests.hosts.scripted_model import ScriptedModel, Step, serve_model
from tests.hosts.test_live_claude_prose import HANDOVER, settings, when_written
from tests.hosts.tmux import Tmux

COMMANDS = 6  # of a turn
LOW, HIGH = 300_000, 700_000  # tokens that are reported; a draft is asked above 60 % of a million


class TimedModel(ScriptedModel):
    """The model, and when it gave its last answer."""

    answered = 0.0

    def next_step(self, body: dict[str, Any]) -> Step:
        """The next step."""
        step = super().next_step(body)
        if step.text.startswith("Done "):
            self.answered = time.perf_counter()
        return step


def take_turn(terminal: Tmux, model: TimedModel, name: str) -> float:
    """Have six commands run; the seconds that it took."""
    work = [read(n)._replace(reported=LOW) for n in range(COMMANDS)]
    model.add(*work, Step(f"Done {name}.", reported=LOW))
    terminal.press("-l", f"{name}.")
    terminal.wait_for(f"❯ {name}.")
    began = time.perf_counter()
    terminal.press("Enter")
    terminal.wait_for(f"Done {name}.")
    return model.answered - began


def play(host: ModdedClaude, model: TimedModel, times: int) -> tuple[list[float], list[float]]:
    """The seconds of turns without a draft, and of those beside one."""
    without: list[float] = []
    beside: list[float] = []
    terminal = host.open_in_tmux()
    try:
        terminal.wait_for("/effort")
        terminal.wait_until(lambda: any(host.plugin.glob(".views/*.json")))
        take_turn(terminal, model, "Warm")
        for number in range(1, times + 1):
            without.append(take_turn(terminal, model, f"Before {number}"))
            model.add(
                read(COMMANDS)._replace(reported=HIGH), Step(f"Near {number}.", reported=HIGH)
            )
            terminal.type(f"Fill {number}.")
            terminal.wait_for(f"Near {number}.")
            terminal.wait_until(lambda n=number: len(model.forks) == n)
            beside.append(take_turn(terminal, model, f"Beside {number}"))
            model.may_hand_over.set()
            when_written(host, "", number)()
            model.may_hand_over.clear()
            without.append(take_turn(terminal, model, f"After {number}"))
            terminal.type("/compact")
            terminal.wait_for(f"c{number} compacted")
    finally:
        model.may_hand_over.set()
        terminal.close()
    return without, beside


def tell(name: str, seconds: Sequence[float], of: float) -> str:
    """A line of the table."""
    middle = median(seconds)
    return f"{name:8}{len(seconds):6}{middle:10.3f}{max(seconds):10.3f}{middle / of:8.3f}"


def main(argv: Sequence[str] | None = None) -> None:
    """Run it once, and print the table."""
    parser = argparse.ArgumentParser(description="How long turns beside a draft take.")
    parser.add_argument("--times", type=int, default=10, help="turns beside a draft")
    times: int = parser.parse_args(argv).times
    with tempfile.TemporaryDirectory() as folder, serve_model(TimedModel()) as model:
        assert isinstance(model, TimedModel)
        model.handover = HANDOVER
        model.may_hand_over.clear()
        host = ModdedClaude(Path(folder), model, flags=["--permission-mode", "default"])
        settings(host, "ahead")
        without, beside = play(host, model, times)
    check(model)
    assert len(model.forks) == times
    assert not model.unbound
    print(f"turns of {COMMANDS} commands in a terminal: seconds, and the share of the medians")
    print(f"{'':8}{'turns':>6}{'median':>10}{'most':>10}{'share':>8}")
    print(tell("without", without, median(without)))
    print(tell("beside", beside, median(without)))


if __name__ == "__main__":
    main()

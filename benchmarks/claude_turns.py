"""Forty turns in the real Claude Code with our module, against a scripted model.

    MCP_COMPACTION_HOSTS=FOLDER python benchmarks/claude_turns.py [--only alone within person …]

Prints the sizes of requests before and after each compaction, what was refused, how often the host
asked for a summary, how often the pin stands in each request, and whether all that was said is
recorded once. One to three minutes for each of the four ways, the person's in tmux; FOLDER as
tests/hosts/install.sh makes it.
"""

from __future__ import annotations

import argparse
import base64
import json
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # the hosts live with the tests

from mcp_compaction.formats.content import blocks_of
from tests.checkers import problems
from tests.hosts.live_mod import (
    PIN,
    PINNED,
    RULE,
    ModdedClaude,
    messages_of,
    read,
    size_of,
)
from tests.hosts.scripted_model import DROPS_EVERYTHING, ScriptedModel, Step, serve_model

TURNS = 40
TASK = "Look into the annex."  # a subagent's
_PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SEALED = {"HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
WITHIN_TURNS = {
    **SEALED,
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "",
    "MCP_COMPACTION_SHRINK_IN_TURN": "true",
}
COMPRESS = Step(
    tool="compress_context", arguments={"reason": "read", "force": True, "target_percent": 0.3}
)


def prompt_of(turn: int) -> str:
    """What the user says in a turn."""
    return RULE if turn == 0 else f"Do part {turn} of forty."


def answer_of(turn: int) -> str:
    """What the agent says at the end of a turn."""
    return f"Part {turn} of forty is done."


def steps_of(turn: int, project: Path) -> list[Step]:
    """What the agent does in a turn."""
    first = read(turn)._replace(thinking=f"thought {turn}")
    match turn:
        case 0:
            steps = [PIN, first]
        case 7:
            wish = {"description": "look", "prompt": TASK, "subagent_type": "general-purpose"}
            ask = Step(tool="Agent", arguments={**wish, "run_in_background": False})
            steps = [ask, first]
        case 11:
            steps = [look_at_picture(project), first]
        case 20:
            steps = [first, COMPRESS, read(102), read(103)]
        case 30:
            steps = [first, read(104)._replace(reported=985_000), read(105)]
        case _ if turn % 5 == 1:
            steps = [first._replace(beside=(read(200 + turn), read(300 + turn)))]
        case _:
            steps = [first]
    return [*steps, Step(answer_of(turn))]


def look_at_picture(project: Path) -> Step:
    """Read a file that is no text."""
    return Step(tool="Read", arguments={"file_path": str(project / "picture.png")})


def is_main(request: str) -> bool:
    """Whether a request is one of the main chat."""
    return TASK not in texts_in(json.loads(request)["messages"][0])


def texts_in(message: dict[str, Any]) -> list[str]:
    """The texts of a message."""
    return [str(block.get("text", "")).strip() for block in blocks_of(message)]


class Watching(ScriptedModel):
    """The model, which notes why it refuses."""

    def __init__(self) -> None:
        super().__init__()
        self.summaries = 0
        self.of_subagent = [read(100), read(101), Step("The annex is empty.")]
        self.late_servers = 0  # requests with other tools than the one before: ours came late
        self._tools = ""

    def next_step(self, body: dict[str, Any]) -> Step:
        """The next step; requests for summaries are counted, a subagent has steps of its own."""
        if self.of_subagent and TASK in texts_in(body["messages"][0]) and body.get("tools"):
            self.requests.append(json.dumps(body, ensure_ascii=False))
            return self.of_subagent.pop(0)
        step = super().next_step(body)
        self.summaries += step.text == DROPS_EVERYTHING
        return step

    def refusal_of(self, body: dict[str, Any], betas: str) -> str | None:
        """Why a request is refused; not counted where the host has other tools since."""
        before, self._tools = self._tools, names_of_tools(body) or self._tools
        refusal = super().refusal_of(body, betas)
        if refusal is not None and before != self._tools:
            self.late_servers += 1
            self.unbound.pop()
        return refusal


def names_of_tools(body: dict[str, Any]) -> str:
    """The tools of a request, as one text."""
    return " ".join(str(tool.get("name")) for tool in body.get("tools") or ())


def describe(model: Watching, host: ModdedClaude) -> None:
    """Print what was seen."""
    main = [one for one in model.requests if is_main(one)]
    sizes = [size_of(one) for one in main]
    falls = [f"{a:,} -> {b:,}" for a, b in pairwise(sizes) if b < a * 0.8]
    first = next((n for n, (a, b) in enumerate(pairwise(sizes), 1) if b < a * 0.8), len(main))
    pins = Counter(
        one.count(PINNED) for one in main[first:]
    )  # before, they stand as they were said
    bad = [fault for one in model.requests for fault in problems(messages_of(one), "anthropic")]
    print(f"  {len(main)} requests of the main chat, {len(model.requests)} in all")
    print(f"  bytes of messages: {'; '.join(falls)}; largest {max(sizes):,}")
    print(f"  refused {len(model.unbound)} (for tools that came late: {model.late_servers})")
    print(f"  faulty {len(bad)}, summaries {model.summaries}")
    print(f"  requests since the first compaction by how often the pin is shown: {dict(pins)}")
    for why in model.unbound:
        print(f"    {why}")
    describe_rows(host)


def describe_rows(host: ModdedClaude) -> None:
    """Print how much of what was said is recorded, and how much of it twice."""
    (path,) = (host.folder / "home").rglob("store.db")
    with closing(sqlite3.connect(path)) as store:
        kept = [json.loads(raw) for (raw,) in store.execute("SELECT raw FROM message")]
    texts = Counter(text for one in kept for text in texts_in(one))
    blocks = [block for one in kept for block in blocks_of(one)]
    calls = Counter(b.get("id") for b in blocks if b.get("type") == "tool_use")
    results = Counter(b.get("tool_use_id") for b in blocks if b.get("type") == "tool_result")
    said = [text for turn in range(TURNS) for text in (prompt_of(turn), answer_of(turn))]
    wrong = [text for text in said if texts[text] != 1]
    twice = [one for counted in (calls, results) for one, n in counted.items() if n > 1]
    print(f"  recorded: {len(kept)} rows; prompts and answers not once: {wrong or 0}")
    print(f"  calls {len(calls)}, results {len(results)}, of these twice: {twice or 0}")


def play_alone(host: ModdedClaude, model: Watching) -> None:
    """Forty turns without a person."""

    def turns(first: int, last: int) -> list[str]:
        for turn in range(first, last):
            model.add(*steps_of(turn, host.project))
        return [prompt_of(turn) for turn in range(first, last)]

    first = [*turns(0, 15), "/compact the errors", *turns(15, 24), *["/compact"] * 3]
    session = host.run(*first, *turns(24, 33))
    model.add(host.wait_for_server())
    host.run(*turns(33, 36), resume=session)
    host.flags = ["--permission-mode", "plan"]
    model.add(host.wait_for_server())
    host.run(*turns(36, 38), resume=session)
    host.flags = []
    model.add(host.wait_for_server())
    host.run(*turns(38, 39), "/clear", *turns(39, 40), resume=session)


class Person:
    """Who sits before the host, and looks at its screen."""

    def __init__(self, host: ModdedClaude, model: Watching) -> None:
        self.host, self.model = host, model
        self.terminal = host.open_in_tmux()
        self.terminal.wait_for("/effort")
        self.terminal.wait_until(lambda: any(host.plugin.glob(".views/*.json")))

    def do(self, first: int, last: int) -> None:
        """Have some turns done, and wait for the end of each."""
        for turn in range(first, last):
            steps = steps_of(turn, self.host.project)
            if "plan" in self.host.flags:  # there a person is asked about each command
                steps = [look_at_picture(self.host.project), steps[-1]]
            self.model.add(*steps)
            self.terminal.type(prompt_of(turn))
            self.terminal.wait_for(answer_of(turn))
            self.wait()

    def wait(self) -> None:
        """Wait until the host waits."""
        self.terminal.wait_until(lambda: not self._is_at_work())

    def _is_at_work(self) -> bool:
        screen = self.terminal.show()[-3_000:]
        return "esc to interrupt" in screen or "ompacting" in screen

    def compact(self, words: str = "") -> None:
        """Type /compact, and wait until the host has noted it."""
        before = self._count_commands()
        self.terminal.type(f"/compact{words}")
        self.terminal.wait_until(lambda: self._count_commands() > before)
        self.wait()

    def _count_commands(self) -> int:
        files = (self.host.folder / "home/.claude/projects").rglob("*.jsonl")
        return sum(one.read_text("utf-8").count("/compact</command-name>") for one in files)

    def take_back(self, turns: int) -> None:
        """Go back before the last turns."""
        self.terminal.type("/rewind")
        self.terminal.wait_for("Enter to continue")
        self.terminal.press(*["Up"] * turns)
        self.terminal.press("Enter")
        self.terminal.wait_for("1. Restore conversation")
        self.terminal.press("Enter")
        self.terminal.wait_until(lambda: "Restore conversation" not in self.terminal.show())
        self.terminal.press("C-u")  # the prompt is there again, to be changed

    def leave(self) -> None:
        """End the host as a person does."""
        self.terminal.type("/exit")
        self.terminal.wait_until(lambda: not self.terminal.is_there())


def play_with_person(host: ModdedClaude, model: Watching) -> None:
    """Forty turns of a person at a terminal."""
    asks = ["--permission-mode", "default"]  # else the host has its service look at some calls
    host.flags = asks
    person = Person(host, model)
    try:
        person.do(0, 15)
        person.compact(" the errors")
        person.do(15, 24)
        for _ in range(3):
            person.compact()
        person.do(24, 33)
        person.leave()
        host.flags = ["--continue", *asks]
        person = Person(host, model)
        person.do(33, 36)
        person.take_back(2)
        person.do(36, 37)
        person.leave()
        host.flags = ["--continue", "--permission-mode", "plan"]
        person = Person(host, model)
        person.do(37, 39)
        person.terminal.type("/clear")
        person.do(39, 40)
        person.leave()
    finally:
        person.terminal.close()


WAYS: dict[str, tuple[Callable[[ModdedClaude, Watching], None], dict[str, str]]] = {
    "alone": (play_alone, {}),
    "within": (play_alone, WITHIN_TURNS),
    "person": (play_with_person, {}),
    "person-within": (play_with_person, WITHIN_TURNS),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Play each way, and print what was seen."""
    parser = argparse.ArgumentParser(description="Forty turns in Claude Code.")
    parser.add_argument("--only", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--folder", type=Path, help="keep what the host wrote there")
    options = parser.parse_args(argv)
    for name in options.only:
        play, wishes = WAYS[name]
        model = Watching()
        with tempfile.TemporaryDirectory() as made, serve_model(model):
            folder = options.folder / name if options.folder else Path(made)
            (folder / "home").mkdir(parents=True)
            host = ModdedClaude(folder, model, wishes)
            host.project.mkdir()
            (host.project / "picture.png").write_bytes(_PICTURE)
            print(f"{name}:")
            try:
                play(host, model)
            finally:
                describe(model, host)


if __name__ == "__main__":
    main()

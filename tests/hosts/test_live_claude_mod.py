"""Claude Code with our module in it: what is in the requests that it sends to a model."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_compaction.core.log.pinned import PINNED_LABEL
from mcp_compaction.hosts.hook_notes import read_trouble
from tests.checkers import problems
from tests.hosts.live import (
    PROGRAM,
    ClaudeCode,
    ask_doctor,
    binary_of,
    needs_hosts,
    pin_for_project,
)
from tests.hosts.live_mod import (
    PIN,
    PINNED,
    RULE,
    ModdedClaude,
    check,
    messages_of,
    read,
    size_of,
    type_in,
    without_marks,
)
from tests.hosts.scripted_model import ScriptedModel, Step, serve_model
from tests.hosts.tmux import Tmux, needs_tmux

pytestmark = needs_hosts

SERVE = "sh serve.sh"
NOT_RUNNING = "Command running in background with ID: bf7a97f."
RULE_NOT_PINNED = "Never deploy on a Friday. Say hello."


def test_the_hosts_compaction_is_our_view_with_the_pin_once(tmp_path: Path) -> None:
    host = ModdedClaude(tmp_path, ScriptedModel(), flags=["--permission-mode", "acceptEdits"])
    notes = write(host.project / "notes.txt", "one\ntwo\n")
    write(host.project / "serve.sh", f"echo '{NOT_RUNNING}'")
    path = {"file_path": str(notes)}
    begin = [Step(tool="Read", arguments=path), Step(tool="shell", arguments={"command": SERVE})]
    edit = Step(tool="Edit", arguments={**path, "old_string": "two", "new_string": "three"})
    reads = [*begin, *(read(n) for n in range(8))]
    more = [edit, *(read(n) for n in range(8, 16))]
    with serve_model(ScriptedModel(PIN, *reads, Step("read"), *more, Step("read"))) as model:
        host.model = model
        session = host.run(RULE, "/compact the errors", "Go on.", "/compact")
        first, second = model.requests[12], model.requests[11]
        assert size_of(first) < size_of(second) / 2
        assert first.count(PINNED) == 1
        assert notes.read_text("utf-8") == "one\nthree\n"  # without a new Read
        assert NOT_RUNNING in second
        assert "started in the background" not in first  # as the host says
        before = len(model.requests)
        model.add(Step("hello"))
        host.run("Are you there?", resume=session)
        resumed = model.requests[before]
        assert size_of(resumed) < size_of(model.requests[before - 1]) / 2
        assert resumed.count(PINNED) == resumed.count(PINNED_LABEL) == 1
        check(model)
        kept = host.wait_for_words("Are you there?")
        calls = [raw for raw in kept if '"tool_use"' in raw and " of report " in raw]
        results = [raw for raw in kept if '"tool_result"' in raw and "line 1 of report" in raw]
        assert (len(calls), len(results)) == (16, 16)
        assert sum("Are you there?" in raw for raw in kept) == 1
        assert not any(raw.startswith('{"role":"user","content":"[') for raw in kept)


def test_a_run_that_is_over_at_once_has_the_pins_of_its_project_and_is_recorded(
    tmp_path: Path,
) -> None:
    with serve_model(ScriptedModel(Step("Good day."), Step("Good night."))) as model:
        host = ModdedClaude(tmp_path, model)
        host.project.mkdir()
        asyncio.run(pin_for_project(host.project, tmp_path / "home", RULE))
        session = host.run("Hello.")
        host.wait_for_words("Good day.")
        host.run("And now?", resume=session)
        host.wait_for_words("Good night.")
        assert [request.count(PINNED) for request in model.requests] == [1, 1]


def test_a_compaction_with_which_a_run_begins_waits_for_the_server_and_is_ours(
    tmp_path: Path,
) -> None:
    reads = [read(n) for n in range(8)]
    with serve_model(ScriptedModel(PIN, *reads, Step("read"), Step("hello"))) as model:
        host = ModdedClaude(tmp_path, model)
        session = host.run(RULE)
        host.program = ["sh", "-c", '[ "$1" != serve ] || sleep 5; exec "$0" "$@"', PROGRAM]
        host.run("/compact", "Are you there?", resume=session)
        assert size_of(model.requests[-1]) < size_of(model.requests[-2]) / 2
        assert model.requests[-1].count(PINNED) == 1
        assert "We talked." not in model.requests[-1]  # which the host's own summary would say


def write(path: Path, text: str) -> Path:
    """Write a file of the project."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_the_hosts_own_limit_is_answered_by_our_view_amid_the_work(tmp_path: Path) -> None:
    reads = [read(n) for n in range(8)]
    full = read(8)._replace(reported=985_000)
    with serve_model(ScriptedModel(PIN, *reads, full, Step("done"))) as model:
        ModdedClaude(tmp_path, model).run(RULE, "/context")
        *_, before, after = model.requests
        assert size_of(after) < size_of(before) / 2
        assert after.count(PINNED) == 1
        check(model)


def test_a_limit_that_is_moved_within_a_chat_is_the_one_that_counts(tmp_path: Path) -> None:
    with serve_model(ScriptedModel(PIN, Step("pinned"), Step("on"))) as model:
        host = ModdedClaude(tmp_path, model)
        moved = ["/window", "/autocompact 150000", "Go on.", "/window", "/autocompact 900000"]
        host.run(RULE, *moved, "/window")
        shown = [str(one["result"]) for one in host.said if "window: " in str(one.get("result"))]
        assert ["compacts at 117k" in one for one in shown] == [False, True, False]
        assert all("Claude Code compacts at " in one for one in shown)


def test_compact_up_to_a_message_leaves_what_is_newer_as_it_was(tmp_path: Path) -> None:
    reads = [read(n) for n in range(16)]
    with serve_model(ScriptedModel(PIN, *reads, Step("read"), Step("on"))) as model:
        host = ModdedClaude(tmp_path, model)
        host.run(RULE, "/window preview up to m27", "/compact up to m27", "Go on.")
        (preview,) = [one["result"] for one in host.said if "dry run" in str(one.get("result"))]
        (spans,) = re.findall(r"would become a digest: m\d+\.\.m(\d+)\nwould stay: (.+)", preview)
        assert spans[0] == "27"
        assert "m28.." in spans[1]
        shown = [f"line 50 of report {n} is in order" in model.requests[-1] for n in range(16)]
        assert shown == [False] * 12 + [True] * 4
        assert model.requests[-1].count(PINNED) == 1
        check(model)


def test_where_two_compactions_freed_hardly_anything_the_third_says_why_and_the_work_goes_on(
    tmp_path: Path,
) -> None:
    full = [read(n)._replace(reported=68_000 + 100 * n) for n in range(6)]
    first = [PIN._replace(reported=60_000), read(9)._replace(reported=62_000)]
    steps = [*first, *full, Step("All are read.", reported=70_000)]
    with serve_model(ScriptedModel(*steps)) as model:
        host = ModdedClaude(tmp_path, model, {"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "100000"})
        host.run(RULE)  # which the host would end: "Autocompact is thrashing"
        assert [one["result"] for one in host.said if "result" in one] == ["All are read."]
        told = [str(one["text"]) for one in host.said if one.get("key") == "compaction-skipped"]
        assert "c1 and c2 freed " in told[0]
        assert "tokens are held by system and tools 60k, pins " in told[0]
        assert "To make room: " in told[0]
        assert len({one.partition(" tokens")[0] for one in told}) < len(full)
        check(model)


def test_a_subagents_limit_is_answered_by_our_view_with_its_task_and_the_projects_pins(
    tmp_path: Path,
) -> None:
    task, own = "Read the reports, and change nothing.", "This chat is about reports."
    wish = {"description": "read", "prompt": task, "subagent_type": "general-purpose"}
    start = Step(tool="Agent", arguments={**wish, "run_in_background": False})
    pin = Step(tool="pin_constraint", arguments={"text": own, "scope": "session"})
    recall = Step(tool="recall_archived", arguments={"refs": ["m3"]})
    reads, more = [read(n) for n in range(8)], [read(n) for n in range(9, 17)]
    full = read(8)._replace(reported=985_000)
    work = [*reads, full, recall, *more, full, Step("All are read.")]
    with serve_model(ScriptedModel(PIN, pin, start, *work, Step("done"))) as model:
        host = ModdedClaude(tmp_path, model)
        host.run(RULE)
        for before, after in (model.requests[11:13], model.requests[21:23]):
            assert size_of(after) < size_of(before) / 2
            assert task in [block["text"].strip() for block in messages_of(after)[0]["content"]]
            assert after.count(PINNED_LABEL) == after.count(PINNED) == 1
            assert own not in after  # it holds in the chat that pinned it
        assert "line 50 of report 0" not in model.requests[12]
        assert "line 50 of report 0" in model.requests[13]  # by the subagent's own numbers
        assert PINNED_LABEL not in json.dumps(messages_of(model.requests[-1])[0])
        check(model)
        kept = host.wait_for_words("done")
        assert len(kept) == len(set(kept))


def test_the_agents_compaction_is_taken_over_when_its_turn_ends(tmp_path: Path) -> None:
    wish = {"reason": "read", "force": True, "target_percent": 0.3}
    compress = Step(tool="compress_context", arguments=wish)
    reads = [read(n) for n in range(8)]
    steps = [PIN, *reads, compress, Step("The reports are read."), Step("I am.")]
    with serve_model(ScriptedModel(*steps)) as model:
        terminal = ModdedClaude(tmp_path, model).open()
        try:
            terminal.wait_for("/effort")
            type_in(terminal, RULE)
            terminal.wait_for("c1 compacted")  # the line above the prompt
            type_in(terminal, "Are you there?")
            terminal.wait_until(lambda: len(model.requests) >= 12)
        finally:
            terminal.close()
        before, after = model.requests[10:12]
        assert "window: smaller when this turn ends" in before
        assert size_of(after) < size_of(before) / 2
        assert after.count(PINNED) == 1
        assert "The reports are read." in after
        check(model)


def test_without_its_server_the_host_compacts_by_itself_and_the_rule_stands_once(
    tmp_path: Path,
) -> None:
    reads = [read(n) for n in range(4)]
    with serve_model(ScriptedModel(PIN, *reads, Step("read"), Step("on"))) as model:
        host = ModdedClaude(tmp_path, model)
        host.run(RULE, kill_server(host), "/compact", "Go on.", "And on.")
        for request in model.requests[-2:]:
            assert "We talked." in request
            assert "line 50 of report 1" not in request
            assert request.count(PINNED) == 1
        (note,) = read_trouble(host.environ)
        assert "left to the host: the server was not there" in note.what


def test_without_its_server_the_hooks_that_install_wrote_show_the_rule_once(
    tmp_path: Path,
) -> None:
    reads = [read(n) for n in range(4)]
    with serve_model(ScriptedModel(PIN, *reads, Step("read"), Step("on"))) as model:
        host = ClaudeCode(tmp_path, model)
        host.run(RULE, kill_server(host), "/compact", "Go on.", "And on.")
        for request in model.requests[-2:]:
            assert "We talked." in request
            assert request.count(PINNED) == 1
        _, told = ask_doctor(host.environ, host.project)
        (note,) = [one for one in told["notes"] if "left to the host" in one]
        assert "in 30 days 1 time: " in note
        assert "type /mcp in that chat" in note


def kill_server(host: ClaudeCode) -> Callable[[], str]:
    """A turn before which the server of the plugin is killed."""

    def kill() -> str:
        for path in (host.folder / "home").rglob("claude-code-mod/*.json"):
            os.kill(json.loads(path.read_text("utf-8"))["process"], signal.SIGKILL)
        return "/context"

    return kill


def test_with_a_module_that_cannot_be_read_the_host_goes_on_as_without(tmp_path: Path) -> None:
    with serve_model(ScriptedModel(read(0), Step("read"), Step("on"))) as model:
        host = ModdedClaude(tmp_path, model)
        host.plug_in()
        (host.plugin / "hooks/register.jsx").write_text("export const register = (", "utf-8")
        host.run("Read the reports.", "/compact", "Go on.")
        assert "We talked." in model.requests[-1]


def test_within_a_turn_the_request_after_compress_context_is_smaller(tmp_path: Path) -> None:
    wish = {"reason": "read", "force": True, "target_percent": 0.3}
    compress = Step(tool="compress_context", arguments=wish)
    reads = [read(n) for n in range(8)]
    later = [read(n)._replace(thinking="so it is") for n in range(8, 11)]
    # Nothing leaves the machine: what the host would send elsewhere goes to a port nobody has.
    sealed = {"HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
    wishes = {**sealed, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": ""}
    wishes["MCP_COMPACTION_SHRINK_IN_TURN"] = "true"
    with serve_model(ScriptedModel(PIN, *reads, compress, *later, Step("done"))) as model:
        ModdedClaude(tmp_path, model, wishes).run(RULE)
        before, *after = model.requests[9:]
        assert all(size_of(one) < size_of(before) for one in after)
        assert size_of(after[0]) < size_of(before) / 2
        assert [one.count(PINNED) for one in after] == [1] * len(after)
        assert after[-1].count('"type": "thinking"') == 3  # all that was thought since
        assert "# Environment" in after[-1]
        first, second = (json.loads(one)["messages"] for one in after[:2])
        assert without_marks(second[: len(first)]) == without_marks(first)
        check(model)


def test_where_the_host_sends_only_what_is_new_the_window_shrinks_with_the_next_compact(
    tmp_path: Path,
) -> None:
    wish = {"reason": "read", "force": True, "target_percent": 0.3}
    compress = Step(tool="compress_context", arguments=wish)
    wishes = {
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "NO_PROXY": "127.0.0.1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "",
        "MCP_COMPACTION_SHRINK_IN_TURN": "true",
        "CLAUDE_CODE_TETHER_LIVE": "1",
    }
    steps = [PIN, *(read(n) for n in range(8)), compress, read(8), Step("done"), Step("well")]
    with serve_model(ScriptedModel(*steps)) as model:
        host = ModdedClaude(tmp_path, model, wishes)
        host.run(RULE, "/compact", "And now?")
        assert model.threads.continued >= 9
        before, last = model.requests[-2:]
        assert size_of(before) > size_of(model.requests[-4])
        assert "when the host next compacts, by itself or by /compact" in before
        assert size_of(last) < size_of(before) / 2
        assert last.count(PINNED) == 1
        check(model)
        kept = host.rows_kept()
        assert len(kept) == len(set(kept))
        (trouble,) = read_trouble(host.environ)  # which doctor tells
        assert "message threads" in trouble.what


def test_a_large_result_is_a_preview_in_the_request_after_it(tmp_path: Path) -> None:
    wishes = {"MCP_COMPACTION_OFFLOAD_OVER_TOKENS": "5000"}
    wishes["MCP_COMPACTION_OFFLOAD_OVER_TOKENS"] = "500"
    with serve_model(ScriptedModel()) as model:
        host = ModdedClaude(tmp_path, model, wishes)
        model.add(PIN, *host.wait_to_be_served(), read(0), Step("read"))
        host.run(RULE)
        assert "line 50 of report 0" not in model.requests[4]
        assert "recall_archived refs m" in model.requests[4]
        assert any("line 50 of report 0" in raw for raw in host.rows_kept())


def test_a_pin_made_in_a_terminal_is_in_the_next_request_and_once_after_compactions(
    tmp_path: Path,
) -> None:
    says = [Step("read"), Step("on"), Step("and on"), Step("still"), Step("yes")]
    with serve_model(ScriptedModel()) as model:
        host = ModdedClaude(tmp_path, model)
        reads = [host.wait_for_server(), *(read(n) for n in range(6))]
        model.add(*reads, *says)
        pin = pin_in_terminal(host, "Go on.")
        host.run("Read the reports.", pin, "And on?", "/compact", "Still?", "/compact", "Now?")
        before, first, *later = model.requests[len(reads) :]
        shown = PINNED.replace("by user", "by agent")  # no person sits before that terminal
        assert shown not in before
        assert [one.count(shown) for one in (first, *later)] == [1] * 4
        sent = json.loads(before)["messages"]
        assert without_marks(json.loads(first)["messages"][: len(sent)]) == without_marks(sent)
        assert not any(RULE in raw for raw in host.rows_kept())
        check(model)


def pin_in_terminal(host: ModdedClaude, prompt: str) -> Callable[[], str]:
    """A turn before which the user pins the rule in a terminal."""

    def pin() -> str:
        command = [PROGRAM, "pin", RULE]
        subprocess.run(command, env=host.environ, cwd=host.project, check=True, capture_output=True)
        return prompt

    return pin


def compact_without_module(host: ModdedClaude) -> str:
    """The session of a chat that the host itself has compacted three times; the module is whole
    afterwards."""
    host.plug_in()
    module = host.plugin / "hooks/register.jsx"
    ours = module.read_bytes()
    module.write_text("export const register = (", "utf-8")
    turns = [turn for n in range(3) for turn in (f"Read report {n}.", "/compact")]
    session = host.run(RULE_NOT_PINNED, *turns)
    module.write_bytes(ours)
    return session


def test_what_the_host_compacted_three_times_comes_back_when_its_user_asks(tmp_path: Path) -> None:
    reads = [step for n in range(3) for step in (read(n), Step("read"))]
    steps = [Step("hello"), *reads, Step("here I am"), Step("still here")]
    with serve_model(ScriptedModel(*steps)) as model:
        host = ModdedClaude(tmp_path, model)
        session = compact_without_module(host)
        host.run("Are you there?", "/uncompact", "/compact", "And now?", resume=session)
        last = model.requests[-1]
        assert not problems(messages_of(last), "anthropic")
        for sentence in (RULE_NOT_PINNED, *(f"Read report {n}." for n in range(3))):
            assert sentence in last
        assert "line 50 of report 1" in last
        assert '"type": "thinking"' not in last  # so that nothing in it is bound to what was


@needs_tmux
def test_a_person_who_resumes_such_a_chat_has_it_back_with_a_compaction(tmp_path: Path) -> None:
    reads = [step for n in range(3) for step in (read(n), Step("read"))]
    with serve_model(ScriptedModel(Step("hello"), *reads, Step("still here"))) as model:
        host = ModdedClaude(tmp_path, model)
        session = compact_without_module(host)
        host.flags = ["--resume", session]
        refused = len(model.unbound)  # before, where tools came late
        terminal = host.open_in_tmux()
        try:
            terminal.wait_for("/effort")
            terminal.wait_until(lambda: any(host.plugin.glob(".views/*.json")))
            terminal.type("/uncompact")
            terminal.wait_for("comes back with /compact, or when the next turn ends")
            terminal.type("/compact")
            terminal.wait_for("messages back")
            terminal.type("And now?")
            terminal.wait_for("still here")
        finally:
            terminal.close()
        last = model.requests[-1]
        assert not problems(messages_of(last), "anthropic")
        for sentence in (RULE_NOT_PINNED, *(f"Read report {n}." for n in range(3)), "And now?"):
            assert sentence in last
        assert len(model.unbound) == refused


@needs_tmux
def test_a_pin_whose_words_are_taken_back_is_in_the_next_request_and_once_later(
    tmp_path: Path,
) -> None:
    wish = {"reason": "read", "force": True, "target_percent": 0.3}
    compress = Step(tool="compress_context", arguments=wish)
    with serve_model(ScriptedModel(Step("Hello."), PIN, read(0), Step("It is pinned."))) as model:
        terminal = ModdedClaude(tmp_path, model).open_in_tmux()

        def say(text: str, *steps: Step) -> str:
            model.add(*steps)
            terminal.type(text)
            terminal.wait_for(steps[-1].text)
            return model.requests[-1]

        try:
            terminal.wait_for("/effort")
            for text, answer in (("Hi.", "Hello."), (RULE, "It is pinned.")):
                terminal.type(text)
                terminal.wait_for(answer)
            take_back(terminal)
            assert say("Go on.", Step("I go on.")).count(PINNED) == 1
            assert RULE not in model.requests[-1].replace(PINNED, "")
            say("Read them.", *(read(n) for n in range(1, 6)), compress, Step("Read they are."))
            terminal.wait_for("c1 compacted")
            assert say("And now?", Step("Now nothing.")).count(PINNED) == 1
        finally:
            terminal.close()
        check(model)


@needs_tmux
def test_the_screen_tells_of_a_compaction_once_and_shows_no_record_as_a_prompt(
    tmp_path: Path,
) -> None:
    reads = [read(n) for n in range(5)]
    with serve_model(ScriptedModel(PIN, *reads, Step("All are read."), Step("Nothing."))) as model:
        host = ModdedClaude(tmp_path, model)
        terminal = host.open_in_tmux()
        try:
            terminal.wait_for("/effort")
            terminal.wait_until(lambda: any(host.plugin.glob(".views/*.json")))
            terminal.type("Read them.")
            terminal.wait_for("All are read.")
            terminal.type("/compact")
            terminal.wait_for("c1 compacted")
            terminal.wait_for("⎿  digest d1 of m2")
            screens = [terminal.show()]
            terminal.type("And now?")
            terminal.wait_for("Nothing.")
            screens.append(terminal.show())
            for screen in screens:
                assert screen.count("c1 compacted") == 1
                assert "⎿  pinned: rules" in screen
                assert "⎿  digest d1 of m2" in screen
                assert "❯ [" not in screen
                assert "line 1 of report" not in screen  # it is folded
            terminal.press("C-o")
            terminal.wait_for("line 1 of report")
            assert "⎿  [kept word for word" in terminal.show()
            assert "❯ [" not in terminal.show()
        finally:
            terminal.close()
        check(model)


def take_back(terminal: Tmux) -> None:
    """Have the host go back before the last prompt."""
    terminal.type("/rewind")
    terminal.wait_for("Enter to continue")
    terminal.press("Up", "Enter")
    terminal.wait_for("1. Restore conversation")
    terminal.press("Enter")
    terminal.wait_until(lambda: "Restore conversation" not in terminal.show())
    terminal.press("C-u")  # the prompt is there again, to be changed


@needs_tmux
def test_before_the_cache_of_an_idle_chat_ends_a_hint_says_so(tmp_path: Path) -> None:
    package = Path(binary_of("claude-code")).with_name("package.json")
    version = json.loads(package.read_text("utf-8"))["version"]
    if [*map(int, version.split("."))] < [2, 1, 328]:
        pytest.skip(f"{version} does not tell how long the cache holds")
    large = Step("Hello.", reported=70_000, written=50_000)
    with serve_model(ScriptedModel(large)) as model:
        host = ModdedClaude(tmp_path, model)
        host.plug_in()
        module = host.plugin / "hooks/register.jsx"
        told = module.read_text("utf-8")
        assert "const CACHE_LEFT_MS = 60000;" in told
        module.write_text(told.replace("CACHE_LEFT_MS = 60000;", "CACHE_LEFT_MS = 300000;"))
        terminal = host.open_in_tmux()
        try:
            terminal.wait_for("/effort")
            terminal.type("Hi.")
            terminal.wait_for("the cache ends in a minute, then a prompt pays 120k tokens anew")
            terminal.type("/compact")
            terminal.wait_until(lambda: "the cache ends" not in terminal.show())
        finally:
            terminal.close()


@needs_tmux
def test_where_a_chat_is_resumed_behind_the_end_of_its_cache_a_hint_says_so(tmp_path: Path) -> None:
    with serve_model(ScriptedModel(Step("Hello.", reported=120_000))) as model:
        host = ModdedClaude(tmp_path, model)
        session = host.run("Hi.")
        (transcript,) = (tmp_path / "home/.claude/projects").rglob(f"{session}.jsonl")
        lines = transcript.read_text("utf-8")
        transcript.write_text(re.sub(r'"timestamp":"20\d\d-', '"timestamp":"2025-', lines))
        host.flags = ["--resume", session]
        terminal = host.open_in_tmux()
        try:
            terminal.wait_for("the cache has ended, the next prompt pays 120k tokens anew")
        finally:
            terminal.close()

"""What is refused, with which code and which next step; and that nothing was changed by it."""

from __future__ import annotations

import gzip
import json
import os
import signal
from importlib import import_module
from pathlib import Path

import pytest

from mcp_compaction.cli.console.invocation import Invocation
from mcp_compaction.cli.console.speaker import read_text
from mcp_compaction.cli.main import COMMANDS, main
from mcp_compaction.errors import InputError
from tests.cli.conftest import CHAT, Shell, Stream

# These need no store.
STARTING = (
    "team copy",
    "team send",
    "team migrate",
    "team token",
    "run",
    "gateway",
    "install",
    "uninstall",
    "record",
    "import",
    "sessions",
    "facts",
    "eval lab",
    "doctor",
    "serve",
    "demo",
    "eval",
    "store restore",
    "eval audit",
    "eval compactions",
    "eval read",
    "uncompact",
)
HELLO = b'{"role":"user","content":"Hello"}\n'

BAD_ARGUMENTS = [
    (["stats", "--session", "nobody"], "pass --session with one of: tax-2026."),
    (["show", "--session", ""], "pass --session with one of: tax-2026."),
    (["stats", "--session", "half \ud800"], "pass --session with one of: tax-2026."),
    (["recall", "--refs", "m9999"], "search by words instead."),
    (["recall", "--refs", "what"], "d1, p2 or the id of a tool call."),
    (["recall", "--refs", "m1, d9"], "there are: d1."),
    (["recall", "--refs", "p9"], "in force are: p1."),
    (["recall", "--refs", "d1", "--raw"], "or write --refs m42."),
    (["recall", "staging", "--around", "-1"], "pass --around 2."),
    (["recall", "staging", "--around", "2", "--json"], "leave out --json and --scope all."),
    (["recall"], "one of the two."),
    (["recall", "staging", "--raw"], "as --refs m42."),
    (["recall", "staging", "--skip", "-1"], "pass a positive number."),
    (["recall", "..."], "pass words or an identifier."),
    (["restore", "c99"], "the newest are: c1."),
    (["restore", "x"], "write it as c4."),
    (["compress", "--span", "m9000..m9001"], "the newest message is m81."),
    (["compress", "--span", "m3"], "write it as m12..m40."),
    (["compress", "--reason", " "], "say in a few words why now."),
    (["compress", "--target-percent", "120"], "pass --target-percent above 0 and below 100."),
    (["compress", "--target-percent", "0"], "pass --target-percent above 0 and below 100."),
    (["compress", "--target-percent", "much"], "see: mcp-compaction compress --help"),
    (["compress", "--digest", "nowhere.txt"], "pass a file, or - for stdin."),
    (["compress", "--digest", "-", "--session", "new"], "or write lines under its headings."),
    (["pin", "x", "--expires", "0001-01-01"], "write 2026-11-30, 3h or 2d."),
    (["stats", "--window-tokens", "9"], "settings file; see: mcp-compaction stats --help"),
    (["compress", "--window-tokens", "none"], "change or remove it."),
    (["stats", "--preset", "ladr"], "did you mean ladder?"),
    (["unpin", "p99"], "there are: p1."),
    (["unpin", "m1"], "write it as p4."),
    (["pin", " "], "pass the rule word for word."),
    (["pin", "a NUL \0 inside"], "pass it without it."),
    (["pin", "half \udcff of it"], "pass it without it."),
    (["pin", " ", "--session", "new"], "pass the rule word for word."),
    (["pin", "x", "--session", "two\nlines"], "pass --session with one of: tax-2026."),
    (
        ["pin", "x", "--session", "tax-2025"],
        "(did you mean tax-2026?); pass --session with one of: tax-2026.",
    ),
    (["compress", "--target-percent", "0.25"], "did you mean --target-percent 25?"),
    (["compress", "--target-percent", "0.01"], "did you mean --target-percent 1?"),
    (["compress", "--target-percent", "0.004"], "percent of the window; pass 1 or more."),
    (["compress", "--target-percent", "0.99999999"], "percent of the window; pass 1 or more."),
    (["pin", "x", "--expires", "soon"], "write 2026-11-30, 3h or 2d."),
    (["pin", "x", "--expires", "2001-01-01"], "pass a moment to come, or none."),
    (["pin", "x", "--supersedes", "p99"], "there are: p1."),
    (["pin", "x", "--supersedes", "p1", "--session", "new"], "one of: tax-2026."),
    (["forget", "nobody", "--yes"], "; SESSION is one of: tax-2026."),
    (["forget", "tax-2026", "m9999", "--yes"], " --session tax-2026 WORDS"),
    (["backup", "/nowhere/at/all.db"], "no folder /nowhere/at; make it, or pass another FILE."),
    (["export", "--output", "/nowhere/at/all"], "choose a new file."),
    (["sessions", "--limit", "0"], "pass 1 or more."),
    (["sessions", "--limit", "9" * 23], "pass 2,147,483,647 or fewer."),
    (["gateway", "--upstream", "http://127.0.0.1:9", "--port", "65536"], "or 0 for a free one."),
    (["gateway", "--upstream", "http://127.0.0.1:9", "--port", "-1"], "or 0 for a free one."),
    (["record", "nowhere.jsonl"], "pass a file, or - for stdin."),
    (["record", "a\0b"], "pass a file, or - for stdin."),
    (["record", "--session", "s", "--window", "0", "-"], "as 200000."),
    (["set", "--window", "10"], "as 200000."),
    (["show", "--records", "--max-chars", "10"], "or pass a larger one."),
    (["recall", "--refs", "d1", "--max-tokens", "100"], "shown whole: leave them out."),
    (["recall", "--refs", "m5..m2"], "ends before it begins; write m2..m5."),
    (["compress", "--span", "m5..m2"], "ends before it begins; write m2..m5."),
    (["record", "--session", " ", "-"], "write one such as tax-2026."),
    (["record", "--after", "m9999", "-"], "."),
    (["record", "--after", "m1", "--session", "new", "-"], "one of: tax-2026."),
]

BAD_MESSAGES = [
    (b"", "send JSON or one message a line."),
    (b"not JSON", 'such as {"role": "user", "content": "Hello"}, one a line.'),
    (gzip.compress(HELLO, mtime=0), "is compressed; unpack it first, as with: gunzip"),
    (b'{"role":"user"', "send it complete."),
    (HELLO + b'{"role":"assistant","content":"to', "send it complete."),
    (HELLO + b"[1]\n", "put one JSON object on each line."),
    (b'{"role":"user","content":NaN}', "correct it."),
    (b'{"role":"user","content":"a\0b"}', "."),
    (b'{"role":"user","content":"\xed\xa0\x80"}', "convert it first, as with: iconv -t UTF-8"),
    (b'{"role":"user","content":"' + b"a" * (16 * 2**20) + b'"}', "send the path."),
    (b'{"role":"user","content":' + b"[" * 5000 + b"]" * 5000 + b"}", "."),
]


@pytest.mark.parametrize(("argv", "ending"), BAD_ARGUMENTS)
def test_bad_arguments_change_nothing_and_name_the_next_step(
    argv: list[str], ending: str, recorded: Shell
) -> None:
    before = recorded.dump()
    ran = recorded(*argv, stdin=HELLO if "record" in argv else b"  \n")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("mcp-compaction: ")
    assert ran.err.endswith(ending + "\n")
    assert recorded.dump() == before


@pytest.mark.parametrize(("data", "ending"), BAD_MESSAGES)
def test_bad_messages_change_nothing_and_name_the_next_step(
    data: bytes, ending: str, recorded: Shell
) -> None:
    before = recorded.dump()
    ran = recorded("record", "--session", "tax-2026", stdin=data)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("mcp-compaction: ")
    assert ran.err.endswith(ending + "\n")
    assert recorded.dump() == before


@pytest.mark.parametrize("name", [n for n in COMMANDS if n not in (*STARTING, "pins", "trust")])
def test_looking_makes_no_store(name: str, shell: Shell) -> None:
    words = {
        "restore": ["c1"],
        "recall": ["word"],
        "pin": ["x", "--supersedes", "p1"],
        "unpin": ["p1"],
        "store forget": ["s", "--yes"],
        "store backup": [str(shell.folder / "b.db")],
    }
    ran = shell(name, *words.get(name, []))
    assert ran.code == 2
    assert f"yet; first run: mcp-compaction record --home {shell.home} " in ran.err
    assert ran.err.endswith(" FILE\n")
    assert not shell.home.exists()


def test_a_terminal_on_stdin_is_no_file(shell: Shell) -> None:
    ran = shell.at_terminal()("record")
    assert ran.code == 2
    assert "pipe into it" in ran.err


def test_a_bottomless_input_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="stdin has more than 10 bytes; split it"):
        read_text("-", Stream(b"a" * 11), limit=10)


def test_where_recording_is_off_nothing_is_recorded(shell: Shell) -> None:
    project = shell.environ["MCP_COMPACTION_PROJECT"]
    config = shell.folder / "config" / "mcp-compaction"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(f'[projects."{project}"]\nrecord = false\n')
    ran = shell("record", "--session", "s", stdin=CHAT)
    assert ran.code == 2
    assert "the setting `record` is false" in ran.err
    assert not shell.home.exists()
    elsewhere = ("--project", str(shell.folder / "other"))
    assert shell("record", "--session", "s", *elsewhere, stdin=CHAT).code == 0


def test_the_gate_refuses_with_code_1(recorded: Shell) -> None:
    before = recorded.dump()
    ran = recorded("compress")
    assert ran.code == 1
    assert ran.out.startswith("not compressed: ")
    assert "--force" in ran.out
    assert recorded("compress", "--json").json()["kind"] == "refusal"
    assert recorded.dump() == before


def test_a_store_that_is_none_gives_code_3(shell: Shell) -> None:
    shell.home.mkdir(mode=0o700)
    foreign = shell.home / "store.db"
    foreign.write_bytes(b"these are my holiday notes, not a database" * 100)
    before = foreign.read_bytes()
    for name in ("sessions", "stats", "doctor"):
        ran = shell(name)
        assert ran.code == 3
        assert ran.err.startswith("mcp-compaction: ")
    assert foreign.read_bytes() == before


def test_a_folder_in_place_of_the_store_is_to_be_moved_away(shell: Shell) -> None:
    (shell.home / "store.db").mkdir(parents=True, mode=0o700)
    for words in (["sessions"], ["record", "-"], ["doctor"]):
        ran = shell(*words, stdin=HELLO)
        assert ran.code == 3
        assert ran.err.endswith("store.db is a folder, and the store is a file; move it away.\n")


@pytest.mark.parametrize("below", ["", "deeper"])
@pytest.mark.parametrize("words", [["record", "-"], ["stats"], ["sessions"]])
def test_a_file_in_place_of_the_home_is_named(shell: Shell, words: list[str], below: str) -> None:
    file = shell.folder / "chat.jsonl"
    file.write_bytes(HELLO)
    ran = shell.bare(*words, "--home", str(file / below), stdin=HELLO)
    assert (ran.code, ran.out) == (2, "")
    assert f"{file} is a file, and the store needs a folder; pass a folder to --home" in ran.err


def replace_run(name: str, error: BaseException, patch: pytest.MonkeyPatch) -> None:
    """Have a command fail."""

    async def run(call: Invocation) -> int:
        raise error

    patch.setattr(import_module(COMMANDS[name].module), "run", run)


def test_the_unexpected_gives_code_4_and_lines_to_report(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_run("sessions", RuntimeError("the moon fell down"), monkeypatch)
    ran = shell("sessions")
    assert ran.code == 4
    assert "unexpected RuntimeError: the moon fell down" in ran.err
    assert "in: mcp-compaction sessions, version " in ran.err
    assert "Traceback" not in ran.err
    debugged = shell.with_environ({"MCP_COMPACTION_DEBUG": "1"})("sessions")
    assert debugged.code == 4
    assert "Traceback" in debugged.err


def test_an_interruption_gives_code_130(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_run("sessions", KeyboardInterrupt(), monkeypatch)
    ran = shell("sessions")
    assert (ran.code, ran.err) == (130, "mcp-compaction: interrupted\n")


class Interrupting(Stream):
    """A stream at which the person presses Ctrl-C instead of writing."""

    goes_on = False

    def readline(self, size: int = -1, /) -> str:
        """Wait for a line; only an exception ends that."""
        signal.raise_signal(signal.SIGINT)
        self.goes_on = True
        return "yes"


def test_an_interrupted_question_is_a_no(recorded: Shell) -> None:
    out, err, person = Stream(is_terminal=True), Stream(), Interrupting(is_terminal=True)
    argv = ["forget", "tax-2026", "--home", str(recorded.home)]
    assert main(argv, out, err, person, recorded.environ) == 130
    assert not person.goes_on
    assert recorded.done("sessions").startswith("tax-2026")


def test_a_deleted_working_directory_is_named(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = shell.folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    ran = shell.with_environ({"MCP_COMPACTION_PROJECT": ""})("sessions")
    assert ran.code == 2
    assert ran.err.endswith("pass --project PATH.\n")


def test_a_session_of_another_project_is_named_with_its_project(
    recorded: Shell, tmp_path: Path
) -> None:
    elsewhere = recorded.with_environ({"MCP_COMPACTION_PROJECT": str(tmp_path / "elsewhere")})
    ran = elsewhere("stats", "--session", "tax-2026")
    assert ran.code == 2
    assert "it is one of another project: pass --project " in ran.err
    shown = elsewhere("stats", "--session", "tax-2026", "--project", ran.err.split()[-1])
    assert shown.code == 0
    assert "see those of every project: mcp-compaction sessions " in elsewhere("stats").err


def test_doctor_finds_a_store_others_can_read(recorded: Shell) -> None:
    recorded.home.chmod(0o755)
    ran = recorded("doctor")
    assert ran.code == 1
    assert "problem: " in ran.out
    assert "chmod go-rwx" in ran.out
    assert json.loads(recorded("doctor", "--json").out)["problems"]


def test_doctor_tells_where_settings_come_from(recorded: Shell) -> None:
    config = recorded.folder / "config" / "mcp-compaction"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('redact = false\nwindow_tokens = 9000\npreset = "lab"\n')
    set_here = recorded.with_environ({"MCP_COMPACTION_RELEASE_PERCENT": "50"})
    listed = {s["name"]: s for s in set_here("doctor", "--json").json()["settings"]}
    sources = {name: listed[name]["source"] for name in ("home", "redact", "window_tokens")}
    assert sources == {
        "home": "--home",
        "redact": "settings file",
        "window_tokens": "settings file",
    }
    assert listed["release_percent"]["source"] == "MCP_COMPACTION_RELEASE_PERCENT"
    assert listed["agent_controlled"]["source"] == "preset lab"
    assert "summarizer" not in listed


def test_doctor_tells_what_is_no_longer_a_setting(recorded: Shell) -> None:
    environ = {"MCP_COMPACTION_FACT_DAYS": "9", "MCP_COMPACTION_VIEW_TIMEOUT_SECONDS": "60"}
    said = recorded.with_environ(environ).done("doctor")
    assert "note: fact_days is no longer a setting, and nothing comes of it: remove it" in said
    assert "view_timeout_seconds" not in said


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("command", ["record", "import"])
@pytest.mark.parametrize("name", ["chat.json", "chat.jsonl", "chat.db"])
def test_a_pipe_in_place_of_a_file_is_refused_without_waiting(
    shell: Shell, command: str, name: str
) -> None:
    os.mkfifo(shell.folder / name)
    ran = shell(command, str(shell.folder / name))
    assert ran.code == 2
    assert "is no regular file; pass" in ran.err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (("stats", "tax-2026"), "did you mean --session tax-2026?"),
        (("compress", "--dryrun"), "did you mean --dry-run?"),
        (("compress", "--dryRun"), "did you mean --dry-run?"),
        (("compress", "--quantum"), "--quantum; see: "),
    ],
)
def test_a_word_that_is_not_taken_gets_a_hint(
    typed: tuple[str, ...], meant: str, shell: Shell
) -> None:
    ran = shell(*typed)
    assert ran.code == 2
    assert meant in ran.err

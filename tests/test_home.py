"""All that writes files for a user is run, and each file is of a kind in the table of `home.py`.

The commands are processes of their own, with a umask that would let everybody read, and each notes
what it makes, so that a file is seen however short it lives.
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePath
from threading import Thread
from typing import Any

import pytest

from mcp_compaction import home
from mcp_compaction.cli.console.invocation import write_html
from mcp_compaction.errors import InputError
from mcp_compaction.home import KINDS, Kind, Place, mode_problems, write_whole
from mcp_compaction.hosts.hook_notes import note_trouble
from mcp_compaction.hosts.serving import ServedChat, find_served_chat, note_chat
from mcp_compaction.store.outbox import Outbox
from tests.hosts.terminal import user_input
from tests.server.claude_host import SESSION, ClaudeHost
from tests.server.test_claude_mod import work
from tests.view_service.test_listening import ask

PACKAGE = Path(home.__file__).parent
DOCS = PACKAGE.parent / "docs"
PROGRAM = str(Path(sys.executable).with_name("mcp-compaction"))
PROJECT = "/home/ann/shop"
WORD = "plumtree"
TOKEN = "ghp_" + "a1B2c3" * 6
PUSH = f"git push https://x:{TOKEN}@github.com/o/{WORD}.git HEAD:main"
SECONDS = 120
# SQLite makes and removes these by itself, or they live for a moment inside its calls.
UNSEEN = ("store.db-*", "outbox.db-*")

# Run at the start of each Python: it writes the path of each file that is made.
WATCH = """\
import os, sys
os.umask(0)
log = os.open(os.environ["MADE_FILES"], os.O_WRONLY | os.O_APPEND)
def note(event, args):
    if event == "open" and isinstance(args[0], (str, bytes)) and args[2] & os.O_CREAT:
        os.write(log, os.path.abspath(os.fsdecode(args[0])).encode() + b"\\n")
    elif event in ("os.rename", "os.link"):
        os.write(log, os.path.abspath(os.fsdecode(args[1])).encode() + b"\\n")
sys.addaudithook(note)
"""
HOST = f"""\
import json, os, sys, urllib.request
(name,) = (word[11:] for word in sys.argv if word.startswith("--settings="))
settings = json.load(open(name))
url = settings["env"]["ANTHROPIC_BASE_URL"] + "/v1/messages"
for model in ("claude-sonnet-4-5", "claude-sonnet-5-5"):
    headers = {{"x-claude-code-session-id": f"chat-{{model}}", "content-type": "application/json"}}
    said = []
    for n in range(12):
        text = f"Report {{n}} of the {WORD}. " + "It is long. " * 100
        said.append({{"role": "user", "content": text}})
        body = {{"model": model, "tools": [{{"name": "Read"}}], "messages": said}}
        asked = urllib.request.Request(url, json.dumps(body).encode(), headers)
        answer = json.loads(urllib.request.urlopen(asked).read())
        said.append({{"role": "assistant", "content": answer["content"]}})
"""


def kind_of(below: PurePath, place: Place) -> Kind | None:
    """The kind of a file below its folder; None: it is not in the table."""
    *folders, name = below.parts
    parts = (*folders, name.partition(".new-")[0])
    return next((one for one in KINDS if one.place == place and fits(parts, one.name)), None)


def fits(parts: tuple[str, ...], pattern: str) -> bool:
    """Whether a path is one that a name of the table means."""
    *before, last = pattern.split("/")
    if last == "**" and len(parts) > len(before):
        parts, last = (*parts[: len(before)], ""), ""
    return len(parts) == len(before) + 1 and all(map(fnmatchcase, parts, (*before, last)))


class Loopback(BaseHTTPRequestHandler):
    """A provider, and a team's server that takes nothing and says what it does not take."""

    def do_POST(self) -> None:
        """Answer one request."""
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        is_model = "messages" in self.path
        told = {"id": "m", "type": "message", "role": "assistant", "model": asked.get("model")}
        told |= {"usage": {"input_tokens": len(json.dumps(asked)) // 4, "output_tokens": 9}}
        number = len(asked.get("messages", ()))
        told["content"] = [{"type": "text", "text": f"answer {number}"}]
        if told["model"] == "claude-sonnet-5-5":
            thought = {
                "type": "thinking",
                "thinking": f"thought {number}",
                "signature": f"s{number}",
            }
            told["content"].insert(0, thought)
        data = json.dumps(told).encode() if is_model else f"no {WORD} with {PUSH}".encode()
        self.send_response(200 if is_model else 400)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@dataclass(frozen=True)
class Machine:
    """A user's machine: runs our program, and knows which files it made."""

    folder: Path
    url: str

    @property
    def roots(self) -> dict[Place, Path]:
        """The folders that are ours."""
        base = self.folder / ".local"
        return {
            "store": base / "share/mcp-compaction",
            "state": base / "state/mcp-compaction",
            "temporary": self.folder / "tmp",
        }

    @property
    def environ(self) -> dict[str, str]:
        """An environment without a trace of the real one."""
        return {
            "HOME": str(self.folder),
            "PATH": f"{self.folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "TMPDIR": str(self.roots["temporary"]),
            "PYTHONPATH": str(self.folder / "watch"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "MADE_FILES": str(self.folder / "made"),
            "MCP_COMPACTION_TOKEN": "t" * 32,
            "MCP_COMPACTION_PROJECT": PROJECT,
            "MCP_COMPACTION_COUNTER": "estimate",
        }

    def run(self, *words: str, code: int = 0, **given: Any) -> str:
        """What a command prints; `given`: what it reads."""
        ran = subprocess.run(
            [PROGRAM, *words],
            env=self.environ,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
            **(given or {"input": ""}),
        )
        assert ran.returncode == code, (words, ran.stdout, ran.stderr)
        return ran.stdout

    def type(self, *words: str) -> str:
        """What a command prints that is run at a terminal."""
        with user_input() as stdin:
            return self.run(*words, stdin=stdin)

    def hook(self, event: str, **told: Any) -> str:
        """What Claude Code reads of a hook that it runs."""
        given = {"session_id": SESSION, "cwd": PROJECT, "hook_event_name": event, **told}
        return self.run("hook", "claude-code", event, input=json.dumps(given))

    def push(self, call: str, session: str = SESSION) -> str:
        """What Claude Code reads before it pushes."""
        given = {"tool_name": "Bash", "tool_input": {"command": PUSH}, "tool_use_id": call}
        return self.hook("PreToolUse", session_id=session, **given)

    def made(self) -> Iterator[tuple[Place, Path]]:
        """The files in our folders, that are there or were."""
        noted = {Path(line) for line in (self.folder / "made").read_text().splitlines()}
        for place, root in self.roots.items():
            there = {path for path in root.rglob("*") if path.is_file()}
            for path in there | noted:
                # The standard library tries out by such a file which folder is for temporary ones.
                is_trial = place == "temporary" and re.fullmatch(r"[a-z0-9_]{8}", path.name)
                if path.is_relative_to(root) and not is_trial:
                    yield place, path

    def kinds_with(self, text: str) -> set[str]:
        """The kinds of the files that hold a text now."""
        found = set[str]()
        for place, path in self.made():
            if path.is_file() and text.encode() in path.read_bytes():
                kind = kind_of(path.relative_to(self.roots[place]), place)
                found.add(kind.name if kind else str(path))
        return found


@pytest.fixture
def machine(tmp_path: Path) -> Generator[Machine]:
    """A machine with a program that passes for Claude Code."""
    folder = tmp_path.resolve()
    for name in ("watch", "bin", "tmp"):
        (folder / name).mkdir()
    (folder / "watch/sitecustomize.py").write_text(WATCH)
    (folder / "made").touch()
    host = folder / "bin/claude"
    host.write_text(f"#!{sys.executable}\n{HOST}")
    host.chmod(0o755)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Loopback)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Machine(folder, f"http://127.0.0.1:{server.server_address[1]}")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def plugin_server(machine: Machine) -> Generator[Path]:
    """The server that Claude Code starts from our plugin; the file with its address."""
    views = machine.roots["store"] / "installed/claude-code/all/mcp-compaction/.views"
    environ = machine.environ | {"MCP_COMPACTION_VIEWS": str(views), "CLAUDECODE": "1"}
    environ["CLAUDE_CODE_SESSION_ID"] = SESSION
    with subprocess.Popen(
        [PROGRAM, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        info = {"name": "claude-code", "version": "2.1.325"}
        start = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
        messages: tuple[dict[str, Any], ...] = (
            {"id": 1, "method": "initialize", "params": start},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": {"name": "context_stats", "arguments": {}}},
        )
        for message in messages:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            process.stdin.flush()
        for line in process.stdout:
            if json.loads(line).get("id") == 2:
                break
        try:
            yield views / f"{SESSION}.json"
        finally:
            process.stdin.close()
            process.wait(SECONDS)


async def live(machine: Machine) -> None:
    """Do all that a user and their hosts do."""
    run, store = machine.run, machine.roots["store"]
    host = ClaudeHost(machine.folder)
    host.type(f"Never push to main. The {WORD} is secret: {PUSH}")
    host.run("call_1", PUSH, f"pushed the {WORD}")
    work(host, 0, 12)
    host.compact_by_host("All reports are read.")
    work(host, 12, 14)
    settings = {"env": {"ANTHROPIC_BASE_URL": machine.url}}
    (machine.folder / ".claude/settings.json").write_text(json.dumps(settings))
    run("run", "--preset", "subagent", "--", "claude")
    for name in ("codex", "opencode"):
        run("install", name)
    run("install", "claude-code", "--server", machine.url)
    machine.hook("UserPromptSubmit", transcript_path=str(host.transcript))
    run("import")
    listed = json.loads(run("sessions", "--json"))
    (name,) = {one["name"] for one in listed if one["host_session"] == SESSION}
    at = ("--session", name)
    machine.type("pin", "Never push to main.", *at)
    machine.type("trust", "headless")
    machine.type("pins", "check", "p1", "--accept")
    machine.type("install", "claude-code")
    machine.type("trust", "headless")
    assert TOKEN not in machine.push("call_1")
    machine.type("pins", "check", "p1", "--once")
    assert machine.push("call_2") == ""
    rules = home.RULES.path(store)
    whole = rules.read_text()
    rules.write_text("{")
    assert "cannot be read" in machine.push("call_3", f"chat-of-{WORD}-{TOKEN}")
    write_whole(rules, whole)
    run("compress", *at, "--target-percent", "1", "--force")
    waiting = {"hookSpecificOutput": {"additionalContext": f"The {WORD} was pushed."}}
    home.NEXT_PROMPT.write(store, json.dumps(waiting), SESSION)  # as after an answer in Gemini CLI
    with plugin_server(machine) as place:
        await ask(place, "/claude/append", session=SESSION)
        await ask(place, "/claude/status", session=SESSION)
        assert machine.kinds_with(SESSION) >= {"claude-code-mod/*.json"}
    serving = subprocess.Popen(
        [PROGRAM, "serve", "--http", "--port", "0"], env=machine.environ, stderr=subprocess.PIPE
    )
    with serving:
        assert serving.stderr is not None
        serving.stderr.readline()
        serving.terminate()
    run("open", name, "--html", "page.html")
    run("eval", "audit", "--html", "audit.html")
    run("store", "export", *at, "--output", "chat.jsonl")
    run("store", "backup", "copy.db")
    run("doctor", code=1)
    machine.type("store", "restore", "copy.db", "--yes")
    run("send", code=1)


@pytest.mark.thorough
@pytest.mark.anyio
@pytest.mark.skipif(sys.platform == "win32", reason="there are no terminals and modes as these")
async def test_every_file_that_is_made_is_of_a_kind_is_private_and_is_forgotten(
    machine: Machine,
) -> None:
    await live(machine)
    met = set[Kind]()
    for place, path in machine.made():
        kind = kind_of(path.relative_to(machine.roots[place]), place)
        assert kind is not None, path
        met.add(kind)
    never = {one.name for one in KINDS if one not in met and one.place != "named"}
    assert never <= {*UNSEEN}
    for place in ("store", "state"):
        assert [*mode_problems(machine.roots[place])] == []
    for name in ("page.html", "audit.html", "chat.jsonl", "copy.db"):
        path = machine.folder / name
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert TOKEN.encode() not in path.read_bytes()
    assert [path for place, path in machine.made() if place == "temporary" and path.exists()] == []

    copies = {one.name for one in KINDS if one.forgets == "copy"}
    with_words = machine.kinds_with(WORD)
    assert with_words == {"store.db", "outbox.db", "gateway/substitutes/*.json"} | {
        *("trouble.jsonl", home.REPLACED.name, home.NEXT_PROMPT.name)
    }
    assert machine.kinds_with(TOKEN) == set()
    told = machine.type("store", "forget", "--project", PROJECT, "--yes")
    assert "store-replaced-" in told
    assert machine.kinds_with(WORD) <= copies
    assert machine.kinds_with(SESSION) <= copies


# The writer


def test_a_link_in_the_place_of_a_file_is_replaced_and_not_followed(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.write_text("theirs")
    for kind in (home.RULES, home.HELD):
        kind.path(tmp_path).parent.mkdir(exist_ok=True)
        kind.path(tmp_path).symlink_to(foreign)
    home.RULES.write(tmp_path, "ours")
    assert home.RULES.path(tmp_path).read_text() == "ours"
    assert not home.RULES.path(tmp_path).is_symlink()
    with pytest.raises(OSError, match="symbolic link"):
        home.HELD.add(tmp_path, {"at": 1})
    assert foreign.read_text() == "theirs"


def test_forget_removes_nothing_behind_a_link_in_the_place_of_a_folder(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for kind in (home.SUBSTITUTE, home.HELD):
        kind.write(theirs, '{"session": "x", "call": "y"}\n', "mine")
    ours.mkdir()
    (ours / "gateway").symlink_to(theirs / "gateway")
    (ours / "checks").symlink_to(theirs / "checks")
    home.forget_files(ours)
    assert home.SUBSTITUTE.path(theirs, "mine").exists()
    assert home.HELD.path(theirs).read_text()
    home.forget_files(theirs)
    assert not home.SUBSTITUTE.path(theirs, "mine").exists()
    assert not home.HELD.path(theirs).read_text()


def test_a_file_that_cannot_be_written_to_its_end_leaves_the_old_one_and_no_other(
    tmp_path: Path,
) -> None:
    path = tmp_path / "token"
    write_whole(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "\ud800")
    with pytest.raises(KeyError), home.new_file(tmp_path / "new"):
        raise KeyError
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("token", "old")]
    write_whole(path, "other", replaces=False)
    assert path.read_text() == "old"


def test_nobody_else_makes_files() -> None:
    writes = re.compile(
        r"O_CREAT|mkstemp|NamedTemporaryFile|chmod\(|\.touch\(mode|os\.replace|\.write_(?:text|bytes)\("
        r"|open\([^)\n]*[\"'][wax]b?\+?[\"']"
    )
    found = {
        str(path.relative_to(PACKAGE)): line.strip()
        for path in sorted(PACKAGE.rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if writes.search(line)
        and not re.search(r"screen\.write_bytes|self\.write_bytes|fdopen", line)
    }
    assert found.keys() == {
        "home.py",
        "store/lockfile.py",  # the lock itself, which is never written anew
        "cli/console/invocation.py",  # what is no file, as /dev/stdout
        "server/writing.py",  # files of this repository
    }


def test_secrets_in_what_is_noted_in_words_are_masked(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    note_trouble(environ, "codex", "Stop", f"it was not handled: {PUSH}")
    outbox = Outbox(tmp_path)
    outbox.point("https://box.lan")
    outbox.note_trouble(PUSH)
    outbox.note_refused([PUSH])
    mod = ServedChat("s1", os.getpid(), why=PUSH)
    note_chat(tmp_path, mod)
    assert find_served_chat(tmp_path, "s1") == mod._replace(why="")
    texts = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"[masked:url-credentials]" in texts
    assert TOKEN.encode() not in texts
    outbox.forget_words()
    assert WORD.encode() not in outbox.path.read_bytes()


# The table in the documents


def in_words(kind: Kind) -> str:
    """The row of a kind in docs/store.md."""
    name = kind.name if kind.name.startswith("`") else f"`{kind.name}`"
    folder = {
        "store": "",
        "state": " in the state folder",
        "temporary": " in the temporary folder",
        "named": " as you name it",
    }[kind.place]
    forgets = {
        "rows": "its rows and their bytes go",
        "anew": "it is written anew",
        "whole": "all of them go",
        "lines": "the lines of the chat, or of the call, go",
        "kept": "stays: nothing that was said",
        "copy": "stays: it is yours to remove",
    }[kind.forgets]
    words = "none" if kind.forgets in ("kept", "lines") else "masked"
    return f"| {name}{folder} | {kind.holds} | {words} | {forgets} |"


def test_the_documents_list_every_kind_of_file() -> None:
    rows = re.findall(r"(?m)^\| `.*$", (DOCS / "store.md").read_text(encoding="utf-8"))
    assert rows == [in_words(kind) for kind in KINDS]
    security = (DOCS / "security.md").read_text(encoding="utf-8")
    with_words = {kind for kind in KINDS if kind.forgets in ("whole", "anew", "lines", "copy")}
    assert {one.name for one in with_words if f"`{one.name.strip('`')}`" not in security} == set()


def test_a_page_is_its_owners_whatever_lay_there_and_a_link_to_it_stays_one(tmp_path: Path) -> None:
    page, link = tmp_path / "page.html", tmp_path / "link.html"
    page.write_text("old")
    page.chmod(0o644)
    link.symlink_to(page)
    write_html(link, "new")
    assert (page.read_text(), link.is_symlink()) == ("new", True)
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    with pytest.raises(InputError, match="pass another --html"):
        write_html(tmp_path / "nowhere/page.html", "new")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such device")
def test_a_page_may_go_to_what_is_no_file() -> None:
    write_html(Path("/dev/null"), "new")
    assert not Path("/dev/null").is_file()

"""A store that is sent on to a team's server: how it is set up, and what is said while it waits."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from mcp_compaction.cli.commands import doctor
from mcp_compaction.errors import InputError
from mcp_compaction.store import outbox
from mcp_compaction.store.outbox import Outbox, check_server
from tests.cli.conftest import Shell

URL = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    "url", ["http://box.lan", "box.lan", "https://ann:secret@box.lan", "https://box.lan?token=1"]
)
def test_a_server_is_named_by_an_address_of_tls_without_a_secret(url: str) -> None:
    with pytest.raises(InputError, match="https://box"):
        check_server(url)


HOSTS = {
    "claude-code": (".claude.json", "Bearer ${MCP_COMPACTION_TOKEN}"),
    "codex": (".codex/config.toml", 'bearer_token_env_var = "MCP_COMPACTION_TOKEN"'),
    "opencode": ("config/opencode/opencode.json", "Bearer {env:MCP_COMPACTION_TOKEN}"),
}


@pytest.mark.parametrize("host", HOSTS)
def test_install_names_the_team_to_the_host_and_writes_the_token_nowhere(
    host: str, shell: Shell
) -> None:
    name, token = HOSTS[host]
    told = shell.with_environ({"MCP_COMPACTION_TOKEN": "mct_never_to_be_written"})
    assert told("install", host).code == 0
    alone = (shell.folder / name).read_text()
    said = told("install", host, "--server", "https://box.lan").out
    assert "goes to https://box.lan too" in said
    text = (shell.folder / name).read_text()
    assert token in text
    assert "https://box.lan/mcp" in text
    again = told("install", host).out  # which keeps what was named before
    assert "already so" in again
    for path in shell.folder.rglob("*"):
        assert not path.is_file() or b"mct_never" not in path.read_bytes(), path
    told("install", host, "--server", "none")
    assert (shell.folder / name).read_text().strip() == alone.strip()
    told("install", host, "--server", "https://box.lan")
    told("uninstall", host)
    path = shell.folder / name
    assert not path.exists() or "compaction" not in path.read_text()


def test_what_waits_is_told_and_when_it_is_too_much(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell("record", "-", "--session", "tax", stdin=b'{"role": "user", "content": "Hello there."}')
    assert shell("doctor", "--json").json()["team"] is None
    Outbox(shell.home).point(URL)
    told = shell("doctor", "--json").json()
    assert told["team"]["messages_waiting"] == 1
    assert "MCP_COMPACTION_TOKEN is not set" in told["team"]["problems"][0]
    for module in (outbox, doctor):
        monkeypatch.setattr(module, "MOST_WAITING", 10)
    said = shell("doctor").out
    assert "1 message (0.0 MB) wait" in said
    assert "nothing is lost" in said
    more = b'{"role": "user", "content": "It is recorded as ever."}'
    assert shell("record", "-", "--session", "tax", stdin=more).code == 0  # nobody is held


class _Picky(BaseHTTPRequestHandler):
    """A team's server that takes nothing of one session."""

    def do_POST(self) -> None:
        """Refuse the session `bad`, take all others."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(422 if body["name"] == "bad" else 200)
        self.end_headers()
        self.wfile.write(b"it is bad" if body["name"] == "bad" else b'{"new": 1}')

    def do_GET(self) -> None:
        """No pins."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"pins": []}')

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def test_a_session_that_the_server_refuses_holds_up_no_other(shell: Shell) -> None:
    for name in ("bad", "good"):
        line = b'{"role": "user", "content": "Hello."}'
        shell("record", "-", "--session", name, stdin=line)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Picky) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        Outbox(shell.home).point(f"http://127.0.0.1:{server.server_port}")
        with_token = shell.with_environ({"MCP_COMPACTION_TOKEN": "mct_x"})
        told = with_token("send", "--json")
        assert (told.code, told.json()["sent"]) == (1, 1)
        assert told.json()["refused"] == ["bad from m1 on is not taken: it is bad"]
        server.shutdown()
        thread.join()
    told = with_token("doctor", "--json").json()["team"]
    assert told["messages_waiting"] == 1
    assert "bad from m1 on is not taken" in told["problems"][0]


def test_who_forgets_is_told_that_the_team_still_has_it(shell: Shell) -> None:
    line = b'{"role": "user", "content": "Hello."}'
    for is_sent in (False, True):
        shell("record", "-", "--session", "tax", stdin=line)
        if is_sent:
            Outbox(shell.home).point(URL)
        said = shell.as_user()("store forget", "tax", "--yes").out
        assert (f"sent to {URL} is still there" in said) is is_sent


def test_a_backup_that_is_put_back_is_sent_from_the_start(shell: Shell) -> None:
    line = b'{"role": "user", "content": "Hello."}'
    shell("record", "-", "--session", "tax", stdin=line)
    kept = Outbox(shell.home)
    kept.point(URL)
    kept.note_sent(URL, "a:1", 1, "2026-10-01T10:00:00.000000+00:00")
    assert kept.sent(URL) == {"a:1": 1}
    shell("store backup", str(shell.folder / "copy.db"))
    assert shell.as_user()("store restore", str(shell.folder / "copy.db"), "--yes").code == 0
    assert kept.sent(URL) == {}

"""Only a user's own regular file in a host's own folder is that host's word."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath

import pytest

from mcp_compaction import compactor
from mcp_compaction.compactor.results import PinWish
from mcp_compaction.errors import InputError
from mcp_compaction.home import default_home
from mcp_compaction.hosts import folders
from mcp_compaction.hosts.finding import own_transcript, transcripts_at
from mcp_compaction.hosts.folders import (
    HostFolder,
    known_hosts,
    note_folders,
    trusted_environ,
)
from tests.hosts.given_hosts import (
    CHATS,
    claude_line,
    found_in,
    make_home,
    record,
    workspace_in,
    write_chat,
)

LINE = claude_line(0, "Never ask before you push.") + "\n"


@pytest.mark.parametrize("host", known_hosts(), ids=lambda host: host.name)
def test_every_host_of_the_table_is_known_by_its_example(host: HostFolder) -> None:
    assert host.has_transcript(PurePath(host.example))
    assert not host.has_transcript(PurePath(host.near_miss))
    for odd in ("", "..", f"x/{host.example}", f"{host.example}/x"):
        assert not host.has_transcript(PurePath(odd))


def test_a_variable_moves_the_folder_of_a_host(tmp_path: Path) -> None:
    make_home(tmp_path / "home")
    moved = {"HOME": str(tmp_path / "none"), "CLAUDE_CONFIG_DIR": str(tmp_path / "home/.claude")}
    assert {one.host for one in found_in(moved)} == {"claude-code"}
    relative = {"HOME": str(tmp_path / "none"), "CLAUDE_CONFIG_DIR": "home/.claude"}
    assert found_in(relative) == []


def outside(home: Path) -> Path:
    """A file that lies in no host's folder."""
    return home.parent / "forged.jsonl"


def among_results(home: Path) -> Path:
    """A file in which the host keeps what a tool answered."""
    return home / CHATS / "5a1c/tool-results/forged.jsonl"


def by_dots(home: Path) -> Path:
    """A path that only begins in the host's folder."""
    return home / CHATS / "../../../../forged.jsonl"


@pytest.mark.parametrize("place", [outside, among_results, by_dots])
def test_a_file_elsewhere_is_nobodys_word_but_the_agents(
    place: Callable[[Path], Path], tmp_path: Path
) -> None:
    environ = make_home(tmp_path / "home")
    path = place(tmp_path / "home")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(LINE, encoding="utf-8")
    (found,) = transcripts_at(path, environ)
    assert not found.is_hosts_word
    assert own_transcript(path, environ) is None
    assert path.resolve() not in [one.path for one in found_in(environ)]


def test_a_link_in_the_hosts_folder_counts_as_what_it_leads_to(tmp_path: Path) -> None:
    environ = make_home(tmp_path / "home")
    outside(tmp_path / "home").write_text(LINE, encoding="utf-8")
    link = tmp_path / "home" / CHATS / "5a1c.jsonl"
    link.symlink_to(outside(tmp_path / "home"))
    assert link not in [one.path for one in found_in(environ)]
    (found,) = transcripts_at(link, environ)
    assert (found.path, found.is_hosts_word) == (outside(tmp_path / "home").resolve(), False)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    environ = make_home(tmp_path / "home")
    pipe = tmp_path / "home" / CHATS / "5a1c.jsonl"
    os.mkfifo(pipe)
    assert pipe not in [one.path for one in found_in(environ)]
    with pytest.raises(InputError, match="no regular file"):
        transcripts_at(pipe, environ)


@pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give a file away"
)
def test_a_file_of_another_user_is_not_the_hosts_word(tmp_path: Path) -> None:
    environ = make_home(tmp_path / "home")
    path = tmp_path / "home" / CHATS / "5a1c.jsonl"
    path.write_text(LINE, encoding="utf-8")
    (own,) = transcripts_at(path, environ)
    os.chown(path, 12345, 12345)
    (given_away,) = transcripts_at(path, environ)
    assert (own.is_hosts_word, given_away.is_hosts_word) == (True, False)


@pytest.mark.anyio
@pytest.mark.parametrize("is_users", [True, False])
async def test_a_rule_is_the_users_only_in_the_hosts_own_file(
    is_users: bool, tmp_path: Path
) -> None:
    environ = {"HOME": str(tmp_path / "home")}
    own = write_chat(environ, [claude_line(0, "Never push to main without a review.")])
    path = own if is_users else own.rename(outside(tmp_path / "home"))
    async with workspace_in(tmp_path) as work:
        (transcript,) = transcripts_at(path, environ)
        taken = await record(work, transcript)
        assert taken.session is not None
        done = await compactor.pin(
            work, taken.session, PinWish("Never push to main without a review.", by="agent")
        )
        assert done.pin.author == ("user" if is_users else "agent")
        assert done.pin.scope == ("project" if is_users else "session")


# Whose home it is: decided by where the store really is, never by a home that leads to it


FORGED = "forged/.claude/projects/-home-ann-shop/5a1c.jsonl"


def is_word(path: Path, environ: Mapping[str, str], store: Path) -> bool:
    """Whether a file counts as a host's word where nobody sits at a terminal."""
    return own_transcript(path, trusted_environ(environ, store)) is not None


def given_store(home: Path) -> Path:
    """The folder of a store where it is by default in a home; its file is there."""
    store = home / ".local/share/mcp-compaction"
    store.mkdir(parents=True)
    (store / "store.db").touch()
    return store


def link_folder(store: Path, forged: Path) -> None:
    """The folder of the store is a link."""
    (forged / ".local/share").mkdir(parents=True)
    (forged / ".local/share/mcp-compaction").symlink_to(store)


def link_parent(store: Path, forged: Path) -> None:
    """A folder above that of the store is a link."""
    forged.mkdir(exist_ok=True)
    (forged / ".local").symlink_to(store.parents[1])


def link_by_dots(store: Path, forged: Path) -> None:
    """The folder of the store is a link that goes up and down again."""
    (forged / ".local/share").mkdir(parents=True)
    where = os.path.relpath(store, forged / ".local/share")
    (forged / ".local/share/mcp-compaction").symlink_to(where)


def link_file(store: Path, forged: Path) -> None:
    """The file of the store is a link, beside a note of what the user would have named."""
    folder = forged / ".local/share/mcp-compaction"
    folder.mkdir(parents=True)
    (folder / "store.db").symlink_to(store / "store.db")
    (folder / "host-folders.json").write_text(json.dumps([f"HOME={forged}"]))


def name_file_twice(store: Path, forged: Path) -> None:
    """The file of the store has a second name, beside such a note."""
    folder = forged / ".local/share/mcp-compaction"
    folder.mkdir(parents=True)
    (folder / "store.db").hardlink_to(store / "store.db")
    (folder / "host-folders.json").write_text(json.dumps([f"HOME={forged}"]))


LINKS = [link_folder, link_parent, link_by_dots, link_file, name_file_twice]


@pytest.mark.parametrize("named", ["{}", "{}/", "{}/../forged", "forged", "./forged/."])
@pytest.mark.parametrize("link", LINKS)
def test_a_home_that_only_leads_to_the_store_is_not_its_users(
    link: Callable[[Path, Path], None],
    named: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    store = given_store(tmp_path / "home")
    path = tmp_path / FORGED
    path.parent.mkdir(parents=True)
    path.write_text(LINE, encoding="utf-8")
    link(store, tmp_path / "forged")
    environ = {"HOME": named.format(tmp_path / "forged")}
    for opened in (store, default_home(environ)):  # named outright, or as that home has it
        assert not is_word(path, environ, opened)
        assert "forged" not in trusted_environ(environ, opened)["HOME"]


def test_the_accounts_store_that_was_moved_to_another_home_is_still_the_accounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "home_of_account", lambda: str(tmp_path / "home"))
    store = given_store(tmp_path / "forged")
    environ = {"HOME": str(tmp_path / "forged")}
    path = write_chat(environ, [LINE.strip()])
    assert is_word(path, environ, store)
    link_folder(store, tmp_path / "home")
    assert not is_word(path, environ, store)
    own = write_chat({"HOME": str(tmp_path / "home")}, [LINE.strip()])
    assert is_word(own, {"HOME": str(tmp_path / "home")}, store)


@pytest.mark.parametrize("host", known_hosts(), ids=lambda host: host.name)
def test_a_variable_that_moves_a_hosts_folder_counts_once_it_was_named_at_a_terminal(
    host: HostFolder, tmp_path: Path
) -> None:
    store = given_store(tmp_path / "home")
    environ = {"HOME": str(tmp_path / "home"), host.variable: str(tmp_path / "moved")}
    assert host.variable not in trusted_environ(environ, store)
    (tmp_path / "link").symlink_to(tmp_path / "moved")
    note_folders({**environ, host.variable: str(tmp_path / "link")}, store)
    assert trusted_environ(environ, store)[host.variable] == environ[host.variable]
    others = {one.variable: environ[host.variable] for one in known_hosts() if one != host}
    told = trusted_environ({"HOME": str(tmp_path / "moved"), **others}, store)
    assert not told.keys() & others.keys()  # what was named for one counts for no other
    assert told["HOME"] != str(tmp_path / "moved")

"""The set of real compactions is rebuilt from a commit of a public branch."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from benchmarks import past_compactions
from benchmarks.past_compactions import digest_of, main
from mcp_compaction.audit.auditing import cases_of
from mcp_compaction.hosts.finding import transcripts_at
from tests.audit.chats import ClaudeChat

NAME = "somebody/some-code"


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.com")
    done = subprocess.run(
        ["git", "-C", folder, *who, *words], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def chat_of(folder: Path, session: str, *, compacted: bool, more: int = 0) -> str:
    chat = ClaudeChat(folder, session)
    chat.ask("Mend the importer.")
    chat.call("Bash", "ok", command="ls")
    if compacted:
        chat.compact("The importer is mended.")
    for number in range(more):
        chat.say(f"Step {number}.")
    return chat.path.read_text(encoding="utf-8")


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with three chats on its branch, one of them stored twice."""
    repository = tmp_path / "forge" / NAME
    repository.mkdir(parents=True)
    git(repository, "init", "--quiet")
    short = chat_of(tmp_path, "chat-0001", compacted=True)
    texts = {
        "aa/1/0": ("chat-0001", short),
        "bb/2/0": ("chat-0001", chat_of(tmp_path, "chat-0001", compacted=True, more=3)),
        "bb/2/1": ("chat-0002", chat_of(tmp_path, "chat-0002", compacted=False)),
        "cc/3/0": ("../../outside", chat_of(tmp_path, "chat-0003", compacted=True)),
    }
    for place, (session, text) in texts.items():
        folder = repository / place
        folder.mkdir(parents=True)
        (folder / "metadata.json").write_text(json.dumps({"session_id": session}))
        (folder / "full.jsonl").write_text(text, encoding="utf-8")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "Chats")
    monkeypatch.setattr(past_compactions, "SOURCES", {NAME: git(repository, "rev-parse", "HEAD")})
    monkeypatch.setattr(past_compactions, "FORGE", str(tmp_path / "forge"))
    return repository


def test_each_chat_that_was_compacted_is_written_once_as_far_as_it_had_come(
    published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main([str(out)]) == 0
    (path,) = out.iterdir()
    assert path.name == "somebody+some-code+chat-0001.jsonl"
    whole = (published / "bb/2/0/full.jsonl").read_text(encoding="utf-8")
    assert path.read_text(encoding="utf-8") == whole
    told = capsys.readouterr().out.splitlines()
    assert told[0].endswith("1 chats, 1 compactions")
    assert told[1] == digest_of(out)
    (transcript,) = transcripts_at(path, {"HOME": "/nowhere"})
    assert [case.summary for case in cases_of(transcript)] == ["The importer is mended."]


def test_a_clone_that_is_here_gives_the_same(published: Path, tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    main([str(one)])
    main([str(other), "--from", f"{NAME}={published}"])
    assert digest_of(one) == digest_of(other)
    (path,) = other.iterdir()
    path.write_text("{}")
    assert digest_of(one) != digest_of(other)

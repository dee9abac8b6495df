"""Rebuilds a set of real compactions from public branches, so that nobody has to hand chats on.

    python benchmarks/past_compactions.py DIR
    python benchmarks/past_compactions.py DIR --from entireio/cli=FOLDER    of a clone that is here
    mcp-compaction eval compactions DIR

Two teams keep the transcripts of their work with Claude Code on a public branch beside their code
(`entire/checkpoints/v1`). This fetches each by its commit with git, and writes every chat that was
compacted into DIR, as its host wrote it and as far as it had come. The digest that it prints last
is of all files: who has the same has the same set. They are other people's words: measure with
them, and pass nothing on.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

SOURCES = {
    "entireio/cli": "394f81fab87f71aa8938d91ff7a067c524ff344b",
    "FSM1/cipher-box": "e227f1183b594fa6bd5dbe58c75272434067e89b",
}
FORGE = "https://github.com"
TRANSCRIPT, ABOUT = "full.jsonl", "metadata.json"
_SESSION = re.compile(r"[0-9a-zA-Z-]{8,64}")
_BOUNDARY = re.compile(rb'"subtype": ?"compact_boundary"')


class Stored(NamedTuple):
    """A transcript as a commit has it."""

    session: str
    blob: str
    size: int


def git(folder: Path, *words: str) -> bytes:
    """What git answers there."""
    return subprocess.run(["git", "-C", folder, *words], check=True, stdout=subprocess.PIPE).stdout


def fetch(name: str, commit: str, folder: Path) -> Path:
    """The folder of a repository with that commit, and nothing else of its history."""
    git(folder, "init", "--quiet", "--bare")
    git(folder, "fetch", "--quiet", "--depth", "1", f"{FORGE}/{name}", commit)
    return folder


def find_chats(folder: Path, commit: str) -> list[Stored]:
    """Each chat of a commit, as far as it had come when it was stored last."""
    blobs: dict[str, tuple[str, int]] = {}
    for line in git(folder, "ls-tree", "-r", "-l", "-z", commit).decode().split("\0")[:-1]:
        about, _, path = line.partition("\t")
        _, _, blob, size = about.split()
        if size.isdecimal():
            blobs[path] = (blob, int(size))
        else:  # a clone that left its largest files out
            print(f"{path}: not in this clone", file=sys.stderr)
    longest: dict[str, Stored] = {}
    for path, (blob, size) in blobs.items():
        place, _, name = path.rpartition("/")
        if name != TRANSCRIPT or f"{place}/{ABOUT}" not in blobs:
            continue
        told = json.loads(git(folder, "cat-file", "blob", blobs[f"{place}/{ABOUT}"][0]))
        session = str(told.get("session_id", ""))
        known = longest.get(session)
        if _SESSION.fullmatch(session) and (known is None or known.size < size):
            longest[session] = Stored(session, blob, size)
    return sorted(longest.values())


def write_chats(name: str, commit: str, folder: Path, out: Path) -> Iterator[tuple[str, int]]:
    """Write each chat that was compacted; gives its name and how often that was."""
    for one in find_chats(folder, commit):
        text = git(folder, "cat-file", "blob", one.blob)
        times = len(_BOUNDARY.findall(text))
        if times:
            path = out / f"{name.replace('/', '+')}+{one.session}.jsonl"
            path.write_bytes(text)
            yield path.name, times


def digest_of(out: Path) -> str:
    """The digest of all chats in a folder, by their names and contents."""
    whole = hashlib.sha256()
    for path in sorted(out.glob("*.jsonl")):
        whole.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return whole.hexdigest()


def main(argv: Sequence[str] | None = None) -> int:
    """Fetch, write, and tell what there is."""
    parser = argparse.ArgumentParser(description="Rebuilds a set of real compactions.")
    parser.add_argument("out", metavar="DIR", type=Path)
    parser.add_argument("--from", dest="clones", metavar="NAME=FOLDER", action="append", default=[])
    options = parser.parse_args(argv)
    clones: dict[str, str] = dict(one.split("=", 1) for one in options.clones)
    options.out.mkdir(parents=True, exist_ok=True)
    for name, commit in SOURCES.items():
        with TemporaryDirectory() as made:
            clone = clones.get(name)
            folder = Path(clone) if clone else fetch(name, commit, Path(made))
            found = list(write_chats(name, commit, folder, options.out))
        print(f"{name} {commit[:8]}: {len(found)} chats, {sum(n for _, n in found)} compactions")
    print(digest_of(options.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Keeps the newest substitutes of a conversation in memory, and the last one in a small file.

From that file another process sends the same beginning where the store cannot be read. It holds our
own records and cut messages, secrets masked, and of the host's messages only their places. Another
beside it has what is known of the conversation's thinking, in fingerprints.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from mcp_compaction.formats.thinking import Bindings
from mcp_compaction.gateway.substitutes import Substitute
from mcp_compaction.home import SUBSTITUTE, make_folder, mask, write_whole
from mcp_compaction.model import JsonObject, Value

_MOST_SUBSTITUTES = 8  # of earlier views, for a host that goes back
_MOST_FILES = 256  # conversations
_THINKING = ".thinking"


class _Kept(Value):
    """A substitute as the file has it."""

    length: int
    mark: str
    layout: tuple[int | JsonObject, ...]


class KeptSubstitutes:
    """The newest substitutes of one conversation."""

    def __init__(self, path: Path, *, masks_secrets: bool) -> None:
        """What an earlier process has kept at this path is there at once."""
        self._path = path
        self._masks_secrets = masks_secrets
        self._written = _read(path)
        self._newest = deque([self._written] if self._written else [], _MOST_SUBSTITUTES)

    def find(self, prints: Sequence[bytes], view: object = None) -> Substitute | None:
        """The substitute that stands for most of a history, the newest of equals.

        `view`: only one that was made of it.
        """
        fitting = (one for one in reversed(self._newest) if view is None or one.view == view)
        serving = (one for one in fitting if one.serves(prints))
        return max(serving, key=lambda one: one.length, default=None)

    def add(self, one: Substitute) -> None:
        """Keep a substitute in memory."""
        same = next((known for known in self._newest if known.is_like(one)), None)
        if same is not None:
            self._newest.remove(same)
        self._newest.append(one)

    def has_written(self, one: Substitute) -> bool:
        """Whether the file holds what it should for a substitute."""
        if self._written is None or not self._written.layout:
            return self._written is not None and not one.layout
        return one.is_like(self._written)

    def write(self, one: Substitute) -> None:
        """Keep a substitute in the file; where nothing is replaced there is none."""
        with suppress(OSError):  # it is only the second net
            if one.layout:
                _write(self._path, one, masks_secrets=self._masks_secrets)
            else:
                self._path.unlink(missing_ok=True)
            self._written = one


class KeptThinking:
    """What is known of the thinking of one conversation."""

    def __init__(self, path: Path) -> None:
        """What an earlier process has kept beside this path of a substitute is there at once."""
        self._path = path.with_suffix(_THINKING)
        self.bindings = Bindings(_read_rows(self._path))

    def write(self, rows: Mapping[str, str]) -> None:
        """Keep rows in the file."""
        with suppress(OSError):  # it is only the second net
            _replace(self._path, json.dumps(dict(rows)))


def path_of_substitute(home: Path, *names: str) -> Path:
    """The file for the conversation of those names."""
    name = sha256("\0".join(names).encode("utf-8", "replace")).hexdigest()[:32]
    return SUBSTITUTE.path(home, name)


def _read(path: Path) -> Substitute | None:
    try:
        kept = _Kept.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
    return Substitute(kept.length, kept.mark, kept.layout)


def _read_rows(path: Path) -> dict[str, str]:
    try:
        return TypeAdapter(dict[str, str]).validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return {}


def _write(path: Path, one: Substitute, *, masks_secrets: bool) -> None:
    layout = [
        json.loads(mask(json.dumps(entry)))
        if masks_secrets and not isinstance(entry, int)
        else entry
        for entry in one.layout
    ]
    _replace(path, json.dumps({"length": one.length, "mark": one.mark, "layout": layout}))


def _replace(path: Path, text: str) -> None:
    """Write a file, and have the oldest ones go."""
    make_folder(path.parent)
    write_whole(path, text)
    same = path.parent.glob(f"*{path.suffix}")
    files = sorted(same, key=lambda file: file.stat().st_mtime)
    for old in files[:-_MOST_FILES]:
        old.unlink(missing_ok=True)

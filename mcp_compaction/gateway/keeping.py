"""Keeps what is known of a chat without its store: in memory, and some of it in small files.

From the file of the last layout another process sends the same beginning where the store cannot be
read. It holds our own records and cut messages, secrets masked, and of the host's messages only
their places. A file beside it has what is known of the chat's thinking, in fingerprints.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from mcp_compaction.compactor.histories import Layout, ViewState
from mcp_compaction.formats.thinking import Bindings
from mcp_compaction.formats.usage import Usage
from mcp_compaction.home import SUBSTITUTE, make_folder, mask, write_whole
from mcp_compaction.model import JsonObject, Value

LEAST_BYTES = 3  # of a token, mostly
_MOST_BYTES = 4.0  # as words have them
_MOST_LAYOUTS = 8  # of earlier views, for a host that goes back
_MOST_FILES = 256  # conversations
_THINKING = ".thinking"


class _Kept(Value):
    """A layout as the file has it."""

    length: int
    mark: str
    layout: tuple[int | JsonObject, ...]


class KeptChat:
    """The newest layouts of one conversation, and what is known of its thinking."""

    def __init__(self, path: Path, *, masks_secrets: bool) -> None:
        """What an earlier process has kept at this path, and beside it, is there at once."""
        self._path = path
        self._path_of_thinking = path.with_suffix(_THINKING)
        self._masks_secrets = masks_secrets
        self._written = _read(path)
        self._newest = deque([self._written] if self._written else [], _MOST_LAYOUTS)
        self.bindings = Bindings(_read_rows(self._path_of_thinking))
        self._bytes_of_token: float | None = None  # pictures have more than words
        self.has_gap = True  # until the last request that was begun is recorded with its answer
        self._has_part = False

    def note_part(self) -> bool:
        """Note that a request brought only what is new; says whether it is the first such one."""
        self.has_gap = True
        is_first, self._has_part = not self._has_part, True
        return is_first

    def find(self, prints: Sequence[bytes], view: ViewState | None = None) -> Layout | None:
        """The layout that stands for most of a history, the newest of equals.

        `view`: only one that shows it.
        """
        fitting = (one for one in reversed(self._newest) if view is None or one.view == view)
        serving = (one for one in fitting if one.serves(prints))
        return max(serving, key=lambda one: one.length, default=None)

    def note_size(self, body: bytes, usage: Usage | None) -> None:
        """Note how many bytes a token of the conversation has; pictures have more than words."""
        if usage is not None and usage.read:
            self._bytes_of_token = min(_MOST_BYTES, len(body) / usage.read)

    def seem_to_fit(self, body: bytes, window: int) -> bool:
        """Whether a body is no larger than a window, by what the provider has counted so far."""
        return len(body) < (self._bytes_of_token or LEAST_BYTES) * window

    def add(self, one: Layout) -> None:
        """Keep a layout in memory."""
        same = next((known for known in self._newest if known.is_like(one)), None)
        if same is not None:
            self._newest.remove(same)
        self._newest.append(one)

    def has_written(self, one: Layout) -> bool:
        """Whether the file holds what it should for a layout."""
        if self._written is None or not self._written.places:
            return self._written is not None and not one.places
        return one.is_like(self._written)

    def write(self, one: Layout) -> None:
        """Keep a layout in the file; where nothing is replaced there is none."""
        with suppress(OSError):  # it is only the second net
            if one.places:
                _write(self._path, one, masks_secrets=self._masks_secrets)
            else:
                self._path.unlink(missing_ok=True)
            self._written = one

    def write_thinking(self, rows: Mapping[str, str]) -> None:
        """Keep what is known of its thinking in the file beside it."""
        with suppress(OSError):  # it is only the second net
            _replace(self._path_of_thinking, json.dumps(dict(rows)))


def path_of_layout(home: Path, *names: str) -> Path:
    """The file for the conversation of those names."""
    name = sha256("\0".join(names).encode("utf-8", "replace")).hexdigest()[:32]
    return SUBSTITUTE.path(home, name)


def _read(path: Path) -> Layout | None:
    try:
        kept = _Kept.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
    return Layout(kept.length, kept.mark, kept.layout)


def _read_rows(path: Path) -> dict[str, str]:
    try:
        return TypeAdapter(dict[str, str]).validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return {}


def _write(path: Path, one: Layout, *, masks_secrets: bool) -> None:
    layout = [
        json.loads(mask(json.dumps(entry)))
        if masks_secrets and not isinstance(entry, int)
        else entry
        for entry in one.places
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


def keep_words_of_host(
    layout: Layout, prints: Sequence[bytes], given: Sequence[JsonObject]
) -> Layout:
    """The layout with what the host itself tells the model, its environment say: it stands behind
    the first request, where hosts put it."""
    shown = {one for one in layout.places if isinstance(one, int)}
    told = {
        prints[n]: n for n in range(layout.length) if n not in shown and _is_told_by_host(given[n])
    }
    requests = (
        n
        for n, one in enumerate(layout.places, 1)
        if isinstance(one, int) and given[one].get("role") == "user"
    )
    first = next(requests, 0)
    each_once = sorted(told.values())  # hosts repeat their reminders, and add tools again
    places = (*layout.places[:first], *each_once, *layout.places[first:])
    return layout._replace(places=places)


def _is_told_by_host(message: JsonObject) -> bool:
    """Whether a message is the host's own word to the model: its environment, its tools."""
    is_system = message.get("role") in ("system", "developer")
    return is_system or message.get("type") == "additional_tools"

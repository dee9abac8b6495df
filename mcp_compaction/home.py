"""Every kind of file that we write for a user, what becomes of each, and the one way to write them.

Standard library only, so that hooks may use it. A file is written whole or not at all, for its
owner alone, and a link in its place is replaced, not followed. `docs/store.md` has the table in
words; a test runs all that writes files and finds one that is of no kind.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, NamedTuple, TypeVar

T = TypeVar("T")
Place = Literal["store", "state", "temporary", "named"]
"""The folder a kind lies in: the store's, the one of notes about hooks, the system's for temporary
files, or one that the user names."""

Forgets = Literal["rows", "anew", "whole", "lines", "kept", "copy"]
"""What `forget` does: removes rows and their bytes; has the file written anew from the store;
removes all files of the kind, or the lines of the chat; keeps what holds nothing that was said;
keeps a copy that is the user's to remove, and names it. Where words of a chat may stand, secrets in
them are masked. `backup` copies, and `export` reads, the store alone."""

_MOST_BYTES = 2**18  # of notes; then the older half goes


class Kind(NamedTuple):
    """A kind of file, below its folder; in its name * stands for what differs."""

    name: str
    forgets: Forgets
    holds: str
    place: Place = "store"

    def path(self, root: Path, name: str = "") -> Path:
        """The file of that name."""
        safe = "".join(sign for sign in name if sign.isalnum() or sign in "-_")
        return root / self.name.replace("*", safe or "none")

    def find(self, root: Path) -> Iterator[Path]:
        """The files there are, with those that were not written to their end; none behind a link
        in the place of a folder of ours."""
        for path in root.glob(self.name.rstrip("*") + "*"):
            if path.parent.resolve() == root.resolve() / path.parent.relative_to(root):
                yield path

    def write(self, root: Path, text: str, name: str = "") -> None:
        """Write the file of that name anew; whoever reads it finds it whole."""
        path = self.path(root, name)
        make_folder(path.parent)
        write_whole(path, text)

    def add(self, root: Path, note: dict[str, Any]) -> None:
        """Add a note to a file of JSON lines; of a long one the older half goes."""
        path = self.path(root)
        make_folder(path.parent)
        if path.exists() and path.stat().st_size > _MOST_BYTES:
            write_whole(path, path.read_bytes()[-_MOST_BYTES // 2 :].partition(b"\n")[2])
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        number = os.open(path, flags, 0o600)
        try:  # at once, so that lines of several processes do not mix
            os.write(number, json.dumps(note).encode() + b"\n")
        finally:
            os.close(number)

    def read(self, root: Path, make: Callable[..., T], name: str = "") -> Iterator[T]:
        """What is made of each JSON line of a file; what cannot be read is left out."""
        try:
            lines = self.path(root, name).read_bytes().split(b"\n")
        except OSError:
            return
        for line in lines:
            with suppress(ValueError, TypeError):
                yield make(**json.loads(line))


STORE = Kind("store.db", "rows", "all that was recorded: messages, views, digests, pins")
REPLACED = Kind("store-replaced-*", "copy", "the store that a backup took the place of")
OUTBOX = Kind("outbox.db", "rows", "how far the store was sent to a team's server")
TOKEN = Kind("token", "kept", "the token of `serve --http`")
HOST_FOLDERS = Kind("host-folders.json", "kept", "folders of hosts, named at a terminal")
HEADLESS_PROJECTS = Kind("headless-projects.json", "kept", "projects that `trust` was told of")
GATEWAY = Kind("gateway/*.json", "kept", "a gateway that runs: port, project, ids of chats")
SUBSTITUTE = Kind("gateway/substitutes/*.json", "whole", "what stands for a chat's beginning")
THINKING = Kind("gateway/substitutes/*.thinking", "whole", "fingerprints of a chat's thinking")
SERVED = Kind("claude-code-mod/*.json", "kept", "a chat that the module serves, by its id")
NEXT_PROMPT = Kind("next-prompt/*.json", "whole", "what the next prompt of a chat is told")
RULES = Kind("checks/rules.json", "anew", "the pins with checks")
HELD = Kind("checks/held.jsonl", "lines", "when a pin held a call, by its id; nothing of the call")
ONCE = Kind("checks/once-p*", "kept", "nothing: one call may pass a pin")
TROUBLE = Kind("trouble.jsonl", "whole", "what a hook could not do", "state")
HOOK_RUN = Kind("ran-*", "kept", "when a host last ran a hook", "state")

KINDS: Final = (
    *(STORE, REPLACED),
    Kind("store.db-*", "rows", "SQLite's log and shared memory of it"),
    Kind("store.db.restoring-*", "whole", "a backup on its way in"),
    Kind("store.db*.lock", "kept", "which files the store has; who writes, who compacts"),
    OUTBOX,
    Kind("outbox.db-*", "rows", "SQLite's journal of it"),
    Kind("outbox.db.lock", "kept", "nothing: one process sends"),
    *(
        TOKEN,
        HOST_FOLDERS,
        HEADLESS_PROJECTS,
        GATEWAY,
        SUBSTITUTE,
        THINKING,
        SERVED,
        NEXT_PROMPT,
        RULES,
        HELD,
        ONCE,
    ),
    Kind("installed/*/*/mcp-compaction/.views/*.json", "kept", "where a plugin finds its server"),
    Kind("installed/*/*", "kept", "a host's settings as they were before `install`"),
    Kind("installed/*/*/**", "kept", "the copy of a plugin"),
    *(TROUBLE, HOOK_RUN),
    Kind("mcp-compaction-*/**", "kept", "what a command needs until it ends", "temporary"),
    Kind("`export --output`", "copy", "a session", "named"),
    Kind("`backup`", "copy", "the whole store", "named"),
    Kind("`--html`", "copy", "the page of a session, or a report", "named"),
    Kind("`--answers`", "copy", "what a model answered in `eval read`", "named"),
)
"""All there are; of two that fit a file the first one counts."""


# Where they are


def user_folder(environ: Mapping[str, str]) -> Path:
    """The user's own folder."""
    return Path(environ["HOME"]) if environ.get("HOME") else Path.home()


def xdg_folder(environ: Mapping[str, str], variable: str, below: str) -> Path:
    """Our folder where the XDG specification puts it, which asks to ignore relative paths."""
    named = environ.get(variable, "")
    base = Path(named) if named.startswith("/") else user_folder(environ) / below
    return base / "mcp-compaction"


def home_of_account() -> str:
    """The user's own folder as the system knows it; one that cannot be where it knows of none."""
    try:
        import pwd
    except ImportError:  # Windows
        return str(Path.home())
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:  # a variable would tell, which any process can set
        return os.devnull


def default_home(environ: Mapping[str, str], platform: str = sys.platform) -> Path:
    """The folder the store lives in unless a setting says otherwise."""
    if home := environ.get("MCP_COMPACTION_HOME"):
        return Path(home).expanduser()
    if platform == "win32":
        local = environ.get("LOCALAPPDATA")
        return Path(local or user_folder(environ) / "AppData" / "Local") / "mcp-compaction"
    return xdg_folder(environ, "XDG_DATA_HOME", ".local/share")


def state_folder(environ: Mapping[str, str]) -> Path:
    """The folder for what is noted about hooks, beside any store."""
    return xdg_folder(environ, "XDG_STATE_HOME", ".local/state")


def mode_problems(root: Path) -> Iterator[str]:
    """What lies in a folder of ours and others may read, each with the way to mend it."""
    if os.name == "nt" or not root.is_dir():
        return
    for path in (root, *sorted(root.rglob("*"))):
        mode = path.lstat().st_mode if os.path.lexists(path) else 0
        if mode & 0o077 and not stat.S_ISLNK(mode):
            how = f"mode {stat.S_IMODE(mode):o}"
            yield f"{path} can be read by others ({how}); run: chmod go-rwx '{path}'"


def forget_files(root: Path, chats: Collection[str] = (), calls: Collection[str] = ()) -> None:
    """Remove what is forgotten from the files of a folder of ours.

    `chats`: those that are still known, by the ids of their hosts; `calls`: of messages that are
    forgotten.
    """
    for kind in KINDS:
        if kind.forgets == "whole":
            for path in kind.find(root):
                path.unlink(missing_ok=True)
        elif kind.forgets == "lines" and any(kind.find(root)):
            notes = kind.read(root, dict[str, Any])
            kept = (n for n in notes if n.get("session") in chats and n.get("call") not in calls)
            kind.write(root, "".join(f"{json.dumps(one)}\n" for one in kept))


# Writing


def mask(text: str) -> str:
    """A text without the secrets of known kinds."""
    from mcp_compaction.core.text.secrets import redact  # few of those who write need it

    return redact(text).text


def make_folder(folder: Path) -> None:
    """Make a folder, with those above it, that only its owner may enter."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return
    folder.chmod(0o700)


def open_new(path: Path, mode: int = 0o600) -> BinaryIO:
    """A file that was not there before, open for writing; whatever the umask, it has that mode."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    number = os.open(path, flags, mode)
    if sys.platform != "win32":
        os.fchmod(number, mode)
    return os.fdopen(number, "wb")


@contextmanager
def new_file(path: Path, mode: int = 0o600) -> Generator[BinaryIO]:
    """A new file to be written in the block, which is gone again where that fails."""
    file = open_new(path, mode)
    try:
        with file:
            yield file
    except BaseException:
        path.unlink()
        raise


def write_whole(path: Path, text: str | bytes, mode: int = 0o600, *, replaces: bool = True) -> None:
    """Write a file whole or not at all; `replaces`: False, and one that is there stays."""
    fresh = path.with_name(f"{path.name}.new-{os.getpid()}-{os.urandom(4).hex()}")
    with new_file(fresh, mode) as file:
        file.write(text.encode() if isinstance(text, str) else text)
        file.flush()
        os.fsync(file.fileno())
    try:
        if replaces:
            fresh.replace(path)
        else:
            with suppress(FileExistsError):
                os.link(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)

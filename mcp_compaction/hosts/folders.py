"""Where hosts keep their transcripts, and which files are therefore a host's own word.

A variable, HOME among them, can move a host's folder, and any process can set one. So a moved
folder counts once the user has named it at a terminal; it is noted beside the store.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePath

from mcp_compaction.home import HOST_FOLDERS, default_home, home_of_account, user_folder
from mcp_compaction.hosts.known import hosts_with
from mcp_compaction.model import Value
from mcp_compaction.store.noted import has_one_name, read_noted, real_folder, write_noted


class HostFolder(Value):
    """The place of one host's transcripts; see lexicon/hosts/README.md."""

    name: str
    title: str
    variable: str
    base: str
    files: tuple[str, ...]
    reader: str
    called: str = ""
    subagents: str = ""
    threads: str = ""
    is_audited: bool = False
    example: str
    near_miss: str

    def base_in(self, environ: Mapping[str, str]) -> Path:
        """The real path of the host's base folder."""
        if self.is_moved_in(environ):
            return Path(os.path.realpath(environ[self.variable]))
        return Path(os.path.realpath(user_folder(environ) / self.base))

    def is_moved_in(self, environ: Mapping[str, str]) -> bool:
        """Whether the host's own variable moves its base folder."""
        return Path(environ.get(self.variable, "")).is_absolute()

    def is_in(self, environ: Mapping[str, str]) -> bool:
        """Whether the host was ever used, or set up, in a home."""
        base = self.base_in(environ)
        return (base if self.base else base / PurePath(self.files[0]).parts[0]).exists()

    def has_transcript(self, below: PurePath) -> bool:
        """Whether a path below the base folder is one of a transcript."""
        return any(_fits(below.parts, PurePath(pattern).parts) for pattern in self.files)

    def find_transcripts(self, environ: Mapping[str, str]) -> Iterator[Path]:
        """The transcripts there are, by the real paths of their files."""
        base = self.base_in(environ)
        for pattern in self.files:
            for path in sorted(base.glob(pattern)):
                if is_own_file(path) and self.has_transcript(path.relative_to(base)):
                    yield path


def _fits(names: tuple[str, ...], patterns: tuple[str, ...]) -> bool:
    return len(names) == len(patterns) and all(map(fnmatchcase, names, patterns))


def is_own_file(path: Path) -> bool:
    """Whether a path is the real one of a regular file of the user who runs this."""
    try:
        found = path.lstat()
    except (OSError, ValueError):
        return False
    is_users = not hasattr(os, "getuid") or found.st_uid == os.getuid()
    return stat.S_ISREG(found.st_mode) and is_users and Path(os.path.realpath(path)) == path


def host_of_file(path: Path, environ: Mapping[str, str]) -> HostFolder | None:
    """The host whose own transcript a file is; None where it only looks like one."""
    if not is_own_file(path):
        return None
    for host in known_hosts():
        base = host.base_in(environ)
        if path.is_relative_to(base) and host.has_transcript(path.relative_to(base)):
            return host
    return None


@cache
def known_hosts() -> tuple[HostFolder, ...]:
    """The hosts whose transcripts are read."""
    return tuple(map(HostFolder.model_validate, hosts_with("folder").values()))


def find_folder_of(name: str) -> HostFolder | None:
    """The place of the transcripts of the host of that name."""
    return next((host for host in known_hosts() if host.name == name), None)


# Which environment counts


def trusted_environ(environ: Mapping[str, str], store: Path) -> Mapping[str, str]:
    """What an environment may say of hosts' folders where nobody sits at a terminal.

    Counted are the account's own home, the one in which the store's file really lies by default,
    and the homes and moved folders that the user has named at a terminal. A home that only links
    to the store is anybody's. `store`: the folder of the store.
    """
    home, noted = _home_in(environ), read_noted(store, HOST_FOLDERS)
    is_counted = home != "" and (f"HOME={home}" in noted or _is_home_of(home, store))
    named = {
        host.variable: environ[host.variable]
        for host in known_hosts()
        if host.is_moved_in(environ) and _moved(host, environ) in noted
    }
    return {"HOME": home if is_counted else home_of_account(), **named}


def note_folders(environ: Mapping[str, str], store: Path) -> None:
    """Note the home, where a host is at home, and the moved folders that the environment of a user
    at a terminal names."""
    moved = {_moved(host, environ) for host in known_hosts() if host.is_moved_in(environ)}
    if any(host.is_in(environ) for host in known_hosts()):
        homes = {_home_in(environ)} - {"", _real(Path(home_of_account()))}
        moved |= {f"HOME={home}" for home in homes}
    noted = read_noted(store, HOST_FOLDERS)
    if not moved <= noted:
        write_noted(store, HOST_FOLDERS, moved | noted)


def _moved(host: HostFolder, environ: Mapping[str, str]) -> str:
    """How it is noted where a variable moves a host's folder: it counts for that variable alone."""
    return f"{host.variable}={host.base_in(environ)}"


def _is_home_of(home: str, store: Path) -> bool:
    """Whether a store's file lies in a home by default, without a link on the way; the account's
    own store stays the account's where a link leads to another home."""
    here, account = real_folder(store), _real(Path(home_of_account()))
    is_led_to = account != home and real_folder(default_home({"HOME": account})) == here
    return default_home({"HOME": home}) == here and has_one_name(store) and not is_led_to


def _home_in(environ: Mapping[str, str]) -> str:
    """The real path of the home that an environment names; blank where it names none."""
    return _real(Path(environ["HOME"])) if environ.get("HOME") else ""


def _real(path: Path) -> str:
    return os.path.realpath(path)

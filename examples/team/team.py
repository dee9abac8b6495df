"""A whole team on one machine: PostgreSQL, PgBouncer, and two servers behind one port.

    python examples/team/team.py

It prints the address and a token, and runs until Ctrl-C; all it made lies in one folder, which goes
with it unless `--folder` names one.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import cycle
from pathlib import Path
from tempfile import mkdtemp

PROGRAM = (str(Path(sys.executable).with_name("mcp-compaction")),)
OWNER, SERVER = "compaction_owner", "compaction_server"  # who has the tables, who serves them


def main() -> int:
    """Start all of it, one after the other, and pass connections on until a signal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--port", type=int, default=8765, help="where the team is reached")
    parser.add_argument("--folder", type=Path, help="where the database stays for the next time")
    args = parser.parse_args()
    postgres, bouncer = find_programs()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ExitStack() as stack, suppress(KeyboardInterrupt):
        folder = stack.enter_context(folder_for(args.folder))
        stack.enter_context(running_postgres(postgres, folder))
        direct = f"postgresql://{OWNER}@/postgres?host={folder}"
        run(direct, folder, "migrate", "--grant-to", SERVER)
        name = f"ann-{int(time.time())}"
        token = run(direct, folder, "token", "add", name, "--owner", "ann", "--project", "shop")
        pooled = stack.enter_context(running_bouncer(bouncer, folder))
        listener = stack.enter_context(socket.create_server(("127.0.0.1", args.port)))
        port: int = listener.getsockname()[1]
        ports = [stack.enter_context(running_server(pooled, folder, port)) for _ in range(2)]
        print(f"http://127.0.0.1:{port}/mcp")
        print(token.splitlines()[0], flush=True)
        asyncio.run(pass_on(listener, ports))
    return 0


def find_programs() -> tuple[Path, str]:
    """The folder of PostgreSQL's programs, and PgBouncer."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    initdb = str(found[-1]) if found else shutil.which("initdb")
    bouncer = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if initdb is None or bouncer is None:
        sys.exit("this needs both: apt-get install postgresql pgbouncer")
    return Path(initdb).parent, bouncer


def other_user() -> str | None:
    """Whom to run as in the place of root, as whom neither of the two runs."""
    known = {entry.pw_name for entry in pwd.getpwall()}
    return None if os.getuid() else next(user for user in ("postgres", "nobody") if user in known)


@contextmanager
def folder_for(asked: Path | None) -> Generator[Path]:
    """The folder of everything: the one asked for, else one that goes at the end."""
    folder = asked.absolute() if asked else Path(mkdtemp(prefix="team-", dir="/tmp"))
    folder.mkdir(exist_ok=True)
    if (user := other_user()) is not None:
        shutil.chown(folder, user)
    try:
        yield folder
    finally:
        if asked is None:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running_postgres(programs: Path, folder: Path) -> Generator[None]:
    """PostgreSQL on a socket in that folder, and on no port."""
    data = folder / "data"

    def control(*words: str) -> None:
        done = subprocess.run(
            words, user=other_user(), cwd=folder, capture_output=True, text=True, check=False
        )
        if done.returncode:
            sys.exit(f"{words[0]}: {done.stdout}{done.stderr}")

    if not data.exists():
        words = ("-U", OWNER, "-A", "trust", "-E", "UTF8", "--locale=C")
        control(str(programs / "initdb"), "-D", str(data), *words)
    options = f"-c listen_addresses= -c unix_socket_directories={folder}"
    pg_ctl = (str(programs / "pg_ctl"), "-D", str(data), "-w")
    control(*pg_ctl, "-l", str(folder / "log"), "-o", options, "start")
    try:
        yield
    finally:
        control(*pg_ctl, "-m", "fast", "stop")


@contextmanager
def running_bouncer(program: str, folder: Path) -> Generator[str]:
    """PgBouncer in transaction mode; the address of the store through it."""
    port = free_port()
    config = folder / "pgbouncer.ini"
    config.write_text(
        "[pgbouncer]\npool_mode = transaction\nauth_type = any\nunix_socket_dir =\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\n"
        "ignore_startup_parameters = extra_float_digits\n"
        f"[databases]\npostgres = host={folder} user={SERVER}\n",
        encoding="ascii",
    )
    config.chmod(0o644)
    with started([program, "-q", str(config)], port, user=other_user()):
        yield f"postgresql://{SERVER}@127.0.0.1:{port}/postgres"


@contextmanager
def running_server(store: str, folder: Path, shown: int) -> Generator[int]:
    """One of the servers; its own port. Clients know it by the port that is shown to them."""
    port = free_port()
    name = ("--allowed-host", f"127.0.0.1:{shown}")
    words = [*PROGRAM, "serve", "--http", "--port", str(port), *name]
    with started(words, port, env=environ_for(store, folder)):
        yield port


@contextmanager
def started(
    words: list[str], port: int, user: str | None = None, env: dict[str, str] | None = None
) -> Generator[None]:
    """A process that listens on a port, until the end of the block."""
    process = subprocess.Popen(
        words, user=user, env=env, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        while not is_open(port):
            if process.poll() is not None:
                sys.exit(f"{words[0]} ended with {process.returncode}")
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait()


def environ_for(store: str, folder: Path) -> dict[str, str]:
    """The environment of our program on that store."""
    own = {"MCP_COMPACTION_STORE": store, "MCP_COMPACTION_HOME": str(folder / "home")}
    return {**os.environ, **own}


def run(store: str, folder: Path, *words: str) -> str:
    """What a command of our program prints."""
    environ = environ_for(store, folder)
    done = subprocess.run([*PROGRAM, *words], env=environ, stdout=subprocess.PIPE, check=True)
    return done.stdout.decode()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def is_open(port: int) -> bool:
    """Whether somebody listens there."""
    with closing(socket.socket()) as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


async def pass_on(listener: socket.socket, ports: list[int]) -> None:
    """Give each connection to the next server, as your own proxy would; yours has TLS."""
    turn = cycle(ports)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back = await asyncio.open_connection("127.0.0.1", next(turn))
        await asyncio.gather(copy(reader, back[1]), copy(back[0], writer))

    async with await asyncio.start_server(serve, sock=listener) as server:
        await server.serve_forever()


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes until one side is done."""
    with suppress(ConnectionError):
        while data := await reader.read(2**16):
            writer.write(data)
            await writer.drain()
    with suppress(ConnectionError):
        writer.close()


if __name__ == "__main__":
    sys.exit(main())

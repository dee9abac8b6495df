"""A host that starts the toy, says its piece and waits to be killed.

Its arguments: how to start the toy, the descriptor that tells the toy's end, the lines to send.
It imports nothing of ours, since it is run as a lone file.
"""

from __future__ import annotations

import shlex
import subprocess
import sys

TOY = [sys.executable, "-m", "tests.server.toy"]


def main(way: str, life: int, lines: list[str]) -> None:
    """Start the toy and report once it has answered."""
    command = ["sh", "-c", f"{shlex.join(TOY)}; true"] if way.startswith("sh") else TOY
    server = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(life,)
    )
    assert server.stdin
    assert server.stdout
    sibling = 0
    if way.endswith("leaked pipe"):
        pipes = (server.stdin.fileno(), server.stdout.fileno())
        # The shell outlives its parent, so that only a broken stdout can tell of the host's end.
        pipes = pipes[:1] if way.startswith("sh") else pipes
        sibling = subprocess.Popen(["sleep", "600"], stdout=2, pass_fds=pipes).pid
    for line in lines:
        server.stdin.write(line.encode() + b"\n")
    server.stdin.flush()
    server.stdout.readline()
    sys.stdout.write(f"{sibling}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])

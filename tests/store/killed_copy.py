"""A copy that is killed while it makes the texts of a session findable, at a call of that.

python killed_copy.py CALL SOURCE TARGET
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from mcp_compaction.cli.main import run
from mcp_compaction.store import passages


def kill_at(number: int, insert: Callable[..., Any]) -> Callable[..., Any]:
    """The function, but that the process dies when it is called so often."""
    calls = iter(range(1, number + 1))

    def insert_or_die(*arguments: object) -> Any:
        if next(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return insert(*arguments)

    return insert_or_die


if __name__ == "__main__":
    _, call, source, target = sys.argv
    import_module("mcp_compaction.store.postgres.store")  # it registers its own way to insert
    passages.insert = kill_at(int(call), passages.insert)
    sys.argv[1:] = ["copy", "--from", source, "--to", target]
    run()

"""The smallest program that serves over stdio as the real one does: claim first, then import.

How long it may take to finish and to clean up can be set, since a busy machine needs longer.
"""

from __future__ import annotations

import os
import sys

from mcp_compaction.server import wire
from mcp_compaction.server.wire import claim


def main() -> int:
    """Serve the toy."""
    wire.CLEANUP = float(os.environ.get("TOY_CLEANUP", wire.CLEANUP))
    pipe = claim()
    pipe.open()

    from mcp_compaction.server import stdio
    from tests.server.toy_tools import build

    stdio.FINISHING = float(os.environ.get("TOY_FINISHING", stdio.FINISHING))
    return stdio.serve_stdio(pipe, build)


if __name__ == "__main__":
    sys.exit(main())

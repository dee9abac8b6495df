"""The smallest program that serves over stdio as the real one does: claim first, then import."""

from __future__ import annotations

import sys

from mcp_compaction.server.wire import claim


def main() -> int:
    """Serve the toy."""
    wire = claim()

    from mcp_compaction.server.stdio import serve_stdio
    from tests.server.toy_tools import build

    return serve_stdio(wire, build)


if __name__ == "__main__":
    sys.exit(main())

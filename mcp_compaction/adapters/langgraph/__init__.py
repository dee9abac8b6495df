"""LangGraph and LangChain: a graph wrapped for a long life, and a middleware for `create_agent`."""

try:
    import langchain  # noqa: F401
    import langgraph  # noqa: F401
except ImportError as missing:
    raise ImportError(
        "LangGraph is not installed; install it with: pip install 'mcp-compaction[langgraph]'"
    ) from missing

from mcp_compaction.adapters.langgraph.middleware import CompactionMiddleware
from mcp_compaction.adapters.langgraph.wrapper import CompactedGraph

__all__ = ["CompactedGraph", "CompactionMiddleware"]

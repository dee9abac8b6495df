"""LangGraph and LangChain: a graph wrapped for a long life, and a middleware for `create_agent`."""

from importlib.util import find_spec

if not (find_spec("langchain") and find_spec("langgraph")):
    raise ImportError(
        "LangGraph is not installed; install it with: pip install 'mcp-compaction[langgraph]'"
    )

from mcp_compaction.adapters.langgraph.middleware import CompactionMiddleware
from mcp_compaction.adapters.langgraph.wrapper import CompactedGraph

__all__ = ["CompactedGraph", "CompactionMiddleware"]

"""The one asynchronous shell: load, drive the flow, save; every host and command enters here."""

from __future__ import annotations

from mcp_compaction.compactor.facade import Compactor
from mcp_compaction.compactor.progress import Progress, ignore_progress
from mcp_compaction.compactor.workspace import Collaborators

__all__ = ["Collaborators", "Compactor", "Progress", "ignore_progress"]

from __future__ import annotations

import pytest

from mcp_compaction import compactor


def test_an_unknown_verb_is_refused_by_name() -> None:
    with pytest.raises(AttributeError, match="no 'fly'"):
        compactor.__getattr__("fly")

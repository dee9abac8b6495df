"""No part of the package imports another that imports it, imports for types alone counted."""

from __future__ import annotations

import grimp

PACKAGE = "mcp_compaction"


def test_there_is_no_circle_of_imports_those_for_types_counted() -> None:
    graph = grimp.build_graph(PACKAGE, exclude_type_checking_imports=False, cache_dir=None)
    packages = [name for name in graph.modules if graph.find_children(name)]
    circles = {name: graph.nominate_cycle_breakers(name) for name in packages}
    assert {name: broken for name, broken in circles.items() if broken} == {}

"""What a compaction would lose is shown again where a reader looks for it."""

from __future__ import annotations

from mcp_compaction.core.compaction.verify import lines_of_findings
from mcp_compaction.core.log.identifiers import Finding
from mcp_compaction.model import Item
from tests.core.saying import user
from tests.sessions import messages_of


def test_names_numbers_and_errors_are_put_back_in_sections_of_their_own() -> None:
    name = Finding("file", "src/rates.py")
    number = Finding("number", "port=8443")
    error = Finding("error", "ValueError: no rate for 2031")
    gone = messages_of([user("src/rates.py\nport=8443\nValueError: no rate for 2031")])
    lines = lines_of_findings([name, number, error], gone, {1: (name, number, error)})
    said = [
        Item(text=one.text, refs=("m1",), provenance="verbatim") for one in (name, number, error)
    ]
    assert lines == {1: list(zip(("NAMES", "FACTS", "ERRORS"), said, strict=True))}

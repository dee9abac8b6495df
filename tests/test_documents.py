"""What the documents point at is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.documents import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

_LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")
_FENCE = re.compile(r"^```.*?^```$", re.M | re.S)


def headings_of(page: Path) -> set[str]:
    """The anchors of a page, as a forge makes them of its headings."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    for path, anchor in _LINK.findall(text):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        if anchor:
            assert anchor in headings_of(target), f"{path}#{anchor}"


def test_the_index_of_the_documents_names_every_page() -> None:
    index = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert {path for path, _ in _LINK.findall(index)} - {"../README.md"} == pages


def test_the_figures_of_the_readme_are_those_of_the_evaluation() -> None:
    root = Path(__file__).parents[1]
    readme = (root / "README.md").read_text(encoding="utf-8")
    measured = (root / "docs" / "evaluation.md").read_text(encoding="utf-8")
    for row, said in (("LoCoMo, answers", "LoCoMo's chats"), ("tau, values", "tau-bench's runs")):
        (line,) = [line for line in measured.splitlines() if line.startswith(f"| {row}")]
        closed = re.findall(r"\*\*(\.\d\d)\*\*", line)
        (told,) = [line for line in readme.splitlines() if said in line and line.startswith("|")]
        assert re.findall(r"\| (\.\d\d)(?= )", told) == closed

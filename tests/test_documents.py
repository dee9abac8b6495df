"""What the documents point at is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.documents import ROOT

PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "examples").glob("*/README.md")),
    *sorted((ROOT / "mcp_compaction").rglob("README.md")),
]

MOST_WORDS = 22_000
_LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")
_OURS = re.compile(
    r"(?<![\w./-])((?:benchmarks|examples|mcp_compaction|packages|tests|\.ci)/[\w./-]*\w)"
)
_BENCHMARK = re.compile(r"python (benchmarks/\w+\.py)([^`\n#]*)")
_FENCE = re.compile(r"^```.*?^```$", re.M | re.S)


def headings_of(page: Path) -> set[str]:
    """The anchors of a page, as a forge makes them of its headings."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    for path, anchor in _LINK.findall(text):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        if anchor:
            assert anchor in headings_of(target), f"{path}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_file_of_this_repository_that_a_page_names_is_there(page: Path) -> None:
    for path in _OURS.findall(page.read_text(encoding="utf-8")):
        assert (ROOT / path).exists() or (page.parent / path).exists(), path


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_benchmark_knows_the_options_that_a_page_gives_it(page: Path) -> None:
    for path, words in _BENCHMARK.findall(page.read_text(encoding="utf-8")):
        program = (ROOT / path).read_text(encoding="utf-8")
        for option in re.findall(r"--[\w-]+", words):
            assert f'"{option}"' in program, f"{path} {option}"


def test_every_address_of_a_forge_is_the_one_of_this_project() -> None:
    own = "https://github.com/mcp-compaction/mcp-compaction"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert {*re.findall(r"https://github\.com/[\w./-]+\w", readme)} == {own}


def test_the_index_of_the_documents_names_every_page() -> None:
    index = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert {path for path, _ in _LINK.findall(index)} - {"../README.md"} == pages


def test_readme_and_pages_are_no_longer_than_a_person_reads() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    texts = [page.read_text(encoding="utf-8") for page in pages]
    words = sum(any(map(str.isalnum, word)) for text in texts for word in text.split())
    assert words <= MOST_WORDS, f"{words:,} words: cut a page before another sentence is added"


def test_the_figures_of_the_readme_are_those_of_the_evaluation() -> None:
    root = Path(__file__).parents[1]
    readme = (root / "README.md").read_text(encoding="utf-8")
    measured = (root / "docs" / "evaluation.md").read_text(encoding="utf-8")
    for row, said in (("LoCoMo, answers", "(LoCoMo)"), ("tau, values", "(tau-bench)")):
        (line,) = [line for line in measured.splitlines() if line.startswith(f"| {row}")]
        closed = re.findall(r"\*\*(\.\d\d)\*\*", line)
        (told,) = [line for line in readme.splitlines() if said in line and line.startswith("|")]
        assert re.findall(r"\| (\.\d\d)(?= )", told) == closed

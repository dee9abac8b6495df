"""No pattern of a lexicon needs exponential time, whatever is repeated in a text."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mcp_compaction.lexicon.languages import read_heads

SEARCH = r"""
import re, sys
from mcp_compaction.lexicon.languages import read_lexicon
lexicon = read_lexicon(sys.argv[1])
for name in lexicon.parts:
    source = lexicon.fill(f"{{{name}}}")
    words = set(re.findall(r"[^\W\d_]+", re.sub(r"\\.", " ", source)))
    print(name, flush=True)
    for word in (*words, "1.", "1,"):
        for between in ("", " ", "-"):
            re.search(source, (word + between) * 40 + "!", re.I)
print("all")
"""
FOREVER = 120  # seconds; what is sound takes one or two


@pytest.mark.thorough
@pytest.mark.parametrize("language", [head.language for head in read_heads()])
def test_each_part_is_soon_looked_for_in_repeats_of_its_own_words(language: str) -> None:
    command = [sys.executable, "-c", SEARCH, language]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=FOREVER)
    assert ran.stdout.endswith("all\n")

"""A language is added as one file, and no Python: a copy of the package gets a Dutch lexicon."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mcp_compaction

DUTCH = """
[meta]
language = "nl"
name = "Dutch"
stemmer = "dutch"
function_words = \"\"\"
aan al als altijd bij dat de deze die dit door een en er geen hebben het hij ik in is je kan maar
met mij moet naar niet niets nog nooit nu of om ook op over te tot uit van veel voor wat we weer
wij worden zal ze zijn zonder
\"\"\"
typical_words = "gebruik klaar"

[unless]
rule = "somebody's story"

[[sign]]
kind = "guard"
name = "somebody's story"
pattern = '''^(?:ik|hij|we|wij) (?:ben|heb|was|had|is|waren|hebben)\\b'''
yes = ["Ik ben nog nooit in Gent geweest."]
no = ["Push nooit naar main."]

[[sign]]
kind = "rule"
name = "never and always"
needs = "nooit altijd"
pattern = '''\\b(?:nooit|altijd)\\b'''
yes = ["Push nooit naar main.", "Gebruik altijd de staging-sleutel."]
no = ["Ik ben nog nooit in Gent geweest."]

[[sign]]
kind = "decision"
name = "we take"
needs = "nemen"
pattern = '''^we nemen\\b'''
yes = ["We nemen SQLite in plaats van Postgres."]
no = ["We zien het morgen wel."]
"""

ASK = """
import json
from mcp_compaction.core.log.decisions import find_decisions
from mcp_compaction.core.text.signs import find_rules
from mcp_compaction.core.text.words import stem
text = "Push nooit naar main. Ik ben nog nooit in Gent geweest. We nemen SQLite."
print(json.dumps([
    find_rules(text),
    find_decisions(text),
    stem("bestanden", "nl") == stem("bestand", "nl"),
]))
"""


@pytest.mark.thorough
def test_a_dutch_lexicon_makes_dutch_rules_and_decisions_found(tmp_path: Path) -> None:
    package = tmp_path / "mcp_compaction"
    shutil.copytree(Path(mcp_compaction.__file__).parent, package)
    (package / "lexicon" / "nl.toml").unlink(missing_ok=True)

    assert answers(tmp_path) == [[], [], False]

    (package / "lexicon" / "nl.toml").write_text(DUTCH, encoding="utf-8")

    found = [["Push nooit naar main."], ["We nemen SQLite."], True]
    assert answers(tmp_path) == found


def answers(folder: Path) -> object:
    command = [sys.executable, "-P", "-c", ASK]
    environ = {"PYTHONPATH": str(folder)}
    ran = subprocess.run(command, env=environ, check=True, capture_output=True, text=True)
    return json.loads(ran.stdout)

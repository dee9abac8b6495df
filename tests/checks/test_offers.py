"""Checks that are offered for the rules of others hold what these mean, and let the rest pass.

`rules.tsv`, and `later_rules.tsv`, found in lots once those before were read well: a rule as a
public CLAUDE.md or AGENTS.md states it, the calls that it means, and calls that it does not mean;
nothing where it names no thing that a call could be known by. `plain_rules.tsv`: short rules in ten
languages, as people end their sentences.
"""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction.checks import offer
from mcp_compaction.checks.judge import Rule, judge
from mcp_compaction.checks.match import Call
from mcp_compaction.checks.offer import offer_checks
from mcp_compaction.lexicon import read_table
from tests.tables import table


def lines_of(name: str) -> list[str]:
    return Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines()


RULES = [*lines_of("rules.tsv"), *lines_of("later_rules.tsv")]


def is_held(rule: Rule, said: str, folder: Path) -> bool:
    """Whether a call, as `Bash@branch: git commit`, is held."""
    tool, _, what = said.partition(": ")
    tool, _, branch = tool.partition("@")
    (folder / ".git").mkdir(exist_ok=True)
    (folder / ".git/HEAD").write_text(f"ref: refs/heads/{branch or 'topic'}\n")
    key = "command" if tool == "Bash" else "file_path"
    return bool(judge(Call(tool, {key: what}, str(folder), str(folder)), [rule]))


def outcome(line: str, folder: Path) -> str:
    text, held, passed = line.split("\t")
    rule = Rule(1, text, offer_checks(text))
    means = [one for one in held.split(";") if one]
    if not rule.checks:
        return "missed" if means else "none"
    is_right = bool(means) and all(is_held(rule, one, folder) for one in means)
    is_wide = any(is_held(rule, one, folder) for one in passed.split(";") if one)
    return "right" if is_right and not is_wide else "wrong"


TABLE: dict[str, Any] = read_table("offers.toml")
ENTRIES = [(k, n) for k in ("sign", "act", "run") for n in TABLE[k]]


@pytest.mark.parametrize(("kind", "name"), ENTRIES)
def test_each_sign_is_seen_in_its_examples_and_in_no_near_miss(kind: str, name: str) -> None:
    entry: dict[str, Any] = TABLE[kind][name]
    yes: list[str] = entry["yes"]
    no: list[str] = entry.get("no", [])
    pattern = re.compile(entry["pattern"], re.I)
    is_seen = pattern.match if name == "ends_act" else pattern.search
    assert yes
    assert all(is_seen(text) for text in yes)
    assert not any(is_seen(text) for text in no)


@pytest.mark.parametrize(("kind", "name"), ENTRIES)
def test_an_entry_gives_a_rule_its_check_and_without_it_none(
    kind: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry: dict[str, Any] = TABLE[kind][name]
    example = "\t".join(entry["offer"])
    wanted = "right" if entry["offer"][1] else "none"
    assert outcome(example, tmp_path) == wanted
    before = offer_checks(entry["offer"][0])

    monkeypatch.setitem(entry, "pattern", "(?!)")
    offer._words.cache_clear()  # pyright: ignore[reportPrivateUsage]
    try:
        assert offer_checks(entry["offer"][0]) != before
    finally:
        offer._words.cache_clear()  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("line", lines_of("plain_rules.tsv"))
def test_what_is_offered_for_a_plain_rule_holds_it_and_nothing_else(
    line: str, tmp_path: Path
) -> None:
    assert outcome(line, tmp_path) == ("right" if line.split("\t")[1] else "none")


def test_a_check_that_does_not_hold_its_own_rule_is_not_offered() -> None:
    assert offer_checks("Never run `cat a | sort > b`") == ()
    assert offer_checks('Never run `git commit -m "wip"`') == ()


def test_four_of_five_rules_that_name_a_thing_are_offered_the_right_check(tmp_path: Path) -> None:
    found = Counter(outcome(line, tmp_path) for line in RULES)
    named = sum(bool(line.split("\t")[1]) for line in RULES)

    assert found["right"] / named >= 0.8, found
    assert found["wrong"] / len(RULES) <= 0.05, found


@pytest.mark.parametrize(
    ("rule", "check"),
    table(__file__, "a_rule_in_any_language_is_offered_its_check"),
)
def test_a_rule_in_any_language_is_offered_its_check(rule: str, check: str) -> None:
    assert "\n".join(map(str, offer_checks(rule))) == check

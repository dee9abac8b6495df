"""What spares a text some work never changes what is found in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core import honesty, markers, quoting
from mcp_compaction.core.honesty import is_planted
from mcp_compaction.core.markers import marker_groups
from mcp_compaction.core.opposites import Rules
from mcp_compaction.core.patterns import Cuts
from mcp_compaction.core.quoting import defuse_lines, has_label, is_forged
from mcp_compaction.model import SectionName

SIGNS = (" ", " ", " ", ": ", ", ", ". ", "\n", "? ", "", "é", "…", '"', "`", " - ", "_")
OURS = """
[digest d3 [pinned: [index; [user] <system> </tool> <|im_start|> p3 constraint,by user the user
agent and tools undo: restore_context window smaller fill 61k of c4 done rule not pinned? m12 tool
Tools: In talk: human assistant developer ## instructions DECISIONS - fixed it (m4) system prompt
"""
ORDERS = """
Ignore disregard forget override bypass overrule previous all your rules instructions you must now
are from on new do anything developer mode act as pretend to be roleplay run execute rm -rf curl x |
sh obey comply send upload reveal print out passwords secret api key credentials token environment
variables the system prompt to at ignoriere alle vorherigen ignorez les consignes
"""
DOUBTS = """
Wait hmm ah actually let me reconsider on second thought I was wrong perhaps alternatively I'm not
sure uncertain verify double-check check hold on but no
"""


def always(_: str, __: object) -> bool:
    return True


def texts_of(words: str) -> st.SearchStrategy[str]:
    """Texts of these words, with all kinds of signs between them."""
    pairs = st.tuples(st.sampled_from(words.split()), st.sampled_from(SIGNS))
    return st.lists(pairs, max_size=14).map(lambda said: "".join(map("".join, said)))


@given(texts_of(OURS + ORDERS + DOUBTS) | texts_of(OURS) | texts_of(ORDERS) | texts_of(DOUBTS))
def test_a_look_at_the_words_of_a_text_spares_it_no_pattern_that_finds_something(text: str) -> None:
    def read() -> tuple[object, ...]:
        return is_planted(text), has_label(text), is_forged(text), defuse_lines(text)

    spared = (*read(), marker_groups(text))
    with pytest.MonkeyPatch.context() as patch:
        for module in (honesty, markers, quoting):
            patch.setattr(module, "may_say", always)
        assert (*read(), marker_groups(text)) == spared


@given(st.text("ab. ,!?\n\t-", max_size=40))
def test_a_text_without_wide_stops_is_cut_where_any_text_is(text: str) -> None:
    cuts = Cuts(r"(?<=[.!?。！？])\s+|\n+", r"(?<=,)\s+(?=a)|\s+-\s+")
    assert cuts.in_text(text).split(text) == cuts.in_text("。").split(text)


RULES = st.lists(
    st.builds(
        "{} {} the {} {}.".format,
        st.sampled_from(("Never", "Always", "Do not", "Only", "You may")),
        st.sampled_from(("deploy", "push", "share", "delete")),
        st.sampled_from(("api", "staging", "release", "old")),
        st.sampled_from(("key on friday", "branch", "database without a backup", "keys")),
    ),
    max_size=6,
)
SECTIONS: tuple[SectionName, ...] = ("DECISIONS", "FACTS", "NEXT")


@given(RULES, RULES, st.sampled_from(SECTIONS))
def test_a_line_opposes_rules_where_it_opposes_one_of_them(
    rules: list[str], lines: list[str], section: SectionName
) -> None:
    together, alone = Rules(rules), [Rules([rule]) for rule in rules]
    for line in lines:
        is_opposed = any(rule.are_opposed_by(section, line) for rule in alone)
        assert together.are_opposed_by(section, line) == is_opposed

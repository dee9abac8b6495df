"""`mcp-compaction lexicon check`: whoever adds a language sees which sign took which sentence."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Shell

DUTCH = """
[meta]
language = "nl"
name = "Dutch"
stemmer = "dutch"
function_words = "de het een en niet nooit altijd geen op in van voor naar ik we je"

[[sign]]
kind = "guard"
name = "story"
pattern = '''^ik '''
yes = "Ik ben nooit in Rome geweest."
no = "Push nooit naar main."

[[sign]]
kind = "rule"
name = "never"
needs = "nooit"
pattern = '''\\bnooit\\b'''
unless = "story"
yes = ["Push nooit naar main.", "Gebruik nooit npm."]
no = "Ik ben nooit in Rome geweest."
"""


def written(tmp_path: Path, source: str) -> str:
    file = tmp_path / "nl.toml"
    file.write_text(source, encoding="utf-8")
    return str(file)


def test_each_sentence_is_shown_with_the_sign_that_took_it(tmp_path: Path, shell: Shell) -> None:
    ran = shell.bare("lexicon", "check", written(tmp_path, DUTCH))

    assert ran.code == 0
    assert "yes Push nooit naar main.  <- never" in ran.out
    assert "no  Ik ben nooit in Rome geweest.  <- no sign" in ran.out
    assert ran.out.endswith("Dutch: 2 signs, all as their sentences say\n")


def test_a_sign_that_does_not_do_what_its_sentences_say_is_named(
    tmp_path: Path, shell: Shell
) -> None:
    source = DUTCH.replace('unless = "story"\n', "").replace("Gebruik nooit npm", "Geen npm")

    ran = shell.bare("lexicon", "check", written(tmp_path, source))

    assert ran.code == 1
    assert "wrong: it does not take its yes sentence: Geen npm." in ran.out
    assert "wrong: never takes its no sentence: Ik ben nooit in Rome geweest." in ran.out
    assert ran.out.endswith("Dutch: 2 signs, 1 sign wrong\n")


def test_a_sentence_that_no_function_word_gives_away_is_named(tmp_path: Path, shell: Shell) -> None:
    source = DUTCH.replace("niet nooit altijd geen", "niet altijd geen")

    ran = shell.bare("lexicon", "check", written(tmp_path, source))

    assert (
        "taken for no known language; add a function or typical word: Gebruik nooit npm." in ran.out
    )


def test_what_cannot_be_read_says_what_to_mend(tmp_path: Path, shell: Shell) -> None:
    for source, problem in (
        ("x = ", "this is no TOML"),
        ("[meta]\nlanguage = 'nl'", "meta.name: Field required"),
        (DUTCH.replace('kind = "rule"', 'kind = "rool"'), "sign 'never', kind"),
    ):
        ran = shell.bare("lexicon", "check", written(tmp_path, source))
        assert (ran.code, ran.out) == (2, "")
        assert problem in ran.err
    assert "cannot be read" in shell.bare("lexicon", "check", str(tmp_path / "none.toml")).err


def test_a_broken_sign_is_named_and_the_others_are_checked(tmp_path: Path, shell: Shell) -> None:
    source = DUTCH.replace('unless = "story"', 'unless = "tale"')

    ran = shell.bare("lexicon", "check", written(tmp_path, source))

    assert "wrong: it names the guard 'tale', and there is none of that name" in ran.out
    assert "yes Ik ben nooit in Rome geweest.  <- story" in ran.out


def test_what_a_file_gets_wrong_as_a_whole_is_named(tmp_path: Path, shell: Shell) -> None:
    for source, problem in (
        (
            DUTCH.replace('"dutch"', '"hollands"'),
            "stemmer = 'hollands' is none",
        ),
        (DUTCH.replace("de het een", "de het days ago een"), "would be taken for it by "),
    ):
        ran = shell.bare("lexicon", "check", written(tmp_path, source))
        assert ran.code == 1
        assert problem in ran.out
    misnamed = shell.bare("lexicon", "check", written(tmp_path, DUTCH.replace('"nl"', '"be"')))
    assert "Call it be.toml, or mend the code." in misnamed.err


def test_a_date_without_a_group_that_tells_its_days_is_named(tmp_path: Path, shell: Shell) -> None:
    date = """
[[sign]]
kind = "date"
name = "a day"
pattern = '''op de (?P<day>\\d+)e'''
yes = "Dat was op de 5e van de maand."
no = "Dat was in de zomer."
"""
    ran = shell.bare("lexicon", "check", written(tmp_path, DUTCH + date))

    assert "wrong: a date needs one of the groups month, near, number" in ran.out


def test_a_sentence_of_ones_own_shows_its_signs(tmp_path: Path, shell: Shell) -> None:
    file = written(tmp_path, DUTCH)

    assert "nl rule never" in shell.bare("lexicon", "check", file, "--say", "Nooit pushen!").out
    other = shell.bare("lexicon", "check", file, "--say", "Hallo daar.").out
    assert other == "words and letters that speak for a language: none\nno sign takes it\n"


def test_programs_get_one_document(tmp_path: Path, shell: Shell) -> None:
    file = written(tmp_path, DUTCH)

    (found,) = json.loads(shell.bare("lexicon", "check", file, "--json").out)
    assert found["language"] == "nl"
    assert [sign["name"] for sign in found["signs"]] == ["story", "never"]
    said = shell.bare("lexicon", "check", file, "--json", "--say", "Nooit pushen!").out
    assert json.loads(said) == [{"language": "nl", "kind": "rule", "name": "never"}]


def test_one_broken_sign_or_part_keeps_no_other_from_being_checked(
    tmp_path: Path, shell: Shell
) -> None:
    broken = """
[[sign]]
kind = "rule"
name = "broken"
pattern = '''a('''
yes = "Doe dat nooit."
no = "Dat is de regel niet."
"""
    parts = "\n[parts]\nround = '''{round}'''\n\n[[sign]]"
    source = DUTCH.replace("\n[[sign]]", parts, 1) + broken

    ran = shell.bare("lexicon", "check", written(tmp_path, source))

    assert ran.code == 1
    assert "wrong: its pattern cannot be read" in ran.out
    assert "Dutch wrong: the part round cannot be read" in ran.out
    assert "yes Push nooit naar main.  <- never" in ran.out

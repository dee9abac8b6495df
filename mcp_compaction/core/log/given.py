"""Reads what the words of a command give it to work on; the options are data, in `tools.toml`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.lexicon.tools import known_options

_NUMBER = pattern_of(r"\d[\d.]*$")
_CLUSTER = pattern_of(r"-[A-Za-z]{2,3}$")  # of short options; the last may take a value


class Given(NamedTuple):
    """What a run was given to work on, and the options by which it does less than all of that."""

    things: frozenset[str] = frozenset()
    limits: frozenset[str] = frozenset()


def given_in(words: Sequence[str]) -> Given:
    """What a program and the words after it say: packages, files, a query."""
    meanings = _meanings_for(words)
    things: set[str] = set()
    limits: set[str] = set()
    option, meaning = "", ""  # the word before, where it may take the next one as its value
    for word in words[1:]:
        if word.startswith("-"):
            name = _name_in(word, meanings)
            option, meaning = word, meanings.get(name, "")
            if meaning in ("narrows", "tries"):
                limits.add(word)
            if word != name and not (_CLUSTER.match(word) and word.endswith(name[1:])):
                meaning = ""  # the value is in the word
            continue
        if meaning == "narrows":
            limits.add(f"{option} {word}")
        elif meaning != "words" and not (meaning == "number" and _NUMBER.match(word)):
            things.add(word)
        meaning = ""
    return Given(frozenset(things), frozenset(limits))


def _meanings_for(words: Sequence[str]) -> dict[str, str]:
    """What the options mean that a command may have; what is known of its program counts most."""
    names = frozenset(word.rpartition("/")[2] for word in words)
    own = [one for one in known_options() if any(names.issuperset(p.split()) for p in one.of)]
    known = (*(one for one in known_options() if not one.of), *own)
    return {name: one.means for one in known for name in one.names}


def _name_in(word: str, names: dict[str, str]) -> str:
    """The known option in a word that may hold its value too, or several short options."""
    name = word.partition("=")[0]
    if name in names:
        return name
    short = (f"-{word[-1]}" if _CLUSTER.match(word) else "", word[:2])
    return next((one for one in short if one in names), "")

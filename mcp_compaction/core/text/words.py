"""Folds and shortens texts, and tells which of their words say something."""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import pairwise, repeat
from string import ascii_letters, digits
from typing import cast

from mcp_compaction.core.reading import read_once
from mcp_compaction.core.text.language import ENGLISH, main_language
from mcp_compaction.core.text.patterns import cut_words, cutting_table, pattern_of
from mcp_compaction.lexicon.languages import read_heads

_WORD = pattern_of(r"\d+(?:[-:/.,]\d+)+|\w+")  # numbers joined, as dates and versions have them
_WITHOUT_SPACES = pattern_of(r"[぀-ヿ㐀-鿿가-힯]{2,}")


def fold(text: str) -> str:
    """A text as it is compared: lower case, single spaces, no end mark."""
    return one_line(text.lower()).strip(" .!\"'")


def is_plain(word: str) -> bool:
    """Whether a word is none but letters, small after the first, as most are: it names nothing."""
    return word.isalpha() and word[1:].islower()


def one_line(text: str) -> str:
    """A text on one line, with single spaces."""
    return " ".join(text.split())


def shorten(text: str, most: int) -> str:
    """A text on one line of so many characters at most, cut at a word's end."""
    line = one_line(text)
    return line if len(line) <= most else line[:most].rsplit(" ", 1)[0] + " …"


def first_line(text: str) -> str:
    """The first line of a text, shortened."""
    return shorten(text.strip().split("\n", 1)[0], 100)


def lower_words(text: str) -> list[str]:
    """The words and numbers of a text in lower case, in the order they stand."""
    return _WORD.findall(text.lower())


def telling_words(text: str) -> tuple[str, ...]:
    """The stems of the words of a text that say something, in alphabetical order."""
    found = set(telling_in_order(text))
    found.discard("")
    return tuple(sorted(found))


@read_once
def telling_in_order(text: str) -> tuple[str, ...]:
    """The stems of the words of a text, with nothing in the place of words that tell nothing."""
    return tuple(map(telling_stem, lower_words(text), repeat(main_language(text))))


@lru_cache(maxsize=65_536)  # every word of a window is looked up
def telling_stem(word: str, language: str = ENGLISH) -> str:
    """The stem of a lowercase word that says something, else nothing."""
    is_empty = word in stop_words(language) if len(word) > 1 else not word.isdigit()
    return "" if is_empty else stem(word, language)


@cache
def stop_words(language: str = ENGLISH) -> frozenset[str]:
    """The words of a language that tell nothing about what a text is about."""
    head = next((head for head in read_heads() if head.language == language), None)
    return frozenset((head.stop_words or head.function_words) if head else ())


@lru_cache(maxsize=65_536)
def stem(word: str, language: str = ENGLISH) -> str:
    """A lowercase word without its endings, so that its forms are one; itself, where no stemmer
    knows the language."""
    name = next((head.stemmer for head in read_heads() if head.language == language), "")
    if not name or not word.isalpha():
        return word
    return stem_by(name, word) or word


def stem_by(stemmer: str, word: str) -> str | None:
    """A word without its endings, by the stemmer of that name; None, where there is none."""
    # Nobody who compacts nothing pays for the library. A stemmer keeps the word it works on, so
    # that each thread needs its own; making one costs nothing, nor is there need of its cache.
    # The package has no types.
    from Stemmer import Stemmer  # pyright: ignore[reportMissingModuleSource, reportMissingTypeStubs, reportUnknownVariableType]

    try:
        return cast("str", Stemmer(stemmer, 0).stemWord(word))  # pyright: ignore[reportUnknownMemberType]
    except KeyError:
        return None


def space_pairs(text: str) -> str:
    """A text whose scripts without spaces are written as pairs of signs, which stand for words."""
    if text.isascii():
        return text
    return _WITHOUT_SPACES.sub(lambda m: f" {' '.join(map(''.join, pairwise(m[0])))} ", text)


# A word that names something exact: it has a digit, a capital inside, an underscore or a slash.
_EXACT = pattern_of(
    r"(?<![\w./-])(?=[\w./:@+-]{0,79}(?:\d|_|[a-z][A-Z]|\w/\w|\w\.\w))[A-Za-z0-9_/~.][\w./:@+-]{3,79}"
)
_RUN_TABLE = cutting_table(f"{ascii_letters}{digits}_./:@+~-")[:128] + bytes(range(128, 256))
_END = ".,:;)"


@read_once
def exact_words(text: str) -> frozenset[str]:
    """The words of a text that name something exact."""
    runs = set(cut_words(text, _RUN_TABLE))  # of signs that may stand in such a word
    likely = " ".join([run for run in runs if not is_plain(run)])
    return frozenset([word.rstrip(_END) for word in _EXACT.findall(likely)])


class Haystack:
    """A long text in which many others are looked for."""

    def __init__(self, text: str) -> None:
        """Note the words of the text, and which of them stand side by side."""
        self.text = text
        words = text.split()
        self._words = frozenset(words)
        self._pairs = frozenset(pairwise(words))

    def holds(self, part: str) -> bool:
        """Whether the text holds that part, sign by sign."""
        # The first and the last word may be the end and the beginning of longer ones.
        inner = part.split()[1:-1]
        return (
            self._words.issuperset(inner)
            and self._pairs.issuperset(pairwise(inner))
            and part in self.text
        )

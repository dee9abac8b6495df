"""Finds the sentences that state a decision, each with the reason given next to it, and the words
that it is about."""

from __future__ import annotations

from functools import cache, lru_cache

from mcp_compaction.core.text.all_languages import part_in_all
from mcp_compaction.core.text.language import ENGLISH, languages_of, words_of
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.sentences import Sentence, spoken_sentences
from mcp_compaction.core.text.signs import part_of, sign_in, signs_of
from mcp_compaction.core.text.words import one_line, space_pairs, stem, stop_words
from mcp_compaction.lexicon.languages import read_lexicon

_WORD = pattern_of(r"[^\W_][\w+#.-]*[\w+#]|[^\W\d_]")
_ENDS_OF_NONE = ("?", "？", ":", "：")  # a question, and what only announces
_WORD_OR_STOP = pattern_of(rf"{_WORD.pattern}|[,;:.!?()]")


def find_decisions(text: str, by_user: bool = True) -> tuple[str, ...]:
    """The sentences of a text that settle something, each with the reason given next to it."""
    sentences, found = spoken_sentences(text), list[str]()
    taken = -1  # the sentence that the last decision ended with
    for place, sentence in enumerate(sentences):
        languages = sentence.languages or (ENGLISH,)
        if place <= taken or not _settles(languages, sentence.bare, by_user):
            continue
        taken = place
        following = sentences[place + 1] if place + 1 < len(sentences) else None
        if following is not None and _completes(text, sentence, following):
            taken = place + 1
        found.append(one_line(text[sentence.start : sentences[taken].end]))
    return tuple(found)


@lru_cache(maxsize=8_192)
def _settles(languages: tuple[str, ...], bare: str, by_user: bool) -> bool:
    return not bare.endswith(_ENDS_OF_NONE) and any(
        _settles_as(code, bare, by_user) for code in languages
    )


def _settles_as(language: str, bare: str, by_user: bool) -> bool:
    """Whether a sentence settles something, read in one language."""
    decision, reversal = signs_of(language, "decision"), signs_of(language, "reversal")
    words, alone = words_of(bare), (language,)
    return (reversal.may_be_in(words) and turns_back(bare, alone)) or (
        decision.may_be_in(words)
        and any(
            any(decision.find(clause.strip(), by_user))
            for clause in part_of("decision_clause", language).split(bare)
            if clause
        )
    )


def _completes(text: str, sentence: Sentence, following: Sentence) -> bool:
    """Whether the next sentence gives the reason, or what comes instead."""
    if text[sentence.end : following.start].strip() or "\n\n" in text[sentence.end : following.end]:
        return False
    goes_on = part_in_all("leans").match(following.text) is not None
    # "Scrap that" names nothing.
    return goes_on or (turns_back(sentence.text) and not subject_words(sentence.text))


def turns_back(text: str, languages: tuple[str, ...] | None = None) -> bool:
    """Whether a text takes back what was decided; to turn something down alone does not."""
    return sign_in("reversal", text, languages) is not None


def words_turned_down(text: str) -> list[str]:
    """What a decision turns down: the words behind one of turning down, up to one by which it
    turns to something else."""
    known = [read_lexicon(code) for code in languages_of(text) or (ENGLISH,)]
    found: list[str] = []
    is_down = False
    for word in _WORD_OR_STOP.findall(text.lower()):
        if any(word in lexicon.words("turning_down") for lexicon in known):
            is_down = True
        elif not word[0].isalnum() or any(word in one.words("turning_to") for one in known):
            is_down = False
        elif is_down:
            found.append(word)
    return found


def subject_words(text: str, languages: tuple[str, ...] | None = None) -> frozenset[str]:
    """The words a text is about, as stems and without those that only decide."""
    known = (languages_of(text) if languages is None else languages) or (ENGLISH,)
    empty = _empty_words(known)
    words = (match.rstrip(".-") for match in _WORD.findall(space_pairs(text.lower())))
    return frozenset(stem(word, known[0]) for word in words if len(word) > 1 and word not in empty)


@cache
def _empty_words(languages: tuple[str, ...]) -> frozenset[str]:
    lists = ((stop_words(code), read_lexicon(code).words("deciding")) for code in languages)
    return frozenset(word for pair in lists for words in pair for word in words)

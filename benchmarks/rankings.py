"""How good a ranking is, how long it took, and the plain searches it is compared with."""

from __future__ import annotations

import importlib
import importlib.util
import math
import re
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

Count = Callable[[str], int]
Search = Callable[[str], list[int]]  # a query gives the places of texts, the best first

MEASURES = ("R@5", "R@10", "R@20", "hit@5", "MRR", "nDCG@10", "R@1kT")
_ANSWER_TOKENS = 1_000
_MOST_FOUND = 200


class Found(NamedTuple):
    """One hit: the place of its message in the chat, and the text that is given back."""

    place: int
    text: str


# Measures


def measure(found: Sequence[Found], wanted: Collection[int], count: Count) -> dict[str, float]:
    """Every measure of one ranking; `wanted` are the places of the evidence."""
    places = list(dict.fromkeys(hit.place for hit in found))  # a message counts at its first hit
    return {
        "R@5": share_among(places[:5], wanted),
        "R@10": share_among(places[:10], wanted),
        "R@20": share_among(places[:20], wanted),
        "hit@5": float(not set(wanted).isdisjoint(places[:5])),
        "MRR": reciprocal_rank(places, wanted),
        "nDCG@10": ndcg(places, wanted, 10),
        "R@1kT": share_among(places_within(found, _ANSWER_TOKENS, count), wanted),
    }


def share_among(places: Collection[int], wanted: Collection[int]) -> float:
    """How much of what is wanted is there."""
    return len(set(wanted) & set(places)) / len(set(wanted))


def reciprocal_rank(places: Sequence[int], wanted: Collection[int]) -> float:
    """One over the rank of the first that is wanted."""
    return next((1 / rank for rank, place in enumerate(places, 1) if place in wanted), 0.0)


def ndcg(places: Sequence[int], wanted: Collection[int], most: int) -> float:
    """The discounted gain of the first ones, as a share of what is possible."""
    gain = [1 / math.log2(rank + 1) for rank in range(1, most + 1)]
    got = sum(g for g, place in zip(gain, places, strict=False) if place in wanted)
    return got / sum(gain[: len(set(wanted))])


def places_within(found: Sequence[Found], tokens: int, count: Count) -> set[int]:
    """The messages of the hits, in order, before the first that no longer fits."""
    places: set[int] = set()
    for hit in found:
        tokens -= count(hit.text)
        if tokens < 0:
            break
        places.add(hit.place)
    return places


def mean(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each measure over the queries."""
    return {name: sum(score[name] for score in scores) / len(scores) for name in MEASURES}


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent of them do not exceed."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


# Searches to compare with


def fts5_words(texts: Sequence[str]) -> Search:
    """SQLite's full-text search as one first writes it: the question's words, OR-ed."""
    return _fts5(texts, "unicode61", lambda query: words(query))


def fts5_trigrams(texts: Sequence[str]) -> Search:
    """SQLite's full-text search for substrings: the query as it stands."""
    return _fts5(texts, "trigram", lambda query: [query])


def bm25s(texts: Sequence[str]) -> Search:
    """https://pypi.org/project/bm25s, with its English stop words."""
    library = importlib.import_module("bm25s")
    index: Any = library.BM25()
    known = library.tokenize(list(texts), stopwords="en", show_progress=False)
    index.index(known, show_progress=False)
    most = min(_MOST_FOUND, len(texts))

    def search(query: str) -> list[int]:
        terms = library.tokenize(query, stopwords="en", show_progress=False)
        places, scores = index.retrieve(terms, k=most, show_progress=False)
        return [int(p) for p, score in zip(places[0], scores[0], strict=True) if score > 0]

    return search


def rank_bm25(texts: Sequence[str]) -> Search:
    """https://pypi.org/project/rank-bm25, over lower-case words."""
    index: Any = importlib.import_module("rank_bm25").BM25Okapi([words(text) for text in texts])

    def search(query: str) -> list[int]:
        scores: list[float] = index.get_scores(words(query)).tolist()
        best = sorted(range(len(scores)), key=lambda place: -scores[place])[:_MOST_FOUND]
        return [place for place in best if scores[place] > 0]

    return search


PEERS: Mapping[str, Callable[[Sequence[str]], Search]] = {"bm25s": bm25s, "rank_bm25": rank_bm25}


def installed() -> dict[str, Callable[[Sequence[str]], Search]]:
    """The peers that can be imported here."""
    return {name: make for name, make in PEERS.items() if importlib.util.find_spec(name)}


def words(text: str) -> list[str]:
    """The different words of a text, in lower case."""
    return list(dict.fromkeys(re.findall(r"\w+", text.lower())))


def _fts5(texts: Sequence[str], tokenizer: str, terms: Callable[[str], list[str]]) -> Search:
    database = sqlite3.connect(":memory:")
    database.execute(f"CREATE VIRTUAL TABLE t USING fts5(body, tokenize = '{tokenizer}')")
    database.executemany("INSERT INTO t (rowid, body) VALUES (?, ?)", enumerate(texts))

    def search(query: str) -> list[int]:
        asked = " OR ".join('"' + term.replace('"', '""') + '"' for term in terms(query))
        rows = database.execute(
            "SELECT rowid FROM t WHERE t MATCH ? ORDER BY rank LIMIT ?", (asked, _MOST_FOUND)
        )
        return [place for (place,) in rows]

    return search

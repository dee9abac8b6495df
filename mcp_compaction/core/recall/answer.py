"""Chooses the passages that an answer has room for, joins those that stand together, and cuts what
is asked for whole into pages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from mcp_compaction.core.limits import MOST_TRIED, SHORTEST_PREVIEW
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.errors import InputError
from mcp_compaction.model import Hit, Value

_PER_ANSWER = 80  # tokens of the answer's first and last lines
_PER_DAY, _PER_PASSAGE = 17, 8  # tokens of a label: the first of a day, and one that tells none

_Key = tuple[str, str, str, str, int]
_Label = _Key | tuple[str, str, str]  # what labels tell: a passage, or a day


class AnswerHits(Value):
    """The passages that fit into an answer, and how many more there are."""

    hits: tuple[Hit, ...]
    more: int
    after: int  # of the ranking, so many need not be shown again


def choose(hits: Sequence[Hit], max_tokens: int, count: CountTokens, skip: int = 0) -> AnswerHits:
    """The passages that the answer holds, after those already given; at least one's start.

    Where one does not fit, shorter ones that are nearly as good do; the next answer begins with it.
    """
    left = hits[skip:]
    room = max_tokens - _PER_ANSWER
    labeled: set[_Label] = set()
    chosen: list[Hit] = []
    too_long: list[Hit] = []
    after = skip
    for hit in left:
        if too_long and (
            2 * hit.score < too_long[0].score or len(too_long) >= MOST_TRIED or room <= _PER_PASSAGE
        ):
            break
        cost = count(hit.text) + _label_cost(hit, labeled)
        if not chosen and cost > room:
            hit = _shorten_hit(hit, room - _PER_DAY, count)
            cost = room
        if cost > room:
            too_long.append(hit)
            continue
        chosen.append(hit)
        labeled |= {_key_of(hit), day_of(hit)}
        room -= cost
        after += not too_long
    return AnswerHits(hits=tuple(chosen), more=len(left) - len(chosen), after=after)


def _label_cost(hit: Hit, labeled: Collection[_Label]) -> int:
    """The tokens of a label beside those that are there; passages that are joined share one."""
    if _key_of(hit, -1) in labeled or _key_of(hit, 1) in labeled:
        return 0
    return _PER_PASSAGE if day_of(hit) in labeled else _PER_DAY


def day_of(hit: Hit) -> tuple[str, str, str]:
    """The project, session and day of a passage."""
    return hit.project, hit.session, f"{hit.at:%Y-%m-%d}" if hit.at else ""


def minute_of(hit: Hit) -> tuple[str, str, str]:
    """The project, session and minute of a passage."""
    return hit.project, hit.session, f"{hit.at:%Y-%m-%d %H:%M}" if hit.at else ""


def gather_days(hits: Iterable[Hit]) -> tuple[Hit, ...]:
    """The hits with those of one day together, where the best of them stands."""
    days: dict[tuple[str, str, str], list[Hit]] = {}
    for hit in hits:
        days.setdefault(day_of(hit), []).append(hit)
    return tuple(hit for day in days.values() for hit in day)


def _shorten_hit(hit: Hit, max_tokens: int, count: CountTokens) -> Hit:
    """A passage with as much of its text as fits, to the end of a word; a few words at least."""
    text = hit.text
    most = max(SHORTEST_PREVIEW, len(text) * max(1, max_tokens) // max(1, count(text)))
    while most > SHORTEST_PREVIEW and count(text[:most]) > max_tokens:
        most = max(SHORTEST_PREVIEW, most * 3 // 4)
    start = text if most >= len(text) else text[:most].rsplit(None, 1)[0] + " …"
    return hit.model_copy(update={"text": start})


def join_neighbors(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """The hits with neighboring passages of a message as one, where the best of them stands."""
    left = {_key_of(hit): hit for hit in hits}
    joined: list[Hit] = []
    for hit in hits:
        if _key_of(hit) in left:
            before = tuple(_take_neighbors(left, hit, -1))[::-1]
            joined.append(_join((*before, left.pop(_key_of(hit)), *_take_neighbors(left, hit, 1))))
    return tuple(joined)


def _key_of(hit: Hit, step: int = 0) -> _Key:
    # A host's words in a user's message are not the user's.
    return (hit.project, hit.session, hit.ref, hit.role, hit.ordinal + step)


def _take_neighbors(left: dict[_Key, Hit], hit: Hit, step: int) -> Iterator[Hit]:
    distance = step
    while neighbor := left.pop(_key_of(hit, distance), None):
        yield neighbor
        distance += step


def _join(run: Sequence[Hit]) -> Hit:
    if len(run) == 1:
        return run[0]
    return run[0].model_copy(
        update={
            "text": "\n".join(hit.text for hit in run),
            "note": "; ".join(dict.fromkeys(hit.note for hit in run if hit.note)),
            "also": tuple(dict.fromkeys(ref for hit in run for ref in hit.also)),
        }
    )


class Page(Value):
    """A page: what it shows of which texts, where the next one begins, and how much is left."""

    pieces: tuple[tuple[int, str], ...]
    after: int | None = None  # None: this is the last page
    left: int = 0


def cut_page(texts: Sequence[str], start: int, most: int) -> Page:
    """So many characters from a start on; an empty text counts as one, so that it is shown once."""
    total = sum(max(1, len(text)) for text in texts)
    if start and start >= total:
        raise InputError(f"cursor {start} is past the end; leave it out to begin again.")
    end = start + max(1, most)
    pieces: list[tuple[int, str]] = []
    begins = 0
    for number, text in enumerate(texts):
        ends = begins + max(1, len(text))
        if begins < end and start < ends:
            pieces.append((number, text[max(0, start - begins) : end - begins]))
        begins = ends
    left = max(0, total - end)
    return Page(pieces=tuple(pieces), after=end if left else None, left=left)

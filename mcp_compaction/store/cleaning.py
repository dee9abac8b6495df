"""What was made from a message, without it: pure, and the same in every store."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mcp_compaction.model import Digest, Kept, Offer, Receipt, Trimmed, View
from mcp_compaction.store.stub import FORGOTTEN

STUB_TOKENS = 10


def remove_lines(digest: Digest, seq: int) -> Digest:
    """The digest without the lines that came, or may have come, from a message."""
    covers = digest.first <= seq <= digest.last

    def stays(refs: Sequence[str]) -> bool:
        named = [number for ref in refs for number in _spans_of(ref)]
        return not any(first <= seq <= last for first, last in named) and (
            bool(named) or not covers
        )

    sections = tuple(
        (name, tuple(item for item in items if stays(item.refs))) for name, items in digest.sections
    )
    index = tuple(item for item in digest.index if stays(item.refs))
    return digest.model_copy(update={"sections": sections, "index": index})


def _spans_of(ref: str) -> list[tuple[int, int]]:
    """The spans of messages a ref names: `m42`, `m12..m40`."""
    return [
        (int(first), int(last or first))
        for first, last in re.findall(r"\bm(\d+)(?:\.\.m?(\d+))?", ref)
    ]


def count_lines(digest: Digest) -> int:
    """The lines of a digest and its index."""
    return sum(len(items) for _, items in digest.sections) + len(digest.index)


def clean_view(view: View, seq: int) -> View:
    """A view without cuts and excerpts of a message; the same one where it has none."""
    shows = any(promoted.seq == seq for promoted in view.promoted)
    if not shows and not any(
        _is_trimmed(entry, seq) for entry in (*view.head, *view.body, *view.since)
    ):
        return view
    # The stub is shorter than any cut of it, so it is shown whole.
    return view.model_copy(
        update={
            "head": tuple(Kept(seq=seq) if _is_trimmed(e, seq) else e for e in view.head),
            "body": tuple(Kept(seq=seq) if _is_trimmed(e, seq) else e for e in view.body),
            "since": tuple(e for e in view.since if e.seq != seq),
            "promoted": tuple(p for p in view.promoted if p.seq != seq),
        }
    )


def _is_trimmed(entry: object, seq: int) -> bool:
    return isinstance(entry, Trimmed) and entry.seq == seq


def clean_receipt(receipt: Receipt, seq: int) -> Receipt:
    """A receipt without what it says about a message: it may be a quotation."""
    named = re.compile(rf"\bm{seq}\b")
    return receipt.model_copy(
        update={
            "notes": tuple(FORGOTTEN if named.search(n) else n for n in receipt.notes),
            "shortfall": FORGOTTEN if named.search(receipt.shortfall or "") else receipt.shortfall,
            "offer": _without_candidates(receipt.offer, f"m{seq}"),
        }
    )


def _without_candidates(offer: Offer, ref: str) -> Offer:
    kept = tuple(candidate for candidate in offer.candidates if candidate.ref != ref)
    return offer.model_copy(update={"candidates": kept})

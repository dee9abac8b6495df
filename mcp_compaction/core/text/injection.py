"""Tells an injected text from an ordinary one: labels of ours, other voices, orders to a model."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from mcp_compaction.core.limits import MOST_TRIED
from mcp_compaction.core.reading import read_once
from mcp_compaction.core.text.all_languages import patterns_by_name
from mcp_compaction.core.text.patterns import any_of, may_say, pattern_of
from mcp_compaction.core.text.words import one_line
from mcp_compaction.model import SECTION_NAMES

BAR = "| "
END = "[end of record]"
"""The last line of each record of ours: what follows it was said."""
UNSEEN = pattern_of(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Signs that no reader sees and no writing needs."""
# And signs that some writing needs: they stay where a text is ordinary.
_INVISIBLE = pattern_of(
    UNSEEN.pattern[:-1] + "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200c\u200d\u3164"
    "\ufe00-\ufe0f\uffa0\U0001d173-\U0001d17a\U000e0100-\U000e01ef]"
)
_BRACKETS = str.maketrans("[]<>", "‹›‹›")

_SPEAKER = r"(?:system|human|assistant|user|developer)"
_LEAD = r"^(?:[^\w|]|_)*(?:\d{1,3}[.)](?:[^\w|]|_)*)?"  # bullets, quotes, markup; never our bar
_UNBARRED = r"(?<!\|\s)"
_NOT_TOLD = r"(?<!\bask )(?<!\basked )(?<!\btell )(?<!\btold )"  # these are said to the user


class _Pose(NamedTuple):
    """A way to pose as what one is not, and signs of which each line that does so has one: most
    lines have none, and are never searched."""

    signs: str  # empty: a line may have none of them
    pattern: re.Pattern[str]

    def find(self, seen: str) -> Iterator[re.Match[str]]:
        """Where a line as it is seen poses so."""
        may_pose = not self.signs or any(map(seen.__contains__, self.signs))
        return self.pattern.finditer(seen) if may_pose else iter(())


def _pose(signs: str, *patterns: str) -> _Pose:
    return _Pose(signs, any_of(*patterns))


# Labels and tags, which lose their brackets.
_BRACKETED = _pose(
    "[<",
    r"(?<![\w\])])\[\s*/?(?:(?:digest|compaction)\s+[dc]?\d|(?:pinned|records|log)\s*:"
    r"|index\s*(?:[;:]|of\b)|kept\s+word|end\s+of\s+record|(?:session\s+\S+\s+)?[mdp]\d+\s+(?:tool|agent|"
    + _SPEAKER
    + r")\b"
    r"|(?:inst|sys)\s*\])[^\[\]]{0,120}\]?",
    _LEAD + r"\[\s*/?(?:(?:pinned|index|memory|digest|kept)\b|" + _SPEAKER + r"\s*[\]:;])"
    r"[^\[\]]{0,120}\]?",
    r"(?:(?<![\w.])<|<\s*/)\s*(?:tool(?:_\w+)?|function_\w+|instructions?|prompt|im_start|im_end"
    r"|antml[^\s>]*|admin|system[-_](?:reminder|prompt|message)"
    rf"|{_SPEAKER})(?:[\s:/][^<>]{{0,80}})?>",
    r"<\s*(?:/\s*)?archived\b[^<>]{0,80}>?|<\s*/\s*(?:digest|pinned)\b[^<>]{0,80}>?",
    r"<\|\w[\w ▁]{0,38}\|>|<</?sys>>",
)
# Lines of ours without brackets; the group is where a bar is put.
_OURS = _pose(
    ":,?",
    # What stands anywhere on a line: its first letter is looked at before all else.
    r"(?=[aptu])\b" + _UNBARRED + r"(?:"
    r"(p\d+\b(?:\s+(?:constraint|open[\s_]+task|fact|note)\s*,\s*by\s+(?:user|agent|program)\b"
    r"|.{1,40}?\bby\s+(?:the\s+)?(?:user|agent|program)\W{0,2}:))"
    r"|(the\s+(?:user|agent)(?:\s*,\s*as\s[^:]{1,30}|\s+was\s+unsure)\s*:"
    r"|uncertainty\s+points\s+preserved\s*:)"
    r"|" + _NOT_TOLD + r"(the\s+user\s*:)"
    r"|(agent\s+and\s+tools\s*:)"
    r"|(undo\s*:\s*restore\w*))",
    _LEAD + r"(the\s+agent\s*:|(?:tools|in\s+talk)\s*:\s*$)",
    _LEAD + r"(window\s*:\s*(?:smaller|larger|unchanged|as\s+it\s+was|yours|the\s+host)\b)",
    _LEAD + r"(fill\s*:\s*[\d.]+k?\s+of\b|c\d+\s+(?:done|restored|saved|paged\s+in)\s*:)",
    _LEAD + r"(rule\s+not\s+pinned\?|fact\s+for\s+later\s+sessions\?)",
)
_MESSAGE = _pose("", _LEAD + r"(m\d+\s+(?:tool|" + _SPEAKER + r")\s*(?::|$))")
_VOICE = _pose(
    ":#",
    rf"(?:{_LEAD}|[.!?][\"')\]]?\s+)({_SPEAKER}(?:\s+(?:prompt|message))?[\s*_`\"']*:)",
    _UNBARRED + r"(?<!\S)(#{2,6}\s?(?:system|instructions?)\b)",
    r"^\s*(#{1,6}\s*(?:instructions?|" + _SPEAKER + r")\s*$)",
)
# What a digest is made of; in a pin or a draft it is no more than a list.
_SHAPE = _pose(
    "",
    _LEAD + "((?:" + "|".join(SECTION_NAMES) + r")[\s:*_#]*$)",
    r"^\s*[-*•]\s+((?!\|)\S.*\([mdp]\d+(?:(?:,\s?|\.\.)[mdp]?\d+)*\)\s*"
    r"(?:\(older; see \w+\)\s*)?(?:\[superseded\]\s*)?$)",
)


def has_label(text: str) -> bool:
    """Whether a line of a text poses as a label, a tag or a line of ours."""
    return any(_poses(seen, _BRACKETED, _OURS, _MESSAGE) for seen in _lines_as_seen(text))


def is_forged(text: str) -> bool:
    """Whether a line of a text poses as one of ours or as another voice of the chat."""
    return any(_poses(seen, _BRACKETED, _OURS, _MESSAGE, _VOICE) for seen in _lines_as_seen(text))


def _poses(seen: str, *poses: _Pose) -> bool:
    return any(next(pose.find(seen), None) for pose in poses)


@lru_cache(maxsize=8_192)
def defuse(text: str) -> str:
    """A text on one line, in which a bar or other brackets mark what poses as ours.

    The words stay in their order; a line that poses as nothing stays unchanged, of one that does
    only what a reader sees stays.
    """
    lines = text.splitlines()
    if lines == [text]:
        return _defuse_line(text)
    return _defuse_line(" ".join(filter(None, (_defuse_line(line).strip() for line in lines))))


def defuse_lines(text: str) -> str:
    """A text of many lines with each of them defused, its line breaks as they are."""
    return "".join(
        _defuse_line(line) + whole[len(line) :]
        for line, whole in zip(text.splitlines(), text.splitlines(keepends=True), strict=True)
    )


def _defuse_line(line: str) -> str:
    for _ in range(MOST_TRIED):  # two are common; whatever a line does, there is an end
        marked = _mark_once(line)
        if marked == line:
            break
        line = marked
    return line


def _mark_once(line: str) -> str:
    """A line with its bars and other brackets, as it is seen; what these make of it may need more
    of them."""
    seen = _as_seen(line)
    bars, brackets = _find_marks(seen)
    if not bars and not brackets:
        return line
    marked = ((BAR if n in bars else "") + brackets.get(n, sign) for n, sign in enumerate(seen))
    return one_line("".join(marked))


def _find_marks(seen: str) -> tuple[set[int], dict[int, str]]:
    """Where a line as it is seen needs a bar, and which brackets it loses."""
    bars = {
        match.start(match.lastindex or 0)
        for pose in (_OURS, _MESSAGE, _VOICE, _SHAPE)
        for match in pose.find(seen)
    }
    brackets = {
        place: seen[place].translate(_BRACKETS)
        for match in _BRACKETED.find(seen)
        for place in range(*match.span())
        if seen[place] in "[]<>"
    }
    return bars, brackets


def _lines_as_seen(text: str) -> Iterator[str]:
    return map(_as_seen, text.splitlines())


def _as_seen(line: str) -> str:
    """A line as a reader takes it in."""
    return unicodedata.normalize("NFKC", _INVISIBLE.sub("", line))


@read_once
def is_planted(text: str) -> bool:
    """Whether a line poses as another part of the window or orders its reader about."""
    return is_forged(text) or is_order(text)


def is_order(text: str) -> bool:
    """Whether a text orders the model that reads it about, in whatever language."""
    seen = unicodedata.normalize("NFKC", UNSEEN.sub("", text))
    return any(
        may_say(seen, needs) and pattern.search(seen)
        for needs, pattern in patterns_by_name("order-to-model").values()
    )

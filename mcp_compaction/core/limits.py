"""How much of a text is read: what is longer costs more than it tells."""

from __future__ import annotations

LONGEST_LINE = 300
"""Characters of one line of a text."""
LONGEST_SENTENCE = 600
"""Characters of a sentence, or of a passage of about eighty words; what is longer is pasted."""
LONGEST_ANSWER = 5_000
"""Characters at either end of a tool's answer: what sums it up stands there."""
LONGEST_TEXT = 20_000
"""Characters of a text; what is longer is data, which its first lines tell."""
LONGEST_ORDER = 8_000
"""Characters of a request whose rules are told apart from it; those of a longer one stay in it."""
MOST_LOOKED_AT = 100
"""Things of one text that are each looked for in another."""
MOST_TRIED = 5
"""Things that are tried one after another, each at some cost."""
SHORTEST_PREVIEW = 160
"""Characters of a text that is shown in part; fewer than two sentences say little."""
LEAST_TOKENS = 40
"""Tokens of a label and a few words: what has less room is not shown, or as short as it can be."""

"""What holds a window, in words: for the reasons why nothing was done or the goal was missed."""

from __future__ import annotations

from mcp_compaction.core.compaction.budget import Held, Shortfall
from mcp_compaction.core.window.fill import Fill
from mcp_compaction.core.wording import kilo


def describe_fill(fill: Fill) -> str:
    """How full the window is: `120k of 200k tokens is 60 %`."""
    return f"{kilo(fill.tokens)} of {kilo(fill.window)} tokens is {fill.percent:.0f} %"


def describe_held(held: Held, fill: Fill) -> str:
    """What holds a window, with the tokens of each."""
    named = (
        ("system and tools", held.system),
        ("pins", held.pins),
        ("the first request", held.first_request),
        ("recent steps", held.recent_steps),
        ("older steps", held.older_steps),
        ("digests", held.digests),
        ("excerpts", held.excerpts),
    )
    return ", ".join(f"{name} {kilo(fill.scaled(tokens))}" for name, tokens in named if tokens)


def describe_shortfall(shortfall: Shortfall, fill: Fill) -> str:
    """What keeps the window above the goal, with the numbers."""
    reached, wanted = (kilo(fill.scaled(n)) for n in (shortfall.after, shortfall.goal))
    held = describe_held(shortfall.held, fill)
    text = f"{reached} is above the target of {wanted}: held by {held}"
    if shortfall.is_fixed:
        fixed = kilo(fill.scaled(shortfall.held.fixed))
        text += (
            f". The fixed sections alone take {fixed} of {kilo(fill.window)}: shorten the system "
            "prompt, the tools or the pins"
        )
    return text

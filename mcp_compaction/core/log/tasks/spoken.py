"""Finds what users said is still to be done."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from mcp_compaction.core.log.tasks.closing import last_closed
from mcp_compaction.core.text.patterns import pattern_of, word_set
from mcp_compaction.core.text.reading import read_once
from mcp_compaction.core.text.rules import find_rules
from mcp_compaction.core.text.sentences import Sentence, spoken_sentences
from mcp_compaction.model import Item, Message

# Most sentences leave nothing open: a look at their words spares them the patterns.
_SPOKEN = pattern_of(r"[a-z]+")
_LEFT_WORDS = word_set(
    """
todo do forget remember remind later afterwards eventually point tomorrow week end before once when
after soon still pending outstanding unresolved unfinished remain remains remaining follow followup
open revisit circle leave backlog step finish merge ship release not n t isn aren hasn haven
"""
)
_DO = (
    r"(?:please |also |then |just |we (?:need|have|should|must|will)(?: to)? |you (?:need to|should"
    r"|must|can) )*"
    r"(?:add|announce|archive|ask|back ?port|back up|book|bring|build|bump|buy|call|cancel|change"
    r"|check|clean|close|come back|commit|configure|confirm|copy|create|delete|deploy|disable"
    r"|document|double-check|drop|email|enable|file|finish|fix|follow up|get|give|go back|implement"
    r"|inform|install|let|log|look|mail|make|measure|merge|message|migrate|move|notify|open|order"
    r"|pay|ping|port|post|prepare|print|publish|pull|push|put|rebase|record|refactor|regenerate"
    r"|release|remove|rename|reopen|replace|report|re-?run|reset|restart|restore|return|revert"
    r"|review|revisit|rotate|run|schedule|send|set|share|ship|show|squash|start|submit|switch|tag"
    r"|tell|test|tidy|try|turn|update|upgrade|upload|verify|wire|write)\b"
)
_DONE_WITH = (
    r"(?:done|finished|merged|deployed|green|pass(?:es|ed)?|lands?|landed|completed?|live|released"
    r"|shipped|ready|in place|works?|fixed|through|approved|over|in|up|resolved|tested|reviewed)"
)
_START = r"(?:^|[.;:,!–—] |\b(?:and|but|also|oh|please|so),? )"
_LEFT = pattern_of(
    "|".join(
        (
            r"\bto-?do\b ?(?::|—|–| - )|^\W*(?:still |left )?to do ?:|\bfor later:|\bfollow-?up:"
            r"|\b(?:open|remaining|outstanding) (?:items?|points?|tasks?|work)?:",
            _START + r"(?:don't|do not|dont) forget (?:to |about |the |that (?:we|you) |my )",
            _START + r"(?:please )?remember to \w+ \w+",
            r"(?<!you )\bremind me (?:to|about|when|at|on|in|that|before|tomorrow|later|next)\b",
            r"\b(?:later|afterwards|at some point|eventually|next week|tomorrow|at the end|in the "
            r"end)(?: on)?,? (?:we|you)(?:'ll| will)? (?:also |still )*(?:need|have|must|should"
            r"|ought)\b",
            r"\b(?:we|you) (?:still|also) (?:need|have) to (?!see|say|admit|wait)\w+",
            r"\b(?:we|you)(?:'ll| will)? (?:need|have) to \w+ .+ (?:later|afterwards|at the end"
            r"|eventually|at some point|before (?:the (?:end|release|launch|merge|demo)|we|ship\w*"
            r"|merg\w+|releas\w+|launch\w*))\b",
            r"^\W*(?:and )?(?:once|as soon as|when|after) .{3,100}?\b" + _DONE_WITH + r",? " + _DO,
            r"^\W*(?:and )?after (?:that|this|the \w+(?: \w+)?), " + _DO,
            r"^\W*(?:and )?(?:before (?:the (?:end|release|launch|merge|demo|deadline)"
            r"|(?:you|we) (?:finish|merge|ship|release|close|are done|wrap)|you're done|finishing"
            r"|merging|shipping|releasing|closing|wrapping up)[^,]{0,40}"
            r"|at the (?:very )?end(?: of [^,]{1,40})?|as a (?:last|final) step|later(?: on)?"
            r"|afterwards|tomorrow|next week|when you get to it|in a follow-?up),? " + _DO,
            _START + r"(?:let's |we'll |we will |we can |we should |you can |please )?(?:come back "
            r"to|circle back (?:to|on)|revisit|return to|get back to|deal with|handle|tackle|park"
            r"|fix|do) [^.]{2,60}? (?:later|afterwards|tomorrow|next week|another time|at the end"
            r"|in a follow-?up)\b",
            r"\bleave .{2,60} for (?:later|tomorrow|next week|another time|a follow-?up)\b"
            r"|\b(?:on|to) (?:the|our) (?:backlog|to-?do list)\b",
            r"\b(?:is|are|remains?) (?:still )?(?:pending|outstanding|unresolved|unfinished"
            r"|to be done|left to do|not done yet)\b",
            r"\bstill (?:needs?|has|have) to be \w+(?:ed|en|t|ne)\b|\bstill (?:pending|outstanding"
            r"|unresolved|unfinished|to be done|left to do)\b",
        )
    ),
    re.I,
)
# Said of work only: a shop is still open, and people are still missing.
_LEFT_AT_WORK = pattern_of(
    r"\b(?:is|are) still (?:open|missing|left|broken|failing|red|on hold|to do|not \w+ed)\b"
    r"|\b(?:is|are|has|have)(?:n't| not) (?:been )?(?:implemented|tested|migrated|finished|fixed"
    r"|deployed|written|reviewed|documented|merged|updated)(?: yet)?\b",
    re.I,
)
_WORK = pattern_of(
    r"[`_/#]|\w\.\w|\b[A-Z]{2,}|\b(?:bug|test|ticket|issue|task|migration|endpoint|docs?|page|api"
    r"|feature|review|pr|build|pipeline|script|report|item|point|question|fix|patch|release|branch"
    r"|module|table|config|deploy\w*|check|rollout|invoice|contract|draft|step|part)s?\b"
)
_TOLD = pattern_of(
    r"^\W*(?:and |but |so |well,? )?(?:I|I'm|I've|I'd|I'll|he|she|they|my \w+|his|her|their|it was"
    r"|there was|we (?:had|were|went))\b(?! (?:need|want|would like) you)",
    re.I,
)


def leaves_open(sentence: Sentence) -> bool:
    """Whether a sentence leaves something to be done."""
    return _leaves_open(sentence.bare)


@lru_cache(maxsize=8_192)
def _leaves_open(bare: str) -> bool:
    is_likely = not _LEFT_WORDS.isdisjoint(_SPOKEN.findall(bare.lower()))
    if not is_likely or bare.endswith(("?", "？")):
        return False
    if _LEFT.search(bare):
        return not _TOLD.match(bare) or bool(re.search(r"\bremind me\b|\bto-?do:", bare, re.I))
    return bool(_LEFT_AT_WORK.search(bare) and _WORK.search(bare)) and not _TOLD.match(bare)


def spoken_tasks(messages: Sequence[Message]) -> tuple[Item, ...]:
    """The sentences in which users leave something to do, unless it was said to be done since."""
    found: dict[str, tuple[int, Item]] = {}
    for place, message in enumerate(messages):
        if message.role == "user":
            for text in _tasks_in(message.text):
                item = Item(text=text, refs=(message.ref,), provenance="verbatim")
                found[text] = (place, item)
    if not found:
        return ()
    items = tuple(item for _, item in found.values())
    closed = last_closed(items, messages)
    return tuple(i for place, i in found.values() if closed.get(i.text, -1) <= place)


@read_once
def _tasks_in(text: str) -> tuple[str, ...]:
    """The sentences of a text that leave something to be done and are no rules."""
    return tuple(
        s.text for s in spoken_sentences(text) if leaves_open(s) and not find_rules(s.text)
    )

"""Finds the sentences that state a decision, each with the reason given next to it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from mcp_compaction.core.text.patterns import any_of, pattern_of, word_set
from mcp_compaction.core.text.sentences import Sentence, spoken_sentences
from mcp_compaction.core.text.words import one_line


def find_decisions(text: str, by_user: bool = True) -> tuple[str, ...]:
    """The sentences of a text that settle something, each with the reason given next to it."""
    return decisions_among(text, spoken_sentences(text), by_user)


def decisions_among(text: str, sentences: Sequence[Sentence], by_user: bool) -> tuple[str, ...]:
    """The decisions of a text whose sentences are known, each with the reason next to it."""
    found: list[str] = []
    taken = -1  # the sentence that the last decision ended with
    for place, sentence in enumerate(sentences):
        if place <= taken or not _settles(sentence.bare, by_user):
            continue
        taken = place
        following = sentences[place + 1] if place + 1 < len(sentences) else None
        if following is not None and _completes(text, sentence, following):
            taken = place + 1
        found.append(one_line(text[sentence.start : sentences[taken].end]))
    return tuple(found)


def states_decision(sentence: str) -> bool:
    """Whether a sentence settles something in this session."""
    return any(_settles(part.bare, by_user=True) for part in spoken_sentences(sentence))


# Most sentences decide nothing: a look at their words spares them the patterns.
_SPOKEN = pattern_of(r"[a-z]+")
_US_WORDS = frozenset(("we", "i", "let", "switching", "switched"))
_SETTLED_WORDS = word_set(
    """
decision decided verdict agreed resolved resolution settled final chosen choice approach plan call
record approved conclusion outcome change new ruled rejected correction wins dropped picked
selected table scope overruled superseded
"""
)
_BACK_WORDS = word_set(
    """
scrap undo undoing strike discard cancel drop forget change plan plans thought thoughts changed
back correction revert reverted reverting overrule overruled overrules overruling longer instead all
"""
)
_WORK_WORDS = word_set(
    """
chose choose picked pick kept prefer replace replaced replacing reject rejected dropped drop removed
switch switched switching moved moving migrated migrating stay staying revert reverted reverting
adopt adopted scrapped deferred postponed use uses used using keep keeping will ll chosen selected
approved turned abandoned stays remains swapped swapping going gone went sticking stuck opted opting
settled settling ruled preferring landed wins favor favour agreed supersede supersedes
"""
)
_ORDER_WORDS = word_set(
    """
go stick settle pick choose take switch move roll revert scrap replace make leave stay use keep drop
prefer
"""
)
_TELLING_WORDS = _US_WORDS | _SETTLED_WORDS | _BACK_WORDS | _WORK_WORDS | _ORDER_WORDS
_CLAUSE = pattern_of(r"[;—–]| - |\bbut\b|\bhowever\b|, so\b|\bso (?=we|I|let)|\. ", re.I)
# A mind not made up yet, and what only looks like a choice.
_UNDECIDED = any_of(
    r"\?\W*$",
    r"\b(?:might|could|maybe|perhaps|whether|would you|shall (?:we|I)|should (?:we|I)|can (?:we|I)"
    r"|do (?:we|you|I)|considering|undecided|tempted|suppose|imagine|wish|hope(?:fully)?)\b",
    r"\b(?:thinking|thought|think) (?:of|about)\b|\bstill (?:deciding|choosing|debating)\b",
    r"\b(?:not|n't|never|yet to|need to|needs to|have to|has to|must|before|until|help (?:me|you)"
    r"|want to|trying to|hard to|difficult to|when|how to|if) (?:\w+ )?(?:you |we |I "
    r"|they )?(?:to )?"
    r"(?:decid\w+|choos\w+|chose|pick\w*|settl\w+|agree\w*|conclud\w+)\b",
    r"^\W*(?:if|unless|what if|suppose|assuming|imagine|why|how|who|which|what|where)\b",
    r"^\W*when\b(?!.*, (?:we|I)(?:'ll| will| go| use| keep))",
    r"\b(?:user|customer|client|reader|caller|visitor|player)s? (?:can|may|will|decides?|chooses?"
    r"|picks?)\b",
)
_NOW = r"(?:'ve|'ll|'re|'m|'d| have| had| will| are| am| shall)?"
_HOW = (
    r"(?: (?:just|now|already|finally|all|both|therefore|then|also|instead|hereby|definitely|only"
    r"|explicitly|actually|thus|deliberately|consciously|simply|jointly|recently|again|since))*"
)
_WE = rf"\b(?:we|I){_NOW}{_HOW} "
_US = rf"\bwe{_NOW}{_HOW} "
_START = (
    r"(?:^|[:,;] )(?:ok(?:ay)?|right|alright|so|actually|then|and|yes|no|wait|hmm|good|great|well"
    r"|sorry|please|now|fine|got it|perfect|in short|in the end|for now|therefore|hence)?[,:.!]? ?"
)
# Who is talking has chosen.
_OURS = any_of(
    _WE + r"(?:decide|decided|opted|opt|resolved|concluded|agreed) (?:to|on|for|that|against|with)"
    r" (?!disagree|(?:the |that )?(?:point|sentiment))",
    _WE + r"(?:settl(?:ed?|ing) (?:on|for)|land(?:ed|ing)? on|went with|(?:go|going) (?:with"
    r"|for (?!a |an |it\b))|stick(?:ing)? (?:with|to)|stuck with|standardi[sz](?:ed?|ing) on"
    r"|rul(?:ed?|ing) out|commit(?:ted|ting)? to|opt(?:ed|ing)? (?:for|to|out))",
    _US + r"(?:chose|choose|choosing|picked|pick|picking|reject(?:ed|ing)?|turn(?:ed|ing)? down"
    r"|drop(?:ped|ping)?|scrap(?:ped|ping)?|abandon(?:ed|ing)?|adopt(?:ed|ing)?"
    r"|switch(?:ed|ing)? (?:to|from|over)|migrat(?:e|ed|ing) (?:to|from|off)|stay(?:ing|ed)? "
    r"(?:on|with)"
    r"|revert(?:ed|ing)?|defer(?:red|ring)?|postpon(?:e|ed|ing)|skip(?:ped|ping)?"
    r"|overrul(?:e|ed)|take(?:s)? back)\b",
    r"\bwe(?:'ll| will) (?:use|keep|do|stay|switch|drop|store|build|ship|pin|write|run|make|treat"
    r"|leave|start|support|implement|move|adopt|reject|add|need no|not)\b(?! (?:in touch|going))",
    r"\bwe(?:'re| are) moving to (?!(?:the|a|an|my|our|his|her|their)\b)(?-i:[a-z_])",
    r"(?:^|[,:;] )switch(?:ed|ing) (?:over )?from .{1,60} to\b",
    r"\bI(?:'ll| will) (?:implement (?:it|this|that) (?:by|with|as|using|via)|stick (?:with|to)|go "
    r"(?:with|for (?!a )))",
    r"\blet's (?:go with|use|keep|switch|drop|stick|stay|settle|pick|choose|make it|move (?:to|off)"
    r"|start with|skip|leave|adopt|postpone|replace|revert|scrap|go back|not|avoid|do (?:the|it"
    r"|that|"
    r"this)\b)(?! (?:in touch|going|it up|it real|talking|chatting|the flow|away|fun|moving))",
    r"\blet's \w+ .{1,60}(?:\b(?:instead of|rather than)|, not) \w",
)
# Nobody in particular has chosen.
_SETTLED = any_of(
    r"^\W*(?:final |the |our |new |revised |updated )*(?:decision|decided|verdict|agreed|resolved"
    r"|resolution|settled"
    r"|final(?: (?:call|answer|choice|decision|verdict))?|chosen(?: \w+)?|choice|approach"
    r"|plan of record|approved|conclusion|outcome|design decision|change of plans?|new plan"
    r"|ruled out|rejected|correction)(?: \(\w+\))?\W{0,4}(?::|—|–| - )\W{0,4}\w",
    r"\b(?:the|our|my) (?:final |new )?(?:decision|verdict|choice|plan of record|call|conclusion) "
    r"(?:is|was|stays|remains|now|here is|has been) ?(?:to|that|now|for|against|made|final|settled"
    r"|:|_)",
    r"\bplan of record\b|\bdecision (?:stands|was made|has been made|is made|is final|is reversed)",
    r"^(?!.*\b(?:what|how|as|that|think|than|whatever|where|because|like|know|if|this|when|but"
    r"|wherever|say)\b.* it is)"
    r"(?:(?:ok(?:ay)?|so|then|right|alright)[,:]? )?(?:[\w.+#/-]+ ){1,5}it is(?: then)?"
    r"(?:[.!,;:]|$| because| since| for)",
    r"\bwins (?:because|since|here|out over|for us|for this|on (?:cost|speed|size|price|balance))",
    r"\bdropped in favou?r of\b|\b(?:chosen|picked|selected) over\b|\bin favou?r of \w+.*\bdropped",
    r"\b(?:is|are|was|were) (?:now |therefore |thus )?(?:off the table|out of scope|ruled out"
    r"|overruled|dropped in favou?r|superseded by|decided|settled|agreed (?:on|upon))\b",
    r"^agreed(?:,| -)? (?:we|let's|I'll|then|use|go|keep|on)\b|\bas agreed,? ",
)
# Turning back on something settled.
_REVERSES = any_of(
    r"^\W*(?:ok(?:ay)?,? |actually,? |no,? |wait,? |so,? |sorry,? )*(?:scrap|undo|strike|discard"
    r"|cancel|drop) (?:that|this|the (?:decision|plan|idea|previous|earlier|last|old)|what (?:we|I)"
    r"|my (?:last|previous|earlier))",
    r"^\W*(?:ok(?:ay)?,? |actually,? |no,? |wait,? |so,? )*forget (?:about )?(?!it\b|me\b|you\b"
    r"|to\b|that (?:I|you|we|the)\b|how|everything|what happened)\w",
    r"\bchange of plans?\b|\b(?:the )?plans? (?:has |have )?changed\b",
    r"\bon second thoughts?\b,? \w+ \w+",
    r"\b(?:I|we)(?:'ve| have)? changed (?:my|our) minds?\b",
    _WE + r"(?:go|going|went|switch(?:ed|ing)?|roll(?:ed|ing)?|fall(?:ing)?|mov(?:e|ed|ing)) back "
    r"to\b(?! (?:school|work|bed|sleep|college|university|normal|town|my|the (?:gym|city|doctor))"
    r"\b)",
    r"\blet's (?:go|switch|roll|move) back\b|" + _START + r"(?:back to (?:the )?(?!work|you|school"
    r"|bed|my|top|normal|basics|square|question|topic)[\w_]|(?:go|going|switching"
    r"|reverting) back to [\w_])",
    r"\brevert(?:ed|ing)? (?:to|back)\b"
    r"|\b(?:I|we)(?:'ll| will|'m| am|'re| are)? tak(?:e|ing) (?:that|this|it|what I said) back\b"
    r"|\b(?:I|we)(?:'ll| will|'m| am|'re| are)? tak(?:e|ing) back (?!my time|control)\w{3,}",
    r"^\W*correction\W{1,3}\w",
    r"\bundo(?:ing)? (?:the|that|this|our|my) (?:\w+ )?(?:decision|choice|plan)\b",
    r"\boverrul(?:e|ed|es|ing)\b|\b(?:we|it)(?:'re| are|'s| is)? no longer\b.*\b(?:but|we|now)\b",
    r"^\W*(?:so )?no longer [\w_].*\bbut\b|^\W*instead of .+, (?:we|now|use|I'll|let's|it)\b"
    r"|\binstead of .+\bnow\b|\bnow .+\binstead of\b",
    r"\bnot [\w_ .'/-]{1,60} after all\b|\bafter all,? (?:we|let's|I'll|use|keep|go|stay)\b"
    r"|\b(?:we|I)(?:'ll| will|'re| are) .+ after all\b|^(?:let's |we )?(?:use|keep|go) .+ after "
    r"all\b",
)
# Words that settle something where the talk is of things one builds.
_AT_WORK = any_of(
    _US + r"(?:us(?:e|ing)|keep(?:ing)?)\b",
    _WE + r"(?:chose|choose|picked|pick|kept|prefer|replac(?:e|ed|ing)"
    r"|reject(?:ed)?|dropped|drop|removed .+ in favou?r|switch(?:ed|ing)? (?:to|from|over)|mov(?:ed"
    r"|ing) (?:to|off|away from)|migrat(?:ed|ing)|stay(?:ing)? (?:on|with|at)|revert(?:ed|ing)?"
    r"|adopt(?:ed)?|scrapped|deferred|postponed)\b",
    r"\bI(?:'ll| will) (?:use|keep|switch|store|adopt|stay|make|treat|leave)\b(?! (?:the \w+"
    r" (?:tool|command)|grep|the (?:tool|search|shell|todo)|you|looking|an eye|in mind|that in mind"
    r"|going|working|sure|a (?:quick|note|look)|it in mind|this in mind))",
    r"\b(?:is|are|was|were|gets?|been) (?:now |hereby |therefore )?(?:rejected|chosen|selected"
    r"|replaced (?:by|with)|deferred|postponed|reverted|approved|turned down|dropped|abandoned"
    r"|scrapped)\b",
    r"\b(?:stays?|staying|remains?) (?:on|with|at|in|as) ",
    r"\b(?:replaced|replacing|swapped|swapping) .{1,60} (?:with|by|for|out)\b",
    r"(?:^|[,:;] )(?:switch(?:ed|ing)?|mov(?:ed|ing)|migrat(?:ed|ing)) (?:over )?(?:from .{1,60} )?"
    r"to\b",
    r"(?:^|[,:;] )(?:going|gone|went|sticking|stuck|staying) with\b|(?:^|[,:;] )(?:opted|opting"
    r"|settled|settling) (?:for|on)\b|(?:^|[,:;] )(?:chose|picked|ruled out|rejected|turned down"
    r"|dropped|keeping|using|preferring|abandoned|scrapped|landed on) [\w_]",
    r"\bwins\b|\bin favou?r of\b|\bagreed\b|\bsupersedes?\b",
    r"\buse[sd]? .{1,60} (?:rather than|instead of)\b|\bprefer .{1,60} (?:over|to|rather than)\b",
)
# A user's order that settles something; in an assistant's mouth the same words are advice.
_ORDERS = any_of(
    _START + r"(?:let's )?(?:go with|stick with|stick to|settle on|pick|choose|take|switch to"
    r"|switch from"
    r"|move to|roll back|revert|scrap|replace .+ with|go for|make it|leave it at|stay (?:on|with))"
    r" (?!(?:it|them|me|care|a look|your time|part|that)\b)[\w_]",
    _START + r"(?:use|keep|drop) .+(?:\binstead\b|\brather than\b|\bnot [\w_]+\W*$|\bafter all\b"
    r"|, not |\bfor (?:now|this|the)\b)",
    _START + r"prefer .+ (?:over|to) .+ because\b",
)
_TECHNICAL = pattern_of(
    r"[`_/\\@#]|\w\.\w|[a-z]\d|\bv?\d+\.\d|\b(?:api|app|approach"
    r"|architecture|backend|batch|bug|bucket|budget|build|cache|class|cli|client|cluster|code|codec"
    r"|column|commit|config\w*|container|cron|dashboard|data|database|default|dependenc\w+|deploy"
    r"\w*|design|docs?|driver|endpoint|engine|environment|error|event|feature|field|file|filter"
    r"|flag|format|framework|frontend|function|handler|hash|hook|host|index|interface|job|key"
    r"|latency|layout|librar\w+|limit\w*|lock|log\w*|method|metric|middleware|migration|mode|model"
    r"|module|option|package|page|parser|patch|path|pipeline|plugin|policy|pool|port|project"
    r"|protocol|provider|proxy|query|queue|redis|postgres|sqlite|kafka|docker|kubernetes|python"
    r"|rust|golang|javascript|typescript|react|refactor\w*|region|release|replica|repo\w*|request"
    r"|response|retr(?:y|ies)|rollout|route|schema|scope|script|sdk|server|service|session|setting"
    r"|spec|storage|store|strateg\w+|stream|syntax|system|table|template|tenant|test|thread"
    r"|threshold|timeout|timestamp|token|tool|type|validat\w+|vendor|version|webhook|worker)s?\b",
)
_UPPER = pattern_of(r"\b[A-Z]{2,}\b|[a-z][A-Z]")
_PEOPLE = pattern_of(
    r"^\W*(?:and |but |so |then |yesterday,? |last \w+,? )*(?:she|he|they|her|his|their|my (?!final"
    r"|decision|choice|call|plan|conclusion|verdict)\w+|who|everyone|people|someone)\b",
    re.I,
)


@lru_cache(maxsize=8_192)
def _settles(bare: str, by_user: bool) -> bool:
    if _TELLING_WORDS.isdisjoint(_SPOKEN.findall(bare.lower())) and " it is" not in bare:
        return False
    if bare.endswith(("?", "？")) or _PEOPLE.match(bare):
        return False
    return turns_back(bare) or any(
        _clause_settles(clause.strip(), by_user) for clause in _CLAUSE.split(bare) if clause
    )


def turns_back(bare: str) -> bool:
    """Whether a sentence takes back something that was decided."""
    if _BACK_WORDS.isdisjoint(_SPOKEN.findall(bare.lower())):
        return False
    return bool(_REVERSES.search(bare)) and not _UNDECIDED.search(bare)


def _clause_settles(clause: str, by_user: bool) -> bool:
    words = frozenset(_SPOKEN.findall(clause.lower()))
    return (
        bool(words & _US_WORDS and _OURS.search(clause))
        or bool((words & _SETTLED_WORDS or " it is" in clause) and _SETTLED.search(clause))
        or bool(by_user and words & _ORDER_WORDS and _ORDERS.search(clause))
        or bool(words & _WORK_WORDS and _is_technical(clause) and _AT_WORK.search(clause))
    ) and not _UNDECIDED.search(clause)


def _is_technical(clause: str) -> bool:
    return bool(_TECHNICAL.search(clause.lower()) or _UPPER.search(clause))


_WHY = pattern_of(
    r"(?:because|since|as (?:it|we|this|the|that)|the (?:main )?reason|reason|that way|this way"
    r"|why:|otherwise|rationale|so that|it also means|this (?:keeps|avoids|means|lets))\b",
    re.I,
)
BARE_REVERSAL = pattern_of(
    r"^\W*(?:\w+,? )?(?:scrap|undo|strike|forget|discard|cancel) (?:that|this|it|the plan|the idea)"
    r"\W*$|^\W*(?:ok(?:ay)?,? )?change of plans?\W*$|^\W*(?:I|we)(?:'ve| have)? changed (?:my|our) "
    r"minds?\W*$|^\W*(?:I|we) take (?:that|it) back\W*$",
    re.I,
)


def _completes(text: str, sentence: Sentence, following: Sentence) -> bool:
    """Whether the next sentence gives the reason, or what comes instead."""
    if text[sentence.end : following.start].strip() or "\n\n" in text[sentence.end : following.end]:
        return False
    return bool(_WHY.match(following.bare) or BARE_REVERSAL.match(sentence.bare))


# Yes to what was said before

_ACCEPTS = pattern_of(
    r"\W*(?:yes|yep|yeah|ok(?:ay)?|sure|sounds (?:good|great|fine)|agreed|perfect|great|good"
    r"|deal|fine|lgtm|approved|exactly|works for me|do (?:it|that)|go (?:ahead|for it|with (?:it"
    r"|that))|let's do (?:it|that)|I like (?:it|that)|please do|love it)\b",
    re.I,
)
_BUT = pattern_of(r"\b(?:but|not|no|don't|instead|rather|wait|however|first|later)\b|\?", re.I)


def is_acceptance(text: str) -> bool:
    """Whether a text only says yes to what was said before it."""
    return bool(_ACCEPTS.match(text)) and not _BUT.search(text)

"""Finds what a user seems to want kept in force: rules, limits, preferences; offered as pins."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain

from mcp_compaction.core.text.patterns import FENCED, INLINE_CODE, QUOTED, any_of, pattern_of
from mcp_compaction.core.text.reading import read_once
from mcp_compaction.core.text.words import one_line

_FEWEST_CHARS, _MOST_CHARS = 4, 400


@read_once
def find_rules(text: str) -> tuple[str, ...]:
    """The sentences of a text that state a constraint which outlasts the task, word for word."""
    return tuple(said for said, masked in _sentences(text) if _is_standing(masked))


# Sentences, with code and quotations blanked out: words in them are not the user's own.

_BREAK = pattern_of(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_NOT_SPEECH = pattern_of(
    r"\s*(?:>|\$ |#!|//|(?:ERROR|WARN(?:ING)?|INFO|DEBUG|FATAL|Traceback|File \"|at )\b"
    r"|\d{4}-\d\d-\d\d[T ]|[\w.]*(?:Error|Exception)\b|[^\n]*[{};]\s*$|\w+\s*(?:=|\()\S)"
)


def _sentences(text: str) -> Iterator[tuple[str, str]]:
    speech = FENCED.sub(lambda match: "\n" * len(match[0]), text)
    masked = INLINE_CODE.sub(_blank, speech.replace("’", "'"))
    masked = QUOTED.sub(_blank, masked)
    start = 0
    for end, following in _cuts(masked):
        said = speech[start:end].strip()
        if _FEWEST_CHARS <= len(said) <= _MOST_CHARS and not _NOT_SPEECH.match(said):
            yield said, one_line(masked[start:end])
        start = following


def _cuts(text: str) -> Iterable[tuple[int, int]]:
    yield from ((match.start(), match.end()) for match in _BREAK.finditer(text))
    yield len(text), len(text)


def _blank(match: re.Match[str]) -> str:
    return "_" * len(match[0])


@lru_cache(maxsize=8_192)  # a window is looked at again and again, and "continue" said often
def _is_standing(sentence: str) -> bool:
    words = frozenset(_WORD.findall(sentence.translate(_ODD_CASES).lower()))
    if _is_foreign(sentence, words):
        stands = bool(_ELSEWHERE.search(sentence)) and not _TOLD.search(sentence)
    else:
        stands = _FIRM.are_in(sentence, words) or (
            _WEAK.are_in(sentence, words)
            and not _ONE_OFF.search(sentence)
            and not _NARRATIVE.match(sentence)
        )
    return stands and not _is_question(sentence) and not _ORDINARY.search(sentence)


def _is_foreign(sentence: str, words: frozenset[str]) -> bool:
    if sentence.isascii() and words.isdisjoint(_FOREIGN_WORDS):
        return False
    return len(_FOREIGN.findall(sentence)) > len(_ENGLISH.findall(sentence))


def _is_question(sentence: str) -> bool:
    return bool(_QUESTION.search(sentence)) and not _ASKED_TO.search(sentence)


_WORD = pattern_of(r"\w+")
_ODD_CASES = str.maketrans("İıſ", "iis")  # i and s to re.I, not to lower()


class _Signs:
    """Patterns, each looked for only where a word is said that it cannot do without.

    They are given in turns: the words of which it needs one, the pattern.
    """

    def __init__(self, *signs: str) -> None:
        self._by_word: dict[str, list[re.Pattern[str]]] = {}
        for words, pattern in zip(signs[::2], signs[1::2], strict=True):
            sign = pattern_of(pattern, re.I)
            for word in words.split():
                self._by_word.setdefault(word, []).append(sign)

    def are_in(self, sentence: str, words: frozenset[str]) -> bool:
        """Whether one of them is found in a sentence of these words."""
        likely = (self._by_word[word] for word in words & self._by_word.keys())
        return any(sign.search(sentence) for sign in dict.fromkeys(chain.from_iterable(likely)))


_QUESTION = any_of(
    r"[?？]\W*$",
    r"(?:吗|呢|か|나요|까요)[。.!\s]*$",
    r"^(?:why|what|who|when|where|which|how|is|are|does|did|should|do (?:you|we|I|they))\b"
    r"(?! in doubt)(?!.*,)",
)
_ASKED_TO = any_of(
    r"^(?:can|could|would|will) you (?:please )?(?:always|never|only ever|from now on|stop)\b",
    r"^(?!.*\b(?:is|are|do|does|right)\b).*,? (?:ok(?:ay)?|please|got it|understood|deal)\?$",
)

# Where a clause may begin with an order.
_START = (
    r"(?:^|[.;:,!–—•*-] |\b(?:please|kindly|and|but|so|also|then|plus|or|you (?:should|must)) )"
    r"(?:(?:please|kindly|and|but|so|also|just|again|really|absolutely|ok(?:ay)?|important)[,:]? )*"
)
_THINGS = (
    r"(?:answers?|repl(?:y|ies)|responses?|messages?|commits?|code|functions?|files?|tests?|texts?"
    r"|comments?|reports?|emails?|summar(?:y|ies)|meals?|flights?|changes?|examples?|explanations?"
    r"|quer(?:y|ies)|names?|numbers?|dates?|documents?|documentation|snippets?|lists?|tables?)"
)
_MAKES = (
    r"(?:use|push|merge|deploy|commit|ship|allow|accept|add|edit|touch|store|log|write|squash"
    r"|rebase|release|support|import|mock|sign|review|do|share|delete|send|hard-?code|vendor)"
)
_AMOUNT = (
    r"(?:[$€£~]? ?\d|(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|fifty"
    r"|half|an?"
    r" (?:hour|day|week|month|page|minute|second|line|sentence|paragraph))\b)"
)
_WHEN = (
    r"(?:(?:the )?(?:end|start|beginning|close|middle)\b|(?:next|this) |mon|tue|wed|thu|fri|sat|sun"
    r"|tomorrow|tonight|noon|midnight|christmas|easter|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov"
    r"|dec|q[1-4]|(?:the )?\d)"
)

# Said in so many words that one phrase is enough.
_FIRM = _Signs(
    # orders not to
    "never",
    _START + r"never (?!mind|thought|knew|seen|heard|been|had|have|got|understood|know\b|again\b"
    r"|say never|give up|quit|did|felt|found|really|met|saw|was|were|could|would|will|better|too"
    r"|a |in my"
    r"|\w+(?<!e)ed\b)\w",
    "not don dont",
    _START
    + r"(?:do not|don'?t|dont):? (?:ever |you dare (?:to )?)?(?!ever|you\b|worry|bother|mind\b"
    r"|panic|know|think|understand|see\b|get (?:me|disc)|give up|quit|be (?:sorry|shy|afraid|too"
    r"|so|sad"
    r"|scared)|hesitate"
    r"|stress|sweat|ask me|have|need|want|like|care|remember|believe|feel|forget|lose|work too|let "
    r"|judge|laugh|cry|tell|say|blame|take it|rush|overthink|miss|hold|expect|really|look|quote"
    r"|even (?:know|think)|wait|seem|stop|sound|work\b|\w+ (?:it|that|this|them)\W*(?:now"
    r"|yet)?\W*$)"
    r"\w(?!.*\b(?:this (?:time|line|once)|for now|right now|just yet)\b)",
    "not don never",
    r"\b(?:do not|don't) (?:ever\b|you dare)|\bnever,? ever (?!\w+ed)\w+ (?!been)",
    "refrain abstain stay steer keep hands",
    _START + r"(?:refrain|abstain) from|" + _START + r"(?:stay away from|stay out of|steer clear of"
    r"|keep (?:away from|out of|your hands off)|hands off)\b",
    "avoid",
    _START + r"avoid (?!the (?:highway|traffic|question))\w+(?!.*\b(?:in (?:this|that) (?:function"
    r"|line|loop)|here)\b)",
    "no",
    r"\b(?:under no circumstances?|on no account|at no (?:point|time) (?:may|must|should|can"
    r"|shall))\b",
    "may",
    r"\b(?:you|we|nobody|no one|agents?|tests?|code|users?|customers?|it|they) may (?:only"
    r"|never)\b",
    "may",
    r"\b(?:you|nobody|agents?|users?|customers?|clients?) may not\b",
    # orders to go on doing
    "always",
    _START + r"always (?!good|happy|nice|great|glad|a |an |the |has|had|was|were|been|is|so |here"
    r"|there|on |in |love|wanted|thought|fun|been|worth|up for|\w+(?<!e)ed\b)\w+ \w",
    "always never ever",
    r"\b(?:must|should|shall|have to|has to|needs? to|want you to|like you to|to) (?:please )?"
    r"(?:always|never|only ever)\b (?!have|be (?:a|in|so)\b)",
    "must mustn",
    r"\bmust(?:n't| not| never| always| only| stay| remain| under no)\b",
    "should shouldn",
    r"\bshould(?:n't| not)? (?:never|always|only) (?!have|take|be (?:a|used to)\b)",
    "exception exceptions negotiable nonnegotiable notice",
    r"\bwithout exceptions?\b|\bno exceptions\b|\bnon-?negotiable\b|\buntil further notice\b",
    "limits bounds taboo sacred no",
    r"\b(?:is|are|remains?|stays?) (?:strictly |absolutely |totally )?(?:off[- ]limits"
    r"|out of bounds"
    r"|taboo|sacred|a no-go)\b",
    "mind",
    r"\b(?:keep|bear) (?:that|this|it) in mind\b|\bplease keep in mind\b",
    # approval
    "before first",
    r"\b(?:ask|check with|consult|tell|warn|confirm with|talk to) (?:me|us)\b(?! (?:about|how|what"
    r"|why)).*\b(?:before|first)\b",
    "sign signoff approval ok okay permission consent ahead",
    r"\b(?:needs?|requires?|without|until|get|wait for|unless|subject to) (?:\w+ )?(?:my|our) "
    r"(?:explicit |prior |written )?(?:sign-?off|approval|ok(?:ay)?|permission|consent|go-ahead)\b",
    "until unless",
    r"\b(?:until|unless) I (?:say|tell|confirm|approve|explicitly|ask|give)",
    # what one person or house wants
    "prefer prefers preference",
    r"\bI(?:'d| would|'ll)? (?:\w+ly |much |would )?prefer(?! not to|red| (?:the|that|this) \w+"
    r"(?: one)?\W*$)\b|\bmy preference is\b|\b(?:we|team|client|boss) prefers? ",
    "rather",
    r"\bI(?:'d| would) (?:much )?rather (?:you|have |not (?:have|use|see|get)|keep |use |stay "
    r"|get )",
    "m am",
    r"^(?:.*\b(?:and|since|as|so|because|but) )?I(?:'m| am) (?:\w+ )?(?:allergic|vegetarian|vegan"
    r"|lactose|gluten|celiac|coeliac|diabetic|colou?r-?blind|intolerant|kosher|halal)",
    "all every everything each any",
    r"\bI (?:want|need|expect|require|would like) (?:all|every(?:thing)?|each|any) (?!of (?:us"
    r"|this)"
    r"|the (?!\w+ (?:to|in)))(?:\w+ )+?(?:in|to|as|with|from|under|below|be|by|without)\b",
    "always never only",
    r"\bI(?:'d| would)? (?:want|like|need|expect) (?:you )?to (?:always|never|only)\b",
    "don not never",
    r"\bI (?:don't|do not|never) (?:want|like|need) (?:you (?:to|ever)|any (?!more)|it when you"
    r"|anything|to see any|to (?:use|add|break|pay|spend|depend|introduce|receive)|"
    + _THINGS
    + ")",
    "only always",
    r"\bI (?:only|always) (?:want|eat|use|drink|fly|accept|buy|work with) (?!to\b|one\b)",
    "like",
    r"\bI (?:really )?like (?:my |your |the )?(?:"
    + _THINGS
    + r" (?!\W*$)(?!you|I|we|from|was|is )\w"
    r"|it (?:when|if) you|when you)",
    "don not never always only",
    r"\bwe (?:don't|do not|never|always|only) "
    + _MAKES
    + r"\b(?!.*\b(?:last|yesterday|together)\b)",
    "guide styleguide policy policies rule rules contract guideline guidelines convention"
    " conventions license compliance standard standards legal team",
    r"\b(?:our|company|house|team|the) (?:\w+ )?(?:style ?guide|policy|policies|rules?|contract"
    r"|guidelines?|conventions?|license|compliance|standards?|legal|security team)\b.* (?:forbids?"
    r"|prohibits?|disallows?|bans?|requires?|mandates?|demands?|says?|is to)\b",
    "call address answer reply respond speak talk write",
    r"\b(?:call|address) me (?!back|later|when|tomorrow|if|at|crazy|an?\b|on\b|in\b|tonight|again)"
    r"\w+|\b(?:answer|reply|respond|speak|talk to me|write) (?:\w+ )?in (?:english|german|french"
    r"|spanish|italian|portuguese|chinese|japanese|russian|korean|dutch|polish|plain|simple"
    r"|short)\b",
    # versions
    "not won can cannot",
    r"\b(?:will not|won't|are not going to|must not|can't|cannot) (?:upgrade|update|migrate"
    r"|move off)",
    "nothing anything version",
    r"\b(?:nothing|anything|no version) (?:newer|later|above|beyond|that (?:needs|requires))\b",
    "pin pinned locked frozen",
    _START + r"pin (?!the (?:message|post))\S+ (?:to|at)\b|\b(?:is|are|stays?|remains?) (?:pinned|"
    r"locked|frozen) (?:to|at|on)\b",
)

# A word that often means less: counted where the sentence tells no story and asks no single task.
_WEAK = _Signs(
    "from forward henceforth future now today rest rule whenever every each any anytime all"
    " throughout everywhere",
    r"\b(?:from (?:now|here|today|this point) on(?:wards?)?|going forward|henceforth|moving forward"
    r"|in (?:the )?future|as of (?:now|today)|for the rest of (?:this|the|our)|as a rule"
    r"|(?:whenever|every time|each time|any ?time) you (?!have|get|are|feel|want|like|can\b|need)"
    r"|in (?:every|each|all)(?: of)?(?: your| the)? " + _THINGS + r"|throughout|everywhere"
    r"|for (?:all|every|each)(?: of)? (?:my|your|the|our)? ?" + _THINGS + r")\b",
    "happens matter times costs may",
    r"\b(?:whatever happens|no matter what|at all times|at all costs|come what may)\b.*\b(?:\w+s"
    r"|must"
    r"|keep|never|always|do not|don't|has to|should|needs?)\b",
    "only",
    _START + r"only (?:ever |use|touch|edit|modify|write|work|commit|deploy|install|reply|answer"
    r"|respond|speak|suggest|recommend|propose|read|call|book|buy|import|accept|include|mention)",
    "only exclusively nothing",
    r"\buse (?:only|exclusively|nothing but)\b|^(?!.*\b(?:the|is|was|are|were"
    r"|I)\b)[\w ,'/-]{3,60} only"
    r"(?:,? please)?[.!]*$",
    "limit restrict confine stick stay remain adhere keep",
    _START
    + r"(?:limit|restrict|confine) (?:yourself|your\w*|all|every)|"
    + _START
    + r"(?:stick|stay|"
    r"remain|adhere|keep) (?:to|with|on|within)\b(?! (?:track|\w+ing\b|it\b|your (?:first"
    r"|second)|me\b|top\b))",
    "treat consider regard view leave",
    _START + r"(?:treat|consider|regard|view) .+ (?:as|to be) \w|" + _START + r"leave .+ (?:alone"
    r"|untouched|as (?:they are|it is|is)|unchanged|intact)",
    "all every each everything any",
    _START + r"(?:keep|write|format|name|prefix|use|mark|sort|show|give|include|add|put|document) "
    r"(?:all|every|each|everything|any)\b(?! the | of )",
    "keep",
    _START + r"keep .+ (?:under|below|within|intact|unchanged|compatible|up to date|in sync|to a "
    r"minimum|private|secret|confidential)\b",
    "prefer follow keep ban",
    _START
    + r"(?:prefer (?!the \w+\W*$)|follow (?:the |our )?(?:existing|project|standard|house|usual"
    r"|\w+ (?:guidelines?|conventions?|style ?guide))|keep (?:changes|commits|functions|scope"
    r"|things|" + _THINGS + r") |ban )",
    "unsure doubt sure",
    _START + r"(?:if|when) (?:unsure|in doubt|you are (?:not sure|unsure))\b",
    "every each unless before",
    r"\b(?:before|after) (?:every|each) (?!day|meal|other)\w+|\bunless (?:explicitly|all|every"
    r"|you|asked"
    r"|told|otherwise|I)\b|" + _START + r"ask (?:first )?before\b",
    "keep no tone style voice",
    _START + r"keep (?!it\b|me\b|going)(?:[\w-]+ ){1,3}(?:short|small|simple|brief|concise|minimal"
    r"|clean|terse)\b"
    r"|, no \w+, no \w+|"
    + _START
    + r"(?:use|keep|write in|stick to) an? (?:\w+ ){1,2}(?:tone|style|voice)\b",
    "add update remove preserve check test document redact escape log",
    r"^(?:[-*•] )?(?:add|update|remove|preserve|check|test|document|redact|escape|log) (?!(?:the"
    r"|this|that"
    r"|these|those|an?|my|your|it|them|me)\b)(?:[\w-]+ ){1,3}(?:when|whenever|for|before|after"
    r"|unless|to) "
    r"(?!(?:the|this|that|my|me|it|here|now)\b)[\w-]+ ",
    # an order about things in general: no article, no pointing
    "use write return name format handle store log document validate mock wrap group include cite"
    " provide respond reply answer",
    r"^(?:[-*•] |please )*(?:use|write|return|name|format|handle|store|log|document|validate"
    r"|mock|wrap"
    r"|group|include|cite|provide|respond|reply|answer) (?!(?:the|this|that|these|those|an?|my"
    r"|your|it"
    r"|them|me|her|him|whichever|another|both|up|down)\b|[\d_])[\w-]+(?: [\w-]+){0,3}? (?:for|in"
    r"|with|as"
    r"|over|when|instead of|rather than|using|between|from) (?!(?:the|this|that|my|me|line|it"
    r"|here)\b)",
    "default everything instead",
    _START + r"use .+ (?:by default|for everything|instead of .+ in (?:all|every|new))\b",
    "sure ensure see care",
    _START
    + r"(?:make sure|ensure|be sure|see to it|take care)\b.* (?:every|all|each|any|always|never"
    r"|no|nothing|only|stays?|remains?|at all times)\b",
    "must",
    r"\bmust (?!be\b|have\b|'ve|love|feel|come\b|see\b|try|visit|know|hear|think|remember|admit|say"
    r"|agree|understand|read|watch|meet|go\b|look|seem|mean)\w+",
    "must",
    r"\bmust be (?!(?:tired|excited|pleased|married|used|interested|thrilled|scared|worried|bored|"
    r"confused|mistaken|broken|shocked|named|called)\b)(?:\w+ly )?(?:\w+ed|\w+[wkt]en|kept|sent"
    r"|made"
    r"|done|set|built|under|below|above|at (?:least|most)|in \w|within|compatible|backwards?"
    r"|reversible|optional|unique|available|able|reachable|readable|valid)\b",
    "has have need needs",
    r"\b(?:has|have|needs?) to (?:stay|remain|fit|run|work|support|pass|match|follow|comply|happen"
    r"|finish|use|keep|be (?!(?:somewhere|something|someone|a|an|the|there|at least)\b)\w+ ?)",
    "not forbidden prohibited mandatory compulsory obligatory required",
    r"\b(?:is|are) (?:strictly |absolutely )?(?:not (?:allowed|permitted|acceptable|an option"
    r"|to be)"
    r"|forbidden|prohibited|mandatory|compulsory|obligatory|required)\b",
    "essential crucial vital critical imperative important mandatory key",
    r"\bit(?:'s| is) (?:\w+ly |very |so )?(?:essential|crucial|vital|critical|imperative|important"
    r"|mandatory|key) (?:that|to (?!me\b)|you)\b",
    "every all each any",
    r"(?:^|[,;:] (?:and |but )?)(?:every|all|each|any) (?!of|day|time|one|thing|good"
    r"|I\b)(?:[\w/-]+ )"
    r"{1,6}(?:needs?|must|should|has to|have to|gets?|starts? with|ends? with|begins? with|uses?"
    r"|requires?|stays?|goes? (?:through|into)|comes? with|carr(?:y|ies)|is to)\b",
    "nothing nobody no none",
    r"\b(?:nothing|nobody|no one|none) (?:of \w+ )?(?:gets?|may|is to|should|must|can|leaves?|goes"
    r"|touches|ships?|enters?|is (?:merged|deployed|sent)).*",
    "never",
    r"\bnever (?:leaves?|goes?|gets? (?:\w+ed|\w+[wkt]en)|ends? up|appears?|contains?|includes?|"
    r"touch(?:es)?|shares?|be \w+(?:ed|en)) .*",
    "no",
    r"^(?:absolutely |strictly |please,? |also,? |and |but )?no (?!te |se |me )(?!(?:prob\w*"
    r"|worr\w+|ideas?|luck"
    r"|thanks?|need|wonder|matter|one|way|doubt|rush|hurry|response|offen[cs]e|longer|clue|pressure"
    r"|biggie|kidding|surprise|pain|big|news|i|more errors|joke|not|it|that|but|we|you|just|the"
    r"|this"
    r"|sorry|please)\b)[\w-]+(?!.*\b(?:was|were|came|told|yet|so far|here yet|found|happened|left"
    r"|either|nice|great)\b)",
    "no",
    r"\b(?:so|but|and|with) no (?:new|more|external|other|extra|additional|third|recipes?|arrow"
    r"|\w+s\b)(?!.*\b(?:was|were|came|showed|found)\b)",
    "without",
    r"\bwithout (?:my|our|any|prior|explicit|asking|a (?:second|review)|changing|touching|breaking"
    r"|altering|modifying|adding|introducing|telling)\b",
    "long provided",
    r"\bas long as .*(?:untouched|unchanged|intact|stays?|remains?|compatible|pass|green|don't|does"
    r" ?n[o']t|nothing|no )|\bprovided (?:that )?(?:the|all|no|nothing|every)\b",
    "exceed over above beyond more longer larger later",
    r"\b(?:can't|cannot|can not|shouldn't|should not|may not|won't|not) (?:exceed|go (?:over|above"
    r"|beyond)|be (?:more|longer|larger|later|over)|cost (?:more|over)|take (?:more|longer))\b",
    "can cannot may",
    r"\bwe (?:can't|cannot|may not) (?:use|add|change|break|afford|ship|touch|depend|store|share"
    r"|rely"
    r"|have any)",
    "must has have should need needs shall is are",
    r"\b(?:must|has to|have to|should|needs? to|shall|is|are) (?:be |stay |remain |fit |cost "
    r"|take )?"
    r"(?:\w+ ){0,4}?(?:at most|no more than|not more than|a maximum of|no later than|less than"
    r"|fewer than|no longer than|max(?:imum)?\.?) ?" + _AMOUNT,
    "deadline due cut cutoff budget limit cap",
    r"\b(?:deadline|due date|cut-?off|budget|hard limit|time limit|word limit|cap)\b(?: (?:for"
    r"|of|on)"
    r"(?: \w+){1,4})? ?(?:is|are|remains|:|=) (?!over|gone|past|tight|a |not )",
    "due",
    r"\b(?:is|are) due (?:by|on|at|before|in|next|tomorrow|mon|tue|wed|thu|fri|sat|sun)",
    "by before later",
    r"\b(?:must|has to|have to|needs? to|should|shall) (?:be )?(?:\w+ ){1,6}?(?:by|before|no later "
    r"than) " + _WHEN,
    "later latest most max maximum more",
    r"\b(?:no later than|not later than|latest by|at the latest)\b.*"
    + _AMOUNT
    + r"|^(?:at most|max"
    r"(?:imum)?|no more than) " + _AMOUNT,
    "not never",
    r"^(?!yes|no\b|thanks|sure|ok|well|I\b)[\w-]+(?: [\w-]+){0,3}, (?:not"
    r"|never) [\w-]+(?: \w+){0,3}"
    r"(?:[.,!]|$)",
    "nothing read",
    r"\b(?:read-only|access),? nothing else\b|\b(?:is|are) read-only for you\b",
)

_NARRATIVE = any_of(
    r"(?:yes,? |no,? |so,? |and |but |well,? |because |sorry,? )?(?:I|I'm|I've|I'd|I'll|he|she|they"
    r"|they're|you're|it|it's|my \w+|his|her|their|there)\b(?!.* (?:you"
    r"|your) )(?!(?: \w+)? (?:must|"
    r"has to|have to|needs? to) (?:be \w+ed|stay|remain|fit|run|finish|not|be))",
    r"(?:the (?:law|doctor|sign|movie|concert|train|game|weather|dog|cat)\b|in chess|we (?:had|were"
    r"|met|went|moved|tried|spent))",
)
_ONE_OFF = any_of(
    r"\b(?:this (?:time|once|line|one line|typo)|just (?:this|once)|for now|right now|for today"
    r"|in this (?:line|sentence|paragraph|function)|this import)\b",
    r"^(?:please |now |ok(?:ay)?,? |then |and |just |let's |let us )*(?:write|draft|explain"
    r"|translate"
    r"|rewrite|list|describe|summarize|compose|generate|create|implement|build|replace|rename|fix"
    r"|set|run|rerun|show|tell|print|reduce|shorten|increase|bump|look|open|find|make the|make it"
    r"|give me (?:a|only|the)|add (?:a|the)|draw|plot|compute|calculate|limit the"
    r"|let's(?! (?:always|never))|let us)\b"
    r"(?!.*\b(?:without|always|never|every \w+ you|from now on|(?:after|before) (?:every"
    r"|each))\b)",
)
_ORDINARY = any_of(
    r"\bnever mind\b|\b(?:no|not) (?:worries|problem)\b|\bas (?:they|we) say\b|\baccording to\b",
    r"\b(?:docs?|documentation|readme|linter|compiler|error|message|sign|log|teacher|book|mom"
    r"|dad|boss"
    r"|doctor|website|page|tutorial|article|they|he|she|it|manual|warning|radio)\b(?: \w+){0,2} "
    r"(?:says?|said|told|tells|claims?|complains?|states?|reads?|reported)\b",
    r"^(?:\w+, )?(?:they|she|he|we|it|I)(?:'\w+)? .* and (?:always|never) ",
    r"\b(?:haha|lol|hihi|hehe)\b|[😀-🙏]",
    r"^(?:I'm|I am|I was|I've been) (?:\w+ )?(?:trying|working|building|writing|making|using"
    r"|thinking"
    r"|looking|not allowed|not sure)\b(?!.*\b(?:I prefer|please|you must|do not|don't)\b)",
    r"\bI'm not (?:allowed|permitted)\b|\bmust(?: have|'ve) (?:been|\w+ed|seen|met|heard"
    r"|slipped)\b",
)

# Other languages: what stands, and what only sounds so. Their verbs show an order by their form,
# so a word like "never" counts unless a person tells of what was.

_ELSEWHERE = any_of(
    # German
    r"\b(?:niemals|nie wieder|keinesfalls|keinerlei|ausschließlich|grundsätzlich|verboten|untersagt"
    r"|tabu|zwingend|unbedingt|spätestens|verpflichtend|pflicht|auf (?:gar )?keinen fall"
    r"|unter (?:gar )?keinen umständen|um jeden preis|ohne ausnahme|ab (?:jetzt|sofort|heute)"
    r"|künftig"
    r"|von nun an|in zukunft|bleib bei|finger weg|fasse? .* nicht an"
    r"|was auch (?:immer )?passiert)\b",
    r"\b(?:dar(?:f|fst|ft)|dürfen|soll(?:st|en|te|ten)?)\b.*\b(?:nicht|nie|keine?[nrms]?|nur|nichts"
    r"|immer|niemand)\b|\b(?:muss|müssen) (?!am\b|an\b|ja\b|wohl\b|doch\b|jetzt)\w.*\b(?:sein"
    r"|werden"
    r"|bleiben|enthalten|immer|laufen|haben|\w+en)\W*$",
    r"\b(?:bitte|und|aber|immer|nur|nie)\b.*\b(?:nie|immer|nur|stets|keine?[nrms]?|nichts|nicht)\b"
    r"|^(?:nie|immer|stets|nur) \w+ .*(?:en|n)\W*$|^(?!das |es |er |sie |ich |wir "
    r"|war )\w+e? (?:\w+ "
    r"){0,3}(?:immer|stets|nie|nur) .*",
    r"\bich (?:bevorzuge|möchte (?:keine?[nrms]?|nur|nicht|immer)|will (?:keine?[nrms]?|nur|nicht)|"
    r"mag (?:keine?[nrms]?|lieber))\b|\bohne (?:meine?|rück|vorher|zu fragen|absprache)\w*"
    r"|\b(?:höchstens|maximal|nicht mehr als) " + _AMOUNT + r"|\bfrist ist\b|\bkeine \w+en\W*$",
    # French
    r"\b(?:désormais|dorénavant|à partir de (?:maintenant|là)|à l'avenir|en aucun cas|sous aucun"
    r" prétexte|quoi qu'il arrive|interdit\w*|obligatoire\w*|uniquement|exclusivement"
    r"|impérativement"
    r"|sans (?:mon accord|ma permission|me demander|exception)|au plus tard|il (?:ne )?faut"
    r"|je préfère|je préférerais|je ne veux (?:pas|jamais|aucun\w*)|pas plus de \d|au maximum)\b",
    r"\b(?:doi(?:t|vent|s)|devez)\b(?! (?:être (?:fatigué|le |la |un|dans|malade)"
    r"|avoir)).*\b(?:toujours"
    r"|jamais|pas|être|rester|uniquement|respecter|contenir|avant|utiliser)\b",
    r"(?:^|[,;:] |\b(?:et|mais|de|merci de) )(?:ne |n')(?!(?:t'|vous )?inqui|t'en fais|sais|ai"
    r"|est|a\b"
    r"|suis|pense)(?:\w+ )?(?:\w+ ){0,3}?(?:pas|jamais|rien|plus|aucun\w*)\b",
    r"^(?!c'est|il |elle |je |on |j'|nous |ils )[\w']+(?:ez|e|s) (?:\w+ ){0,2}?toujours\b"
    r"|^toujours \w+(?:er|ir|re)\b|^pas de (?!souci|problème|quoi|chance|panique)\w+",
    # Spanish
    r"\b(?:bajo ning[uú]n(?:a)? \w+|en ning[uú]n (?:caso|momento)|de ning[uú]n modo"
    r"|a partir de ahora"
    r"|(?:de )?ahora en adelante|en adelante|prohibid[oa]s?|obligatori[oa]s?|pase lo que pase"
    r"|[uú]nicamente|exclusivamente|como m[aá]ximo|a m[aá]s tardar|sin (?:mi (?:permiso"
    r"|aprobaci[oó]n"
    r"|autorizaci[oó]n)|preguntar\w*|excepci[oó]n)|prefiero|no quiero que|hay que"
    r"|no m[aá]s de \d)\b",
    r"(?:^|[,;:.] |\b(?:y|pero|por favor,?) )(?:nunca|jam[aá]s) (?!he\b|ha\b|hemos|hab|vi\b|me "
    r"|te |se |"
    r"lo |supe|es\b|fue|m[aá]s\b)\w+(?:es|as|e|a|en|an|ga|gas)\b",
    r"(?:^|[,;:.] |\b(?:y|pero|por favor,?) )no (?!te |se |me |s[eé]\b|es\b|est|hay|pasa|tengo"
    r"|puedo"
    r"|quiero|creo|importa|lo s|entiendo)\w+(?:es|as|gas|ques|ces|e|ga|en|an)\b (?:\w+ )*\w+",
    r"\bsiempre (?:en|usa|usar|que|con|la|el|los|las|responde|incluye"
    r"|ejecuta)\b(?<!como siempre en)"
    r"|^(?!yo |él |ella |es |est)\w+ (?:siempre|s[oó]lo|solamente) (?!es|est|fue|hay)\w+",
    r"\b(?:debe|deben|debes|tiene[ns]? que) (?!de\b|ser (?:la|el|un)\b|estar\b|haber)\w+",
    # Italian
    r"\b(?:in nessun caso|per nessun motivo|a nessun costo|d'ora in (?:poi|avanti)|da ora in (?:poi"
    r"|avanti)|da adesso in poi|in futuro|vietat[oaie]|proibit[oaie]|obbligatori[oa]|esclusivamente"
    r"|unicamente|al massimo|al più tardi|senza (?:il mio|la mia|chiedere|eccezioni)|preferisco"
    r"|qualunque cosa (?:accada|succeda)|non voglio che|bisogna|tassativ\w+)\b",
    r"(?:^|[,;:.] |\b(?:e|ma|per favore,?) )non (?!preoccup|lo so|so\b|importa|ho\b|è\b|ti\b"
    r"|mi\b|c'è"
    r"|capisco|vedo|si preoccupi|fa niente)\w+(?:are|ere|ire|arlo|arla|te|i|a)\b",
    r"^(?!io |lui |lei |è |sono )\w+ (?:sempre|solo|soltanto|mai) (?!stat|visto)\w+"
    r"|^mai \w+(?:are|ere"
    r"|ire)\b|\bsempre in \w+|\b(?:deve|devono|devi) (?!essere (?:la|il|un|stat|stanc)|aver)\w+",
    # Portuguese
    r"\b(?:em hipótese (?:alguma|nenhuma)|de (?:jeito|modo) nenhum|em (?:nenhum caso|caso algum)"
    r"|sob nenhuma \w+|a partir de agora|daqui (?:em diante|pra frente|para a frente)|de agora em"
    r" diante|proibid[oa]s?|obrigatóri[oa]s?|aconteça o que acontecer|somente|exclusivamente|apenas"
    r"|no máximo|o mais tardar|sem (?:a )?minha \w+|sem (?:perguntar|exceção)|prefiro|não quero que"
    r"|é preciso que)\b(?<!eu apenas)",
    r"(?:^|[,;:.] |\b(?:e|mas|por favor,?) )(?:nunca|jamais|não) (?!se preocupe|sei|é\b|está"
    r"|há\b|tem\b"
    r"|tenho|vi\b|consigo|acho|foi|entendi|me |te |importa)\w+(?:e|a|es|as|em|am|ça|er|ar"
    r"|ir)\b .*\w",
    r"^(?!eu |ele |ela |é )(?:sempre \w+|\w+ (?:sempre|só) \w+).*|\b(?:deve|devem) (?!ser (?:o|a"
    r"|um)\b"
    r"|ter\b|estar\b)\w+",
    # Russian
    r"никогда не (?!ви|слы|был|зна|дум|было|мог|говор)\w+|\b(?:нельзя|запрещ\w+|запрет|воспрещ\w+"
    r"|обязательно|исключительно|впредь|отныне|предпочитаю|недопустимо|категорически|строго)\b",
    r"ни в коем случае|ни при каких|с этого момента|с сегодняшнего дня|в дальнейшем|что бы ни|не"
    r" (?:более|больше|позднее|позже|дольше) |без мо(?:его|ей)|без исключени|\bтолько (?:на|в"
    r"|для|с) "
    r"|^(?:всегда|только) \w+(?:й|йте|и|ите|ь|ьте)\b|\w+(?:й|йте|и|ите) (?:всегда|только) "
    r"|(?:^|[,;] |пожалуйста,? )не (?!волну|пережива|беспоко|зна|дума|понима|бой)\w+(?:й|йте|и"
    r"|ите|ь"
    r"|ьте)\b|\bдолж(?:ен|на|ны|но) (?!быть,)\w+",
    # Chinese
    r"永远不|永不|绝不|绝对不|决不|千万|不要(?!紧|担心|着急|客气|慌|介意)|请勿|切勿|严禁|禁止"
    r"|不得(?!不|了)|不准|不许|不可以?(?!思议|能)"
    r"|务必|必须(?!是(?:因为|缓存))|一律|始终|只能|只(?:许|准|用|使用)|从现在(?:起|开始)|今后"
    r"|从今|以后(?:都|请|不|要|一)"
    r"|无论如何|不管(?:怎样|发生)|未经|别(?:碰|改|动|删|用|把)|最多(?:不|只|\d)|不(?:能)?超过"
    r"|最晚|截止|我(?:更喜欢|偏好|比较喜欢|希望你)",
    # Japanese
    r"決して|絶対(?:に|、)|必ず|禁止|今後|今から|これから(?:は|も)|常に|以後|厳守|のみ(?:使|を"
    r"|で)|だけ(?:使|を使)|(?<!心配)"
    r"(?<!気に)(?<!無理)しないで|(?:触ら|使わ|変え|消さ|送ら|書か|入れ)ないで|(?:ては"
    r"|では)(?:いけ|なら|だめ|ダメ)|なければ(?:なら|いけ)"
    r"|以内に|までに|勝手に|許可なく|好みです|の(?:ほう|方)が(?:いい|好き)|を好み",
    # Korean
    r"절대|반드시|무조건|금지|앞으로(?:는)?|지금부터|이제부터|(?<!걱정)(?<!걱정하)지 ?(?:마|말)"
    r"|안 ?(?:됩니다|돼요|된다)|만 사용"
    r"|허락 없이|승인 없이|이하로|까지(?:는)? .*(?:해야|하세요)|항상 .*(?:세요|십시오|해줘"
    r"|주세요)|선호|어떤 (?:경우|일)",
)
_TOLD = any_of(
    r"^(?:ich (?:muss|habe|war|hab|kann)|das (?:war|ist|muss am)|es war|keine (?:ahnung|sorge"
    r"|angst)|"
    r"kein problem|mach dir|wir (?:waren|hatten)|er |noch nie)\b|\bnoch nie\b|\bkeine sorge",
    r"^(?:je n'ai|j'ai|c'est|il doit être|on a|je ne sais|ça )|\binquiète",
    r"^(?:nunca (?:he|ha|hemos)|tengo que|yo nunca|debe de|no te preocupes|me |él |ella )|preocupe",
    r"^(?:non ho mai|io non|deve essere|eu nunca|eu não|eu sempre|ele |ela |mi |ho )|preoccup",
    r"^(?:я |мы |он |она |они |должно быть)",
    r"从来没|从没|别担心|我(?:必须|总是|从不)|不要紧|心配し|気にし|いつもありがとう|걱정|^저는 "
    r"|^나는 ",
)
_FOREIGN_WORDS = frozenset(
    _WORD.findall(
        """der die das und nicht bitte immer kein keine nur nie ich le la les des un une ne pas et
        el los las que de en por para con siempre nunca solo usa il lo gli non mai sempre per di da
        em o os não um uma prefiro preferisco"""
    )
)
_FOREIGN = pattern_of(
    rf"[^\x00-\x7f‘’“”–—…€£•°×→’]|\b(?:{'|'.join(sorted(_FOREIGN_WORDS))})\b", re.I
)
_ENGLISH = pattern_of(r"\b(?:the|is|are|to|of|and|you|it|this|that|for|be|do|not|with|my|I)\b")

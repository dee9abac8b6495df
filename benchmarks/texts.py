"""Texts to search in, made from a seed: messages of any number, Chinese, identifiers with twins."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

_SEED = 20_261
_VOCABULARY = 20_000
_WORDS = 36  # of a message: about 200 characters
_LIFE = 15  # so many messages long an identifier is talked about


class Zipf:
    """Words of which the n-th is about n times rarer than the first."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words
        self._weights = list(itertools.accumulate(1 / (n + 2.7) for n in range(len(words))))

    def draw(self, random: Random, count: int) -> list[str]:
        """So many words as a text would have them."""
        return random.choices(self.words, cum_weights=self._weights, k=count)


# Messages


def _vocabulary() -> list[str]:
    """Words one can pronounce, the common ones shorter."""
    random = Random(_SEED)
    syllables = [c + v for c in "bdfghjklmnprstvz" for v in "aeiou"]
    short = ["".join(pair) for pair in itertools.product(syllables, repeat=2)]
    random.shuffle(short)
    long = ("".join(random.choices(syllables, k=3)) for _ in range(_VOCABULARY))
    # A set would have another order in every process.
    return [*short[:2_000], *dict.fromkeys(long)][:_VOCABULARY]


LATIN = Zipf(_vocabulary())


def message(number: int) -> str:
    """The text of the message of that number, the same in every run."""
    random = Random(number)
    said = LATIN.draw(random, _WORDS)
    if number % 5 == 0:
        said[8:10] = [path_of(number)]
    elif number % 5 == 1:
        said[8:12] = [hash_of(number)]
    elif number % 20 == 7:
        said[4:] = [chinese(random, 10)]
    half = len(said) // 2
    return f"{' '.join(said[:half])}. {' '.join(said[half:])}."


def rarest_word(number: int) -> str:
    """The word of a message that the fewest others have."""
    ranks = {word: rank for rank, word in enumerate(LATIN.words)}
    return max(re.findall(r"[a-z]+", message(number)), key=lambda word: ranks.get(word, 0))


def path_of(number: int) -> str:
    """The path a message speaks of; so do a few around it."""
    subject = number // _LIFE
    folder, name = LATIN.draw(Random(-1 - subject), 2)
    return f"src/{folder}/{name}_{subject}.py"


def hash_of(number: int) -> str:
    """The commit a message speaks of; so do a few around it."""
    return hashlib.sha1(str(number // _LIFE).encode()).hexdigest()


# Chinese

_CHARACTERS = (
    "的一是不了人我在有他这中大来上国个到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可"
    "里后小么心多天而能好都然没日于起还发成事只作当想看文无开手十用主行方又如前所本见经头面公同三已"
    "老从动两长知民样现分将外但身些与高意进把法此实回二理美点月明其种声全工己话儿者向情部正名定女问"
    "力机给等几很业最间新什打便位因重被走电四第门相次东政海口使教西再平真听世气信北少关并内加化由却"
    "代军产入先山五太水万市眼体别处总才场师书比住员九笑性通目华报立马命张活难神数件安表原车白应路期"
    "叫死常提感金何更反合放做系计或司利受光王果亲界及今京务制解各任至清物台象记边共风战干接它许八特"
)
_COMMON = re.findall(
    "..",
    "我们你们他们这个那个什么没有可以自己知道现在因为所以但是如果已经时候问题工作中国先生今天明天昨天公司"
    "学生老师朋友东西地方时间事情开始觉得需要可能应该认为喜欢希望告诉发现成为进行通过使用系统文件数据程序"
    "测试结果错误配置版本服务用户接口记录查询",
)


def _chinese_words() -> list[str]:
    random = Random(_SEED)
    pairs = ("".join(random.choices(_CHARACTERS, k=2)) for _ in range(3_000))
    return [*_CHARACTERS[:12], *_COMMON, *dict.fromkeys(pairs)]


CHINESE = Zipf(_chinese_words())


def chinese(random: Random, clauses: int) -> str:
    """Clauses of a few words each, with the signs between them; about eight characters a clause."""
    said = ["".join(CHINESE.draw(random, random.randint(3, 7))) for _ in range(clauses)]
    return (
        "".join(clause + random.choice("，，，。。？！：") for clause in said[:-1])
        + f"{said[-1]}。"
    )


def paragraphs(count: int) -> list[str]:
    """Chinese paragraphs of about a hundred characters."""
    random = Random(_SEED)
    return [chinese(random, random.randint(8, 14)) for _ in range(count)]


class Piece(NamedTuple):
    """Four characters, and the paragraph they were taken from."""

    text: str
    place: int


def pieces(paragraphs: Sequence[str], count: int) -> list[Piece]:
    """Four-character pieces without a sign, none of which more than five paragraphs hold."""
    random = Random(_SEED)
    chosen: list[Piece] = []
    while len(chosen) < count:
        place = random.randrange(len(paragraphs))
        start = random.randrange(len(paragraphs[place]) - 3)
        text = paragraphs[place][start : start + 4]
        if text.isalpha() and sum(text in paragraph for paragraph in paragraphs) <= 5:
            chosen.append(Piece(text, place))
    return chosen


# Identifiers

_VERBS = re.findall(
    r"\w+",
    "parse load merge flush retry renew split fetch check close drain index mount probe half read "
    "write drop open scan",
)
_NOUNS = re.findall(
    r"\w+",
    "token lease batch queue frame route shard cache proxy timer block state quota page lock job "
    "owner event limit key",
)
_FOLDERS = ("net", "store", "billing", "auth", "search")
_TOLD = (
    "The failure comes from {}, I am reading it now.",
    "Changed {} and ran the tests again: all green.",
    "Please leave {} as it is until the release.",
    "{} is called twice when the connection drops.",
    "I looked at {} first; nothing there explains the timeout.",
)
_NOISE = (
    "We should {} the {} before anything else happens.",
    "Every {} of a {} is logged, which makes the output long.",
    "The tests for the {} and the {} pass, the linter is quiet.",
    "It may help to {} each {} only once.",
)
# Where an identifier begins and ends; the part of one may also stand behind a dot or a slash.
_BEGINS, _PART_BEGINS, _ENDS = r"(?<![\w./-])", r"(?<![\w-])", r"(?![\w-]|[./]\w)"


class Asked(NamedTuple):
    """An identifier as it is asked for, and how to see that a message really holds it."""

    kind: str
    query: str
    right: re.Pattern[str]


class Family(NamedTuple):
    """Identifiers so alike that a search may take one for another, and the questions for them."""

    members: tuple[str, ...]
    asked: tuple[Asked, ...]


def whole(kind: str, name: str) -> Asked:
    """The identifier itself as the query."""
    return Asked(kind, name, re.compile(_BEGINS + re.escape(name) + _ENDS))


def part(kind: str, query: str, of: str) -> Asked:
    """Another or shorter writing as the query for an identifier, or for the end of one."""
    return Asked(kind, query, re.compile(_PART_BEGINS + re.escape(of) + _ENDS))


def families(count: int) -> list[Family]:
    """So many families, of each kind as many; no two are made of the same words."""
    random = Random(_SEED)
    pairs = list(itertools.product(_VERBS, _NOUNS))
    random.shuffle(pairs)
    kinds = itertools.cycle((_paths, _snakes, _camels, _codes, _hashes, _modules))
    return [kind(random, *pair) for kind, pair in zip(kinds, pairs[:count], strict=False)]


def coding_session(of: Sequence[Family]) -> list[str]:
    """Messages in which each identifier is named three to five times, among twice as many."""
    random = Random(_SEED)
    told = [
        f"{_noise(random)} {random.choice(_TOLD).format(name)} {_noise(random)}"
        for family in of
        for name in family.members
        for _ in range(random.randint(3, 5))
    ]
    texts = told + [f"{_noise(random)} {_noise(random)}" for _ in range(2 * len(told))]
    random.shuffle(texts)
    return texts


def _noise(random: Random) -> str:
    """A sentence with the very words the identifiers are made of."""
    return random.choice(_NOISE).format(random.choice(_VERBS), random.choice(_NOUNS))


def _paths(random: Random, verb: str, noun: str) -> Family:
    folder, name = random.choice(_FOLDERS), f"{verb}_{noun}"
    path = f"src/{folder}/{name}.py"
    members = (path, f"src/{folder}/{name}_test.py", f"vendor/{path}")
    names = (f"{name}.py", f"{name}_test.py")
    return Family(
        members,
        (
            *(whole("path", one) for one in members),
            *(part("path: its file name", one, one) for one in names),
        ),
    )


def _snakes(_: Random, verb: str, noun: str) -> Family:
    name = f"{verb}_{noun}"
    members = (name, f"{name}s", f"{name}_once", f"re{name}")
    return Family(members, tuple(whole("snake_case", one) for one in members))


def _camels(_: Random, verb: str, noun: str) -> Family:
    name = f"{verb}{noun.title()}"
    members = (name, f"{name}s", f"{name}Once", f"re{verb.title()}{noun.title()}")
    return Family(
        members,
        (
            *(whole("camelCase", one) for one in members),
            part("camelCase: asked in snake_case", f"{verb}_{noun}", name),
        ),
    )


def _codes(random: Random, *_: str) -> Family:
    digits = random.randrange(1_000, 9_999)
    members = (f"E{digits}", f"E{digits + 1}", f"E{digits}0", f"W{digits}")
    return Family(members, tuple(whole("error code", one) for one in members))


def _hashes(random: Random, *_: str) -> Family:
    start = f"{random.getrandbits(24):06x}"
    members = tuple(f"{start}{random.getrandbits(136):034x}" for _ in range(3))
    return Family(
        members,
        (
            *(whole("git hash", one) for one in members),
            *(part("git hash: ten characters", one[:10], one) for one in members),
        ),
    )


def _modules(random: Random, verb: str, noun: str) -> Family:
    package = f"{random.choice(_FOLDERS)}.{verb}"
    members = (f"{package}.{noun}", f"{package}.{noun}s", package, f"old.{package}.{noun}")
    return Family(
        members,
        (
            *(whole("dotted module", one) for one in members),
            part("dotted module: its end", f"{verb}.{noun}", f"{verb}.{noun}"),
        ),
    )

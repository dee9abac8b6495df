"""Offers a check for a rule that names a command, a path, a branch or a host; only the user accepts
it. What the words of a rule mean is data, `lexicon/offers.toml`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from typing import Any, NamedTuple

from mcp_compaction.checks.check import RUNS, PinCheck
from mcp_compaction.checks.match import Call, find_match
from mcp_compaction.lexicon import read_table

_SPAN = re.compile(r"`([^`\n]+)`|[\"“«]([^\"”»\n]{2,60})[\"”»]")
_PATH = re.compile(r"(?:~|\.{0,2})/?[\w.*@+-]*(?:/[\w.*@+-]+)*/?")
_AT_ROOT = re.compile(  # `/src` is the project's
    r"^(?:\./|/(?!(?:etc|usr|var|home|tmp|opt|root|bin|lib|dev|proc|sys|mnt|srv|Users|Library)\b))"
)
_HOST = re.compile(r"(?=.*[-.\d])[\w-]+(?:\.[\w-]+)*")
_BARE_HOST = re.compile(r"(?=[\w.-]*\d|[\w-]+\.[a-z])[A-Za-z]\w*(?:[-.]\w+)+")
_OPTION = re.compile(r"--?[A-Za-z][\w-]*")
_PUT_BEHIND = re.compile(r"(?<=[\w*/])[.,;:!?]+$")  # by whoever wrote the sentence, not the name
_UNSPACED = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")  # scripts
_MOST = 12
_NOWHERE = "/-"  # the folder in which a check is tried


class _Words(NamedTuple):
    """The tables of `offers.toml`."""

    signs: dict[str, re.Pattern[str]]
    acts: dict[str, re.Pattern[str]]
    runs: dict[str, re.Pattern[str]]
    programs: frozenset[str]
    subcommands: frozenset[str]
    branches: re.Pattern[str]
    names: tuple[str, ...]  # of branches
    lone_acts: frozenset[str]
    options_of: dict[str, str]
    path: re.Pattern[str]  # one that stands without signs
    file: re.Pattern[str]  # the name of one
    line: re.Pattern[str]  # a command that stands without signs
    name: re.Pattern[str]  # what a call could be known by
    item: re.Pattern[str]  # the same, behind a comma


@cache
def _words() -> _Words:
    table: dict[str, Any] = read_table("offers.toml")
    texts = {name: one["pattern"] for name, one in table["sign"].items()}
    onto, names = texts["onto"], "|".join(table["branches"])
    programs = "|".join(map(re.escape, sorted({*table["programs"]} - {*table["words_too"]})))
    subcommands, actions = "|".join(table["subcommands"]), "|".join(table["actions"])
    option = r"--?\w[\w-]*"
    with_sub = "|".join(
        map(re.escape, sorted({*read_table("tools.toml")["programs"]["with_subcommand"]} - {"git"}))
    )
    word = rf"(?:{option}|(?!(?:{'|'.join(table['ends'])})(?![\w-]))[a-z][a-z0-9:_-]*(?!\w))"
    endings, files = "|".join(table["endings"]), "|".join(table["files"])
    path = (
        r"(?<![\w/`.-])(?:~/[\w./*-]+|\.{1,2}/[\w./*-]+|\.(?=\w*[a-z])[A-Za-z][\w.-]*\*?(?![\w/])"
        r"|\.?(?:[\w-]+/)+\*[\w.*/-]*|\*\.\w{1,5}\b|(?:[\w.-]+/)+(?![\w])"
        r"|(?:[\w.-]+/)+[\w-]+\.[a-z]\w{0,7}\b|(?:[\w.-]+/){2,}[\w.-]*\w"
        r"|(?=[\w/]*[-_.\d])[\w.-]+/[\w.-]*\w"
        r"|(?:(?<=under )|(?<=in )|(?<=inside )|(?<=within )|(?<=dans )|(?<=en )|(?<=unter )"
        rf"|(?<=em ))[\w.-]+/[\w.-]*\w|[\w-]+\.(?:{endings})\b|(?:{files})(?![\w-]))"
    )
    name = rf"[`\"“«]|(?<![\w/]){option}|(?<![\w-])(?:{programs})(?![\w-])|{path}"
    return _Words(
        _patterns(table["sign"]),
        _patterns(table["act"]),
        _patterns(table["run"]),
        frozenset(table["programs"]),
        frozenset(table["subcommands"]),
        re.compile(
            rf"(?:{onto}|[/,]|\bor\s+)[`\"]?({names})\b[`\"]?(?!/(?!(?:{names})\b)\w|\s+checkout)",
            re.I,
        ),
        tuple(table["branches"]),
        frozenset(table["lone_acts"]),
        table["options_of"],
        re.compile(path),
        re.compile(rf"(?:.*[\w*-]\.(?:{endings})|{files})"),
        re.compile(
            rf"(?<![A-Za-z0-9_./-])(git\s+(?:{subcommands})(?:\s+{option})?|(?:npx|npm\s+run|"
            rf"pnpm\s+run|yarn\s+run|uv\s+run)\s+[\w:-]+(?:\s+(?:sync|install|update|deploy|publish))?|"
            rf"(?=(?:{programs})(?![\w-]))(?:{with_sub})(?:\s+{word}){{0,2}}(?:\s+{option})*|"
            rf"(?:{programs})(?:\s+(?:{option}|\d+|\w+:\w+|(?:{actions})(?![\w-])(?:\s+{word})?))?)(?![A-Za-z0-9_-])"
            rf"(?!\s+(?:repo|files?|hooks?|history|log)\b)"
            rf"(?P<more>(?:\s*(?:,|{texts['joins']})\s+(?:(?:{actions})(?![\w-])|\w+:\w+))*)"
            rf"(?:\s+{texts['having']}\s+(?P<option>{option}))?(?!\s+{texts['having']}\s+\w)"
        ),
        re.compile(name),
        re.compile(
            rf"(?:{texts['joins']}\s+)?(?:any\s+)?(?:(?:\w+\s+){{0,2}}(?=[`\"“«])|"
            rf"(?:{name})(?!\s+(?:{texts['only']})))",
            re.I,
        ),
    )


def _patterns(entries: dict[str, dict[str, Any]]) -> dict[str, re.Pattern[str]]:
    return {name: re.compile(one["pattern"], re.I) for name, one in entries.items()}


def offer_checks(rule: str) -> tuple[PinCheck, ...]:
    """The checks that a rule means; none where it names nothing that a call could be known by."""
    found: dict[PinCheck, None] = {}
    before = ""
    for clause in filter(
        None, (one.strip() for one in _words().signs["next_clause"].split(rule[:2_000]) if one)
    ):
        for check in _offers_of(clause, before):
            found.setdefault(check)
        before = clause
    return tuple(check for check in found if _does_as_told(check, rule))[:_MOST]


def _does_as_told(check: PinCheck, rule: str) -> bool:
    """Whether a check holds the plainest breach of its rule, and no call that has nothing of it."""
    tried = [check, *([PinCheck("ask", ("Bash",), check.run)] if check.run else [])]
    return all(
        find_match(one, _call_of(one, _breach_of(one.glob, rule)))
        and not find_match(one, _call_of(one, "other"))
        for one in tried
        if one.glob not in RUNS
    )


def _breach_of(glob: str, rule: str) -> str:
    """What breaks a rule most plainly: its own words, where they are no code without what belongs
    to the sentence around them."""
    words = (
        word
        if f"`{word}" in rule or f"{word}`" in rule
        else _PUT_BEHIND.sub("", _UNSPACED.sub("", word))
        for word in glob.split()
    )
    return " ".join(words).replace("*", "a")


def _call_of(check: PinCheck, what: str) -> Call:
    key = {"Bash": "command", "WebFetch": "url"}.get(check.tools[0], "file_path")
    return Call(check.tools[0], {key: what}, _NOWHERE, _NOWHERE)


def _offers_of(clause: str, before: str) -> Iterator[PinCheck]:
    said = _words().signs
    forbids = said["forbids"].search(clause)
    asks = said["asks"].search(clause)
    must = said["before"].search(clause)
    if must and not (asks and not forbids):
        found = list(_musts(clause, must, is_forbidden=forbids is not None))
        if found:
            yield from found
            return
        if forbids and must.start() > forbids.end() and not asks:
            return  # forbidden for a time
    instead = None if said["unless"].search(clause) else said["instead"].search(clause)
    verdict = "ask" if asks else "deny"
    if forbids and not asks and (lacking := said["lacking"].search(clause, forbids.end())):
        yield from _without(clause[forbids.end() : lacking.start()], clause[lacking.end() :])
    elif forbids:
        yield from _forbidden(clause, forbids.end(), before, verdict)
    elif asks and must:
        yield from (PinCheck("ask", ("Bash",), act) for act in _acts_in(clause[must.end() :]))
    elif asks and asks[0].lower().startswith("only"):
        yield from _forbidden_acts(clause, asks.start() + len("only"), "ask")
    elif found_not := instead or (
        not said["unless"].search(clause) and said["not_but"].search(clause)
    ):
        is_ahead = _UNSPACED.search(found_not[0]) and not found_not[0].startswith(("而", "不"))
        text = clause[: found_not.start()] if is_ahead else clause[found_not.end() :]
        yield from _commands(_until_next_thought(text), verdict, needs_verb=False)


# What must be run before


def _musts(clause: str, must: re.Match[str], *, is_forbidden: bool) -> Iterator[PinCheck]:
    said = _words().signs
    behind, ahead = clause[must.end() :], clause[: must.start()]
    if not said["must_pass"].search(clause):
        return
    if is_forbidden:  # never A before B passes
        acts, texts = list(_acts_in(ahead)), [behind]
        if not said["must_pass"].search(behind):
            return
    elif _UNSPACED.search(clause):
        acts, texts = list(_acts_in(ahead)), [behind]
    else:
        head = said["after_act"].split(behind, maxsplit=1)
        acts, texts = list(_acts_in(head[0])), [ahead, *head[1:]]
    for act in acts[:1]:
        for run in _runs_in(texts):
            yield PinCheck("ask", ("Bash",), act, run=run)


def _without(what: str, lacking: str) -> Iterator[PinCheck]:
    """`Never commit without running the tests`; what else is lacking no check can tell."""
    for act in list(_acts_in(what))[:1]:
        yield from (PinCheck("ask", ("Bash",), act, run=run) for run in _runs_in([lacking]))


def _runs_in(texts: Sequence[str]) -> Iterator[str]:
    for text in texts:
        spans = [span for span in _spans(text) if _is_command(span, is_run=True)]
        yield from spans
        bare = _SPAN.sub(" ", text)
        found = [name for name, one in _words().runs.items() if one.search(bare)]
        yield from found
        if not spans and not found:
            line = re.search(r"\brun\s+(?=(\S+))((?:\S+)(?:\s+(?!and\b|or\b)[\w:-]+){0,2})", bare)
            if line and line[1] in _words().programs:
                yield line[2]


# What is forbidden


def _forbidden(clause: str, start: int, before: str, verdict: str) -> Iterator[PinCheck]:
    said, text = _words().signs, clause[start:]
    if said["outside"].search(text) or (said["unless"].search(text) and verdict == "deny"):
        return
    whole = text if re.search(r"\w", text) else clause  # some languages forbid at the end
    if not re.search(r"[a-z]{3}", text):
        whole = clause
    is_passive = said["off_limits"].search(clause) or said["passive"].search(clause[:start])
    whole = clause if is_passive else _until_next_thought(whole)
    is_of_branches = re.search(r"\bbranch(?:es)?\b", whole) and _acts(whole)
    paths = [] if is_of_branches else list(_paths_in(whole))
    if not paths and said["edits"].search(whole) and said["pronouns"].search(whole):
        paths = list(_paths_in(before))
    if said["at_root"].search(whole):
        paths = [f"./{path}" for path in paths]
    does_edit, does_read = said["edits"].search(clause), said["reads"].search(clause)
    if paths and (does_edit or does_read):
        tools = (*(("Read",) if does_read else ()), *(("Write", "Edit") if does_edit else ()))
        yield from (PinCheck(verdict, tools, path) for path in paths)
        if said["runs_it"].search(whole):  # `never edit .git/config or run git config`
            others = [span for span in _spans(whole) if not _is_path(span)]
            text = "run " + " ".join(f"`{span}`" for span in others)
            yield from _commands(text, verdict, needs_verb=True)
        return
    if paths and said["stages"].search(whole):
        yield from (PinCheck(verdict, ("Bash",), f"git add {path}") for path in paths)
        return
    if hosts := list(_hosts_in(whole, verdict)):
        yield from hosts
        return
    is_short = re.match(r"\s*[`\w./-]+\W*$", whole) is not None  # `…, nicht npm`
    has_verb = not _is_english(clause) and said["runs_it"].search(clause)  # which may come first
    commands = list(_commands(whole, verdict, needs_verb=not is_short and not has_verb))
    yield from commands
    if not commands:
        yield from _forbidden_acts(clause, start, verdict)


def _until_next_thought(text: str) -> str:
    """What is forbidden: it ends at a comma behind a name that no further name follows."""
    name, item = _words().name, _words().item
    for comma in re.finditer(r"[,，、]\s*|:\s|\s[-–—]\s", text):
        if name.search(text, 0, comma.start()) and not item.match(text, comma.end()):
            return text[: comma.start()]
    return text


def _forbidden_acts(clause: str, start: int, verdict: str) -> Iterator[PinCheck]:
    """Checks for what verbs mean: `never push to main`."""
    text = clause[start:]
    said = _words()
    is_latin = re.search(r"[a-z]{3}", text, re.I) is not None
    if not is_latin or not _acts(text):
        text = clause if not _is_english(clause) else text
    options = [span for span in _spans(text) if _OPTION.fullmatch(span)]
    options += re.findall(rf"(?<![\w`-]){_OPTION.pattern}", _SPAN.sub(" ", text))
    branches = [*said.branches.findall(text)]
    if not branches and _UNSPACED.search(clause):
        branches = [one for one in said.names if one in re.findall(r"[a-z]+", clause)]
    branches += [span for span in _spans(text) if span in said.names]
    if re.search(r"\bbranch(?:es)?\b", text):
        branches += [span for span in _spans(text) if re.fullmatch(r"[\w*-]+/[\w*/-]+", span)]
    acts = _acts(text)
    if not branches and said.signs["onto_it"].search(text):  # `main is protected, …`
        branches = [one for one in said.names if re.search(rf"\b{one}\b", clause[:start])]
        acts = acts if branches else []
    for act, found in acts:
        is_unnamed = not branches and said.signs["some_branch"].search(text)
        if (act in said.lone_acts and len(acts) < 2) or (is_unnamed and "--" not in act):
            continue
        if _is_english(clause) and not _stands_first(text, found, acts):
            continue
        targets = [name for name in dict.fromkeys(branches) if act.startswith("git ")]
        for option, target in product(options or [""], targets or [""]):
            yield PinCheck(verdict, ("Bash",), " ".join(filter(None, (act, option, target))))
    yield from _deleted_branches(text, verdict)


def _deleted_branches(text: str, verdict: str) -> Iterator[PinCheck]:
    """Checks for branches that are deleted."""
    if _words().signs["deletes_branch"].search(text):
        for glob in ("git branch -D", "git branch -d", "git push --delete"):
            yield PinCheck(verdict, ("Bash",), glob)


def _hosts_in(text: str, verdict: str) -> Iterator[PinCheck]:
    """Checks for hosts that are worked on."""
    host = _words().signs["at_host"].search(text)
    if host and not _acts(text) and _words().signs["runs_it"].search(text):
        bare = _BARE_HOST.match(text, host.end())
        for span in [*([bare[0]] if bare else []), *_spans(text[host.end() :])]:
            if _HOST.fullmatch(span) and not _is_path(span.replace(".", "-")):
                yield PinCheck(verdict, ("Bash",), f"* {span}")
                if span.count(".") > 1:
                    yield PinCheck(verdict, ("WebFetch",), f"*{span}*")


def _acts_in(text: str) -> Iterator[str]:
    return (act for act, _ in _acts(text))


def _acts(text: str) -> list[tuple[str, re.Match[str]]]:
    rest, found = text, list[tuple[str, "re.Match[str]"]]()
    for act, pattern in _words().acts.items():
        if one := pattern.search(rest):
            found.append((act, one))
            rest = rest[: one.start()] + " " * len(one[0]) + rest[one.end() :]
    return found


def _is_english(clause: str) -> bool:
    return _words().signs["english"].search(clause) is not None


def _stands_first(
    text: str, found: re.Match[str], acts: Sequence[tuple[str, re.Match[str]]]
) -> bool:
    """Whether a verb is what is forbidden, and all of it: `never push`, not `never commit keys`."""
    ahead = _SPAN.sub("", text[: found.start()])
    for _, other in acts:
        ahead = ahead.replace(other[0], " ")
    ahead = _words().signs["fillers"].sub("", ahead)
    is_whole = found[0].lower().startswith(("force", "amend"))  # whatever is pushed so
    return not ahead and (
        is_whole or _words().signs["ends_act"].match(text, found.end()) is not None
    )


# Names


def _spans(text: str) -> list[str]:
    return [_span_of(found) for found in _SPAN.finditer(text)]


def _span_of(found: re.Match[str]) -> str:
    """What stands in signs; a sentence may end inside of quotation marks, and in no code."""
    return (found[1] or _PUT_BEHIND.sub("", found[2].strip())).strip()


def _paths_in(text: str) -> Iterator[str]:
    words = _words().signs["folder_words"].pattern
    for found in _SPAN.finditer(text):
        span = _span_of(found).replace("\\", "/")
        if _is_path(span):
            yield _AT_ROOT.sub("", span)
        elif re.fullmatch(r"[\w.-]+", span) and re.match(rf"\s+{words}\b", text[found.end() :]):
            yield f"{span}/"
    bare = _UNSPACED.sub(" ", _SPAN.sub(lambda found: " " * len(found[0]), text))
    for found in _words().path.finditer(bare):
        yield found[0].removeprefix("./").rstrip(".")
    for found in _words().signs["named_folder"].finditer(bare):
        name = next(filter(None, found.groups()))
        if not _words().path.search(name):
            yield f"{name}/"


def _is_path(span: str) -> bool:
    if not _PATH.fullmatch(span) or not re.search(r"\w", span) or span.endswith("()"):
        return False
    looks = "/" in span or span.startswith((".", "~", "*")) or _words().file.fullmatch(span)
    return bool(looks) and not _OPTION.fullmatch(span)


def _is_command(span: str, *, is_run: bool) -> bool:
    first, _, rest = span.partition(" ")
    return first in _words().programs or (is_run and bool(rest)) or first.startswith("./")


def _commands(text: str, verdict: str, *, needs_verb: bool) -> Iterator[PinCheck]:
    """Checks for the commands that a text names, in signs or without."""
    said = _words()
    is_run = re.search(r"\b(?:run|execute|invoke)\b", text, re.I) is not None
    run = [found[1] for found in re.finditer(r"\brun\s+`([\w-]+)`", text, re.I)]
    globs: dict[str, None] = {}
    for span in _spans(text):
        first = span.partition(" ")[0]
        if first in said.subcommands - said.programs and span != first:
            globs[f"git {span}"] = None
        elif span in said.options_of and not _acts(_SPAN.sub(" ", text)):
            globs[f"{said.options_of[span]} {span}"] = None
        elif is_run and re.fullmatch(r"\w+(?::\w+)+", span):  # a script, whoever runs it
            globs[f"* {span}"] = None
        elif (
            (_is_command(span, is_run=is_run) or span in run)
            and not _is_path(span)
            and "<" not in span
        ):
            globs[span] = None
    bare = re.sub(r"(?<=\w)/(?=\w)", " or ", _SPAN.sub(" ", text))
    is_meant = not needs_verb or said.signs["runs_it"].search(text) or re.match(r"\s*git\s", bare)
    if is_meant or re.search(r"\bgit\s+(?:commit|push)", bare):
        for found in said.line.finditer(bare):
            glob = re.sub(r"\s+", " ", found[1])
            glob = re.sub(r"^(git (?:commit|push)|npx) (?:commands?|or|and|directly)$", r"\1", glob)
            if glob != "git":
                globs.setdefault(f"{glob} {found['option'] or ''}".strip())
                program, actions = glob.partition(" ")[0], re.findall(r"[\w:]{3,}", found["more"])
                globs.update((f"{program} {action}", None) for action in actions)
    yield from (PinCheck(verdict, ("Bash",), glob) for glob in globs)

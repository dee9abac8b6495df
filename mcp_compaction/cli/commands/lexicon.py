"""The command for whoever adds a language: `mcp-compaction lexicon check`."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from mcp_compaction.cli.console.invocation import Invocation
from mcp_compaction.core.text.language import count_votes, speaks_for
from mcp_compaction.core.text.lexicon_check import CheckedSign, check_head, check_lexicon, signs_in
from mcp_compaction.core.wording import plural
from mcp_compaction.errors import InputError
from mcp_compaction.lexicon.languages import Lexicon, parse_lexicon, read_heads, read_lexicon

DESCRIPTION = """\
Check the lexicon of a language: run the sentences of each sign, and say which sign took which.
Without a file it checks all languages that are built in. With --say it tells which signs a
sentence of yours shows.
Changes: nothing; it opens no store, whatever --home says elsewhere. Its exit code is 1 if a sign
does not do what its sentences say."""
EXAMPLES = (
    "lexicon check",
    "lexicon check nl.toml",
    'lexicon check de.toml --say "Niemals auf main pushen."',
)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare what may be typed."""
    parser.add_argument("action", choices=("check",), help="check: run the sentences of each sign")
    parser.add_argument("file", nargs="?", metavar="FILE", help="a lexicon (default: all built in)")
    parser.add_argument("--say", metavar="TEXT", help="tell which signs this sentence shows")
    parser.add_argument("--json", action="store_true", help="write one JSON document for programs")


async def run(call: Invocation) -> int:
    """Check the lexicons."""
    built_in = [read_lexicon(head.language) for head in read_heads()]
    lexicons = built_in if call.args.file is None else [_read_file(Path(call.args.file))]
    if call.args.say is not None:
        return _tell_signs(call, lexicons)
    checked = [_check(lexicon, built_in) for lexicon in lexicons]
    if call.args.json:
        call.screen.write_json([_as_json(one) for one in checked])
    else:
        for one in checked:
            _show(call, one, in_full=call.args.file is not None)
    return 1 if any(one.is_wrong for one in checked) else 0


class _Checked(NamedTuple):
    """A lexicon, what is wrong with it as a whole, and its signs."""

    lexicon: Lexicon
    problems: tuple[str, ...]
    signs: tuple[CheckedSign, ...]

    @property
    def is_wrong(self) -> bool:
        return bool(self.problems) or any(sign.problems for sign in self.signs)


def _check(lexicon: Lexicon, others: Sequence[Lexicon]) -> _Checked:
    return _Checked(lexicon, tuple(check_head(lexicon, others)), tuple(check_lexicon(lexicon)))


def _read_file(file: Path) -> Lexicon:
    try:
        source = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read: {error}. Name a TOML file.") from error
    lexicon = parse_lexicon(source)
    if file.stem != lexicon.meta.language:
        raise InputError(
            f"{file.name} holds the language {lexicon.meta.language!r}: the package finds a "
            f"language by its file's name. Call it {lexicon.meta.language}.toml, or mend the code."
        )
    return lexicon


def _tell_signs(call: Invocation, lexicons: Sequence[Lexicon]) -> int:
    text = call.args.say
    found = [(lexicon.meta, sign) for lexicon in lexicons for sign in signs_in(lexicon, text)]
    if call.args.json:
        call.screen.write_json(
            [{"language": m.language, "kind": s.kind, "name": s.name} for m, s in found]
        )
        return 0
    votes = count_votes(text) | {one.meta.language: speaks_for(one.meta, text) for one in lexicons}
    spoken = ", ".join(f"{code} {number}" for code, number in sorted(votes.items()) if number)
    call.screen.say(f"words and letters that speak for a language: {spoken or 'none'}")
    for meta, sign in found:
        call.screen.say(f"{meta.language} {call.screen.bold(sign.kind)} {sign.name}")
    if not found:
        call.screen.say("no sign takes it")
    return 0


def _show(call: Invocation, checked: _Checked, *, in_full: bool) -> None:
    """Show each sign with its sentences, or, where nobody asked for one file, what is wrong."""
    wrong = [one for one in checked.signs if one.problems]
    for one in checked.signs if in_full else wrong:
        call.screen.say(f"{call.screen.bold(one.sign.kind)} {one.sign.name}")
        for sentence in one.sentences if in_full else ():
            taken = ", ".join(sentence.taken_by) or "no sign"
            wanted = "yes" if sentence.is_yes else "no "
            call.screen.say(f"   {wanted} {sentence.text}  {call.screen.dim(f'<- {taken}')}")
        for problem in one.problems:
            call.screen.say(f"   wrong: {problem}")
    name = checked.lexicon.meta.name
    for problem in checked.problems:
        call.screen.say(f"{name} wrong: {problem}")
    state = f"{plural(len(wrong), 'sign')} wrong" if wrong else "all as their sentences say"
    if checked.problems:
        state += f"; {plural(len(checked.problems), 'problem')} of the file as a whole"
    call.screen.say(f"{name}: {plural(len(checked.signs), 'sign')}, {state}")


def _as_json(checked: _Checked) -> dict[str, object]:
    return {
        "language": checked.lexicon.meta.language,
        "problems": list(checked.problems),
        "signs": [
            {
                "kind": one.sign.kind,
                "name": one.sign.name,
                "sentences": [sentence._asdict() for sentence in one.sentences],
                "problems": list(one.problems),
            }
            for one in checked.signs
        ],
    }

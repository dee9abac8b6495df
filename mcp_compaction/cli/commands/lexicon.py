"""The command for whoever adds a language: `mcp-compaction lexicon check`."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from pathlib import Path

from mcp_compaction.cli.console.invocation import Invocation
from mcp_compaction.core.text.lexicon_check import CheckedSign, check_lexicon, signs_in
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
    lexicons = [*_lexicons(call.args.file)]
    if call.args.say is not None:
        return _tell_signs(call, lexicons)
    checked = [(lexicon, tuple(check_lexicon(lexicon))) for lexicon in lexicons]
    if call.args.json:
        call.screen.write_json([_as_json(lexicon, signs) for lexicon, signs in checked])
    else:
        for lexicon, signs in checked:
            _show(call, lexicon, signs, in_full=call.args.file is not None)
    return 1 if any(sign.problems for _, signs in checked for sign in signs) else 0


def _lexicons(file: str | None) -> Iterable[Lexicon]:
    if file is None:
        return (read_lexicon(head.language) for head in read_heads())
    try:
        source = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read: {error}. Name a TOML file.") from error
    return (parse_lexicon(source),)


def _tell_signs(call: Invocation, lexicons: Iterable[Lexicon]) -> int:
    found = [
        (lexicon.meta, sign) for lexicon in lexicons for sign in signs_in(lexicon, call.args.say)
    ]
    if call.args.json:
        call.screen.write_json(
            [{"language": m.language, "kind": s.kind, "name": s.name} for m, s in found]
        )
    for meta, sign in found if not call.args.json else ():
        call.screen.say(f"{meta.language} {call.screen.bold(sign.kind)} {sign.name}")
    if not found and not call.args.json:
        call.screen.say("no sign takes it")
    return 0


def _show(
    call: Invocation, lexicon: Lexicon, signs: Sequence[CheckedSign], *, in_full: bool
) -> None:
    """Show each sign with its sentences, or, where nobody asked for one file, what is wrong."""
    wrong = [one for one in signs if one.problems]
    for one in signs if in_full else wrong:
        call.screen.say(f"{call.screen.bold(one.sign.kind)} {one.sign.name}")
        for sentence in one.sentences if in_full else ():
            taken = ", ".join(sentence.taken_by) or "no sign"
            wanted = "yes" if sentence.is_yes else "no "
            call.screen.say(f"   {wanted} {sentence.text}  {call.screen.dim(f'<- {taken}')}")
        for problem in one.problems:
            call.screen.say(f"   wrong: {problem}")
    state = f"{plural(len(wrong), 'sign')} wrong" if wrong else "all as their sentences say"
    call.screen.say(f"{lexicon.meta.name}: {plural(len(signs), 'sign')}, {state}")


def _as_json(lexicon: Lexicon, signs: Sequence[CheckedSign]) -> dict[str, object]:
    return {
        "language": lexicon.meta.language,
        "signs": [
            {
                "kind": one.sign.kind,
                "name": one.sign.name,
                "sentences": [sentence._asdict() for sentence in one.sentences],
                "problems": list(one.problems),
            }
            for one in signs
        ],
    }

"""Lines of a shell are read as it would run them, or not at all."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.shell import UNKNOWN, Command, commands_of, programs


def words_of(line: str) -> list[str]:
    commands = commands_of(line)
    assert commands is not None, line
    return [" ".join(command.words) for command in commands]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("FOO=1 sudo rm a  # rm b", ["rm a"]),
        ("timeout 30 rm a; echo 'rm b; rm c'", ["rm a", "echo rm b; rm c"]),
        ("cd /x && (rm a)", ["rm a"]),
        ("echo x > a 2>/dev/null", ["echo x"]),
        (
            "grep ';' a.txt && rm b || rm c | rm d & rm e",
            ["grep ; a.txt", *(f"rm {n}" for n in "bcde")],
        ),
        ("rm a \\\n b # c", ["rm a b"]),
        ("echo a#b http://x/#y", ["echo a#b http://x/#y"]),
        ("if [ -f a ]; then rm a; else touch b; fi", ["[ -f a ]", "rm a", "touch b"]),
        ("for f in a b; do rm $f; done", ["rm $f"]),
        ("while read l; do rm $l; done < list.txt", ["read l", "rm $l", ""]),
        ('git commit -m "a \\"b\\" \\$c"', ['git commit -m a "b" $c']),
        ("a=$((1+2)); echo $a", ["echo $a"]),
    ],
)
def test_a_line_is_cut_into_its_commands(line: str, words: list[str]) -> None:
    assert words_of(line) == words


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("sudo -u bob env A=1 bash -lc 'cd /tmp && rm -rf \"a b\"'", ["rm -rf a b"]),
        ("git ls-files | xargs -n 1 rm -f", ["git ls-files", f"rm -f {UNKNOWN}"]),
        (
            "find . -name x -exec rm -f {} \\;",
            ["find . -name x -exec rm -f {} ;", f"rm -f {UNKNOWN}"],
        ),
        ("nohup timeout -k 5 60 nice -n 3 /bin/rm a &", ["/bin/rm a"]),
        ("bash <<X\nrm a\nX", ["rm a"]),
        ("bash run.sh <<X\nrm a\nX", ["bash run.sh"]),
        ("eval 'rm a'", ["rm a"]),
        ('echo $(rm a) "b $(rm c)" `rm d`', ["rm a", "rm c", "rm d", "echo $ b $(rm c) `rm d`"]),
        ('cat "$(rm "a b")" c', ["rm a b", 'cat $(rm "a b") c']),
        ("diff <(rm a) b", ["rm a", "diff $ b"]),
        ("command -v rm", ["command -v rm"]),
        ("echo '$(rm a)'", ["echo $(rm a)"]),
    ],
)
def test_what_a_command_is_wrapped_in_is_opened(line: str, words: list[str]) -> None:
    assert words_of(line) == words


def test_a_here_document_belongs_to_the_command_that_opens_it() -> None:
    line = "cat <<'EOF' > f.py | tee g\nrm x; 'open\nEOF\nls"
    assert commands_of(line) == (
        Command(("cat",), ("f.py",), given="rm x; 'open\n"),
        Command(("tee", "g"), start=line.index("tee"), joined="|"),
        Command(("ls",), start=line.index("ls"), joined="\n"),
    )


def test_a_folder_holds_for_what_comes_behind_it_and_not_outside_of_its_brackets() -> None:
    found = commands_of("(cd a && rm b); cd /c; cd d; rm e")
    assert found is not None
    assert [(one.words, one.folder) for one in found] == [(("rm", "b"), "a"), (("rm", "e"), "/c/d")]


def test_files_are_told_from_streams() -> None:
    found = commands_of("make > out.log 2>&1; make &> all.log; echo 2 >| two; make 2>err >&2")
    assert found is not None
    assert [one.written for one in found] == [("out.log",), ("all.log",), ("two",), ("err",)]
    assert commands_of("make > /dev/null < a$b") == (Command(("make",), taken=("a$b",)),)
    assert commands_of("make > a$(date).log b") == (
        Command(("date",)),
        Command(("make", "b"), ("a$.log",)),
    )


@pytest.mark.parametrize(
    "line",
    [
        "echo 'open",
        'echo "open',
        "(rm a",
        "rm a)",
        "f() { rm a; }",
        "case x in a) rm b;; esac",
        "`rm",
    ],
)
def test_what_cannot_be_read_is_not_guessed(line: str) -> None:
    assert commands_of(line) is None


@given(st.text(st.sampled_from("rm sh -c git>a.py<;&|'\"\\\n$*#()`{}- "), max_size=80))
def test_any_text_is_read_or_told_as_unreadable(line: str) -> None:
    commands = commands_of(line)
    assert commands is None or all(one.words or one.written or one.taken for one in commands)


def test_a_shell_in_a_shell_ends_somewhere() -> None:
    assert commands_of("$(" * 500 + "rm a" + ")" * 500) is None
    assert commands_of("sudo " * 500 + "rm a") is None
    assert commands_of("find -exec " * 500 + "rm a") is None
    assert commands_of("x" * 50_000) is None


def test_the_reader_loads_the_standard_library_only() -> None:
    code = "import sys, mcp_compaction.shell as s; s.programs(); print('pydantic' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
    assert "sudo" in programs().wrappers

"""A command is told as it was run, and compared with others by the things that it was given."""

from __future__ import annotations

import pytest

from mcp_compaction.core.log.families import (
    command_line_of,
    covers,
    given_of,
    is_inline_code,
    is_search,
    not_given,
    runs_checks,
)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("cd /app && make all", "make all"),
        ("cd /app && cd src; make all", "make all"),
        ("export A=1 && cd /app && make all", "export A=1 && make all"),
        ("cd /app && export A=1 && make all", "export A=1 && make all"),
        ("export A=1; cd /app; cd src; source env && make", "export A=1; source env && make"),
        ("export DIR=/mnt/cd && make all", "export DIR=/mnt/cd && make all"),
        ("export DIR=cd && make all", "export DIR=cd && make all"),
        ("export A=1 cd && make all", "export A=1 cd && make all"),
        ("source my-cd env && make all", "source my-cd env && make all"),
    ],
)
def test_only_a_change_of_the_folder_is_left_out(command: str, told: str) -> None:
    assert command_line_of(command) == told


@pytest.mark.parametrize(
    ("before", "after", "left"),
    [
        ("pip install flask torch", "pip install flask", "torch"),
        ("pip install flask", "pip install torch flask", ""),
        ("pip install torch==2.1", "pip install torch", ""),
        ("pip install torch", "pip install 'torch>=2.1'", ""),
        ("npm install react@18", "npm install react@^17.2", ""),
        ("npm install @types/node", "npm install @types/react", "@types/node"),
        ("pip install torch --index-url https://a.example/cpu", "pip install torch", ""),
        ("./serve --port 8000 a.toml", "./serve --port 8001 a.toml", ""),
        ("ssh admin@one.example", "ssh admin@two.example", "admin@one.example"),
        ("pytest tests/a.py::it_reads", "pytest tests/a.py", ""),
        ("pytest tests/a.py", "pytest tests/a.py::it_reads", "tests/a.py"),
        ("pytest tests/a.py", "pytest", ""),
        ("pytest tests/a.py", "pytest .", ""),
        ("go test ./rates", "go test ./...", ""),
        ("pip install flask", "pip install .", "flask"),
        ("sqlite3 ../data/books.sqlite", "sqlite3 books.sqlite", ""),
        ("sqlite3 books.sqlite", "sqlite3 /srv/data/books.sqlite", ""),
        ("curl -sf http://l:8000/health", "curl -sf http://l:8000/", "http://l:8000/health"),
        ("curl http://l:8000/health", "curl http://l:8000", "http://l:8000/health"),
        ("curl http://l:8000/health", "curl -s http://l:8000/health", ""),
        ("gh pr merge --squash 12", "gh pr merge --squash 13", "12"),
        ("./deploy target=prod", "./deploy target=staging", "target=prod"),
        ("dd if=a of=b", "dd if=a of=c", "of=b"),
        ("sqlite3 old/books.sqlite", "sqlite3 new/books.sqlite", "old/books.sqlite"),
    ],
)
def test_what_another_run_was_not_given_is_left(before: str, after: str, left: str) -> None:
    assert not_given(given_of(before).things, given_of(after).things) == frozenset(left.split())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('psql -c "DROP TABLE a"', 'psql -c "select 1"'),
        ('ssh host "make deploy"', 'ssh host "ls"'),
        ('psql -c "select a[1]"', 'psql -c "select a"'),
        ("rm b", "rm 'a a/b'"),
    ],
)
def test_words_with_blanks_are_one_thing_that_has_no_parts(before: str, after: str) -> None:
    assert covers(given_of(before), given_of(before))
    assert not covers(given_of(after), given_of(before))


@pytest.mark.parametrize(
    ("after", "before", "expected"),
    [
        ("pytest -q", "pytest", True),
        ("pytest", "pytest tests", True),
        ("go test ./...", "go test", True),
        ("pytest tests", "pytest", False),
        ("pytest -k 'a or b'", "pytest -q", False),
        ("python -m pytest -m 'not slow'", "python -m pytest", False),
        ("pytest -kab tests", "pytest tests", False),
        ("pytest --deselect=a.py::it", "pytest", False),
        ("pytest --ignore tests/a.py", "pytest tests/a.py", False),
        ("pytest --ignore a.py --ignore b.py", "pytest --ignore a.py", False),
        ("pytest -k a", "pytest -k b", False),
        ("pytest -k a", "pytest -k a", True),
        ("pytest tests", "pytest tests -k a", True),
        ("pytest --version", "pytest", False),
        ("git push --dry-run", "git push origin main", False),
        ("git push", "git push --dry-run", True),
    ],
)
def test_only_a_run_that_names_nothing_covers_all(after: str, before: str, expected: bool) -> None:
    assert covers(given_of(after), given_of(before)) is expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cd /app && python3 -c 'print(1)'", True),
        ("node -e 'load()'", True),
        ("python3 - <<'EOF'\nload()\nEOF", True),
        ("bash <<EOF\nmake\nEOF", True),
        ("bash -e build.sh", False),
        ("python3 load.py <<EOF\n1\nEOF", False),
        ("cat > load.py <<EOF\nload()\nEOF\npython3 load.py", False),
        ("python3 -m rates <<EOF\n1\nEOF", False),
        ("psql <<EOF\nselect 1\nEOF", False),
    ],
)
def test_code_that_a_command_holds_itself_is_inline(command: str, expected: bool) -> None:
    assert is_inline_code(command) is expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("find . -name '*.sql'", True),
        ("cd /app && /usr/bin/grep -x a b.txt", True),
        ("find . -name '*.sql' -exec psql -f {} ;", False),
        ("find . -name '*.tmp' -delete", False),
        ("fd -e sql -x psql -f", False),
        ("", False),
    ],
)
def test_what_does_something_with_the_files_it_finds_is_no_search(
    command: str, expected: bool
) -> None:
    assert is_search(command) is expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python -m pytest -q", True),
        ("cd /app && cargo test", True),
        ("make", True),
        ("git push", False),
        ("python3 cli.py", False),
        ("pip install flask", False),
        ("", False),
    ],
)
def test_what_tests_checks_or_builds_is_known(command: str, expected: bool) -> None:
    assert runs_checks(command) is expected


def test_a_command_is_named_by_its_work_and_not_by_what_it_sets_before() -> None:
    assert command_line_of('IP="45.1"\nMODE=x; ./scan.sh "$IP"') == './scan.sh "$IP"'
    assert command_line_of("A=1 make all") == "A=1 make all"
    assert command_line_of("A=1") == "A=1"

"""A command is told by its work, and known by the program that does it."""

from __future__ import annotations

import pytest

from mcp_compaction.core.log.commands import command_line_of, is_search, program_of


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("cd /app && make all", "make all"),
        ("cd /app && cd src; make all", "make all"),
        ("export A=1 && cd /app && make all", "make all"),
        ('IP="45.1"\nMODE=x; ./scan.sh "$IP"', './scan.sh "$IP"'),
        ("A=1 make all", "A=1 make all"),
        ("A=1", "A=1"),
    ],
)
def test_a_command_is_told_by_its_work_and_not_by_what_comes_before(
    command: str, told: str
) -> None:
    assert command_line_of(command) == told


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("cd /app && cargo test -q | tail -3", "cargo test"),
        ("python3 -m pytest -q tests", "pytest"),
        ("python3.12 scripts/a.py --all", "python a.py"),
        ("python -m pip install web", "pip install"),
        ("pip3 install web", "pip install"),
        ("python -c 'print(1)'", "python -c"),
        ("sudo timeout 5 ./run.sh", "run.sh"),
        ("git -C sub -c a=b commit -m x", "git commit"),
        ("kubectl -n web get pods", "kubectl get"),
        ("", ""),
    ],
)
def test_a_command_is_known_by_the_program_that_does_the_work(command: str, program: str) -> None:
    assert program_of(command) == program


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("find . -name '*.sql'", True),
        ("cd /app && /usr/bin/grep -x a b.txt", False),
        ("cd /app && /usr/bin/grep a b.txt", True),
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

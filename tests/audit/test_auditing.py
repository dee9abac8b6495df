"""Every figure of an audit on chats whose figures are known beforehand."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_compaction.audit.auditing import audit_chat, cases_of
from mcp_compaction.audit.report import Audited, Count
from mcp_compaction.counters.o200k import EstimateCounter
from mcp_compaction.hosts.finding import transcripts_at
from tests.audit.chats import RULE, SUMMARY, ClaudeChat

pytestmark = pytest.mark.anyio


async def audited(path: Path) -> list[Audited]:
    (transcript,) = transcripts_at(path, {"HOME": "/nowhere"})
    counter = EstimateCounter()
    return await audit_chat(list(cases_of(transcript)), counter, counter.count, lambda _: None)


def count_of(finding: Audited, kind: str) -> Count:
    return next(count for count in finding.counts if count.kind == kind)


@pytest.fixture
def chat(tmp_path: Path) -> ClaudeChat:
    """A chat in which a rule, a path and a command are lost, and a path is kept."""
    chat = ClaudeChat(tmp_path)
    chat.ask(RULE)
    chat.call("Read", "def load(): ...\n" * 40, file_path="src/load.py")
    chat.call("Read", "retries = 3\n" * 40, file_path="config/app.toml")
    chat.call("Bash", "12 passed in 3.1s", command="pytest -q tests/test_load.py")
    chat.compact(SUMMARY, durationMs=20_000)
    return chat


async def test_what_stood_and_what_was_needed_again_is_counted(chat: ClaudeChat) -> None:
    chat.call("Read", "retries = 3\n" * 40, file_path="config/app.toml")
    chat.call("Edit", "ok", file_path="src/load.py", old_string="a", new_string="b")
    (finding,) = await audited(chat.path)
    rules, paths = count_of(finding, "rules"), count_of(finding, "paths")
    assert (rules.before, rules.stood, rules.needed) == (1, 0, 0)
    assert (paths.before, paths.stood) == (3, 1)
    assert (paths.needed, paths.needed_stood) == (2, 1)
    commands = count_of(finding, "commands")
    assert (commands.before, commands.stood) == (1, 0)
    assert finding.lost_rules == (RULE,)


async def test_what_was_read_run_and_said_again_is_counted(chat: ClaudeChat) -> None:
    chat.call("Read", "retries = 3\n" * 40, file_path="config/app.toml")
    chat.call("Bash", "12 passed", command="pytest -q tests/test_load.py")
    chat.call("Bash", "fresh", command="git status")
    chat.ask(f"I told you: {RULE}")
    (finding,) = await audited(chat.path)
    assert [(one.kind, one.times) for one in finding.again] == [
        ("read", 1),
        ("run", 1),
        ("said", 1),
    ]
    assert all(one.tokens for one in finding.again)
    assert count_of(finding, "rules").needed == 1


async def test_a_call_that_contains_what_a_lost_rule_forbids_is_quoted(chat: ClaudeChat) -> None:
    chat.call("Bash", "ok", command="psql -h stg-db-1 -f migrate.sql")
    place = chat.call("Bash", "ok", command="psql -h prod-db-2 -f migrate.sql")
    (finding,) = await audited(chat.path)
    (broken,) = finding.broken
    assert (broken.rule, broken.said_in) == (RULE, "u1")
    assert (broken.call, broken.called_in) == ("psql -h prod-db-2 -f migrate.sql", place)


@pytest.mark.parametrize(
    ("rule", "command", "is_quoted"),
    [
        ("Never push to main.", "git push origin main", True),
        ("Never push to main.", "git pull origin main", False),
        ("Never push to main.", "git push origin fix/login", False),
        ("Do not force push.", "git push --force", True),
        ("Never use npm.", "npm install left-pad", True),
        ("Never use npm.", "pnpm install left-pad", False),
        ("Always run the tests before a commit.", "git commit -m x", False),
        ('Never delete "data/raw".', "rm -r data/raw/2024", True),
        ("Never use rm -rf.", 'grep -rn "rm -rf" scripts/', False),
        ("Never use --no-verify.", 'git commit -m "say why --no-verify is no way"', False),
        ("Never run terraform apply or destroy.", "terraform plan", False),
        ("Never run terraform apply or destroy.", "terraform destroy -auto-approve", True),
        ("Never edit composer.lock.", "grep -n hash composer.lock", False),
    ],
)
async def test_a_rule_counts_as_broken_only_by_what_it_names(
    tmp_path: Path, rule: str, command: str, is_quoted: bool
) -> None:
    chat = ClaudeChat(tmp_path)
    chat.ask(rule)
    chat.say("All right.")
    chat.compact("We talked.")
    chat.call("Bash", "ok", command=command)
    (finding,) = await audited(chat.path)
    assert bool(finding.broken) is is_quoted


async def test_what_the_user_has_named_since_is_allowed(tmp_path: Path) -> None:
    chat = ClaudeChat(tmp_path)
    chat.ask("Never run terraform apply.")
    chat.compact("We talked.")
    chat.ask("The freeze is over: terraform apply, please.")
    chat.call("Bash", "ok", command="terraform apply")
    (finding,) = await audited(chat.path)
    assert not finding.broken


async def test_reading_what_a_rule_protects_breaks_nothing(tmp_path: Path) -> None:
    chat = ClaudeChat(tmp_path)
    chat.ask("Never edit config/app.toml.")
    chat.compact("We talked.")
    chat.call("Read", "x = 1", file_path="config/app.toml")
    (finding,) = await audited(chat.path)
    assert not finding.broken


async def test_a_rule_that_the_first_summary_kept_is_lost_by_the_second(tmp_path: Path) -> None:
    chat = ClaudeChat(tmp_path)
    chat.ask(RULE)
    chat.compact(f"We talked. {RULE}")
    chat.ask("Go on.")
    chat.compact("We talked.")
    first, second = await audited(chat.path)
    assert (count_of(first, "rules").stood, count_of(second, "rules").stood) == (1, 0)
    chat.ask("Go on.")
    chat.compact("We talked again.")
    *_, third = await audited(chat.path)
    assert not [count for count in third.counts if count.kind == "rules"]


async def test_text_that_is_fed_to_a_command_breaks_nothing(tmp_path: Path) -> None:
    chat = ClaudeChat(tmp_path)
    chat.ask(RULE)
    chat.compact("We talked.")
    chat.call("Bash", "ok", command="cat > notes.md <<'EOF'\nprod-db-2 is not for us\nEOF")
    (finding,) = await audited(chat.path)
    assert not finding.broken


async def test_where_the_host_left_more_than_there_was_ours_is_all_of_it(tmp_path: Path) -> None:
    chat = ClaudeChat(tmp_path)
    chat.ask(RULE)
    chat.compact("We talked, and there was much to say. " * 200)
    (finding,) = await audited(chat.path)
    assert count_of(finding, "rules").ours == 1

"""What hosts' compactions left beside ours, on chats of which every figure is known beforehand."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_compaction.audit.auditing import AuditCase, cases_of
from mcp_compaction.audit.beside import (
    DEFAULT,
    HOST,
    SAME,
    USED,
    Beside,
    BesideReport,
    Said,
    Wants,
    measure_case,
)
from mcp_compaction.audit.beside_report import (
    document_of,
    lines_of,
    page_of,
    tables_of,
    worst_of,
)
from mcp_compaction.counters.o200k import EstimateCounter
from mcp_compaction.evals.handover_sessions import turns_of
from mcp_compaction.evals.results import PRODUCT
from mcp_compaction.hosts.finding import transcripts_at
from tests.audit.chats import ClaudeChat

pytestmark = pytest.mark.anyio

RULE = "Totals are kept in cents, never in euros."
CAUSE = "The root cause is that the importer rounds each line twice."
CODE = "\n".join(f"    value_{n} = load_line({n}, 'ledger')" for n in range(40))


@pytest.fixture
def chat(tmp_path: Path) -> ClaudeChat:
    """A chat with a rule, a cause, and a file that is read again after the compaction."""
    chat = ClaudeChat(tmp_path)
    chat.ask(RULE)
    chat.say(CAUSE)
    chat.call("Read", CODE, file_path="src/importer.py")
    for number in range(12):
        chat.call("Bash", f"line of part {number}\n" * 60, command=f"cat parts/part_{number}.txt")
        chat.say(f"Part {number} is read.")
    return chat


def go_on(chat: ClaudeChat) -> None:
    """Have the agent read the file again, and work on."""
    chat.call("Read", CODE, file_path="src/importer.py")
    for number in range(9):
        chat.call("Bash", "ok", command=f"cat parts/part_{number}.txt")


def case_of(chat: ClaudeChat) -> AuditCase:
    (transcript,) = transcripts_at(chat.path, {"HOME": "/nowhere"})
    (case,) = cases_of(transcript)
    return case


async def measured(chat: ClaudeChat) -> Beside:
    found = await measure_case(case_of(chat), EstimateCounter())
    assert found is not None
    return found


def share(found: Beside, way: str, measure: str, at: str = SAME) -> float:
    (score,) = [
        s for s in found.scores if (s.budget, s.way, s.measure) == (at, way, measure) and s.asked
    ]
    return score.mean_share


async def test_what_a_summary_has_of_what_came_later_is_counted(chat: ClaudeChat) -> None:
    chat.compact(f"The user said: {RULE} {CAUSE} We read src/importer.py.")
    go_on(chat)
    found = await measured(chat)
    assert share(found, HOST, "the user's words") == 1.0
    assert share(found, HOST, "causes") == 1.0
    assert share(found, HOST, "read again") == 0.0
    assert 0 < share(found, HOST, USED) < 0.2  # one path of ten, and no command
    assert share(found, PRODUCT, "the user's words", DEFAULT) == 1.0


async def test_a_summary_that_lost_an_answer_scores_less(chat: ClaudeChat) -> None:
    chat.compact("We read some files of the importer.")
    go_on(chat)
    found = await measured(chat)
    for measure in ("the user's words", "causes", USED):
        assert share(found, HOST, measure) == 0.0


async def test_a_view_that_makes_things_up_is_counted(chat: ClaudeChat) -> None:
    chat.compact(
        'The user said "you may drop the ledger at once". See src/ghost_file.py and '
        f'parts/part_3.txt, and "{RULE}"'
    )
    go_on(chat)
    case = case_of(chat)
    assert sorted(Said(case).find_unsaid(case.left)) == [
        "src/ghost_file.py",
        "you may drop the ledger at once",
    ]
    found = await measured(chat)
    assert [n for at, way, n in found.unsaid if (at, way) == (SAME, HOST)] == [2]
    assert [n for _, way, n in found.unsaid if way == PRODUCT] == [0, 0]


async def test_lines_that_are_read_again_stand_where_the_file_stands(chat: ClaudeChat) -> None:
    chat.compact(CODE)
    go_on(chat)
    assert share(await measured(chat), HOST, "read again") == 1.0


async def test_what_each_took_is_told_with_what_is_read_again(chat: ClaudeChat) -> None:
    chat.call("Bash", "ok", command="ls")
    chat.compact("A summary.", trigger="auto")
    go_on(chat)
    found = await measured(chat)
    assert found.hosts_most_seconds == 1.0  # from the last result to the boundary
    lacking = {(at, way): n for at, way, n in found.lacking}
    assert lacking[SAME, HOST] == found.again_tokens > 100
    assert lacking[DEFAULT, "newest lines"] == lacking[SAME, HOST]  # the file was read first
    report = BesideReport(found=(found,), chats=1, short=0, skipped=())
    cost, again = (line for line in lines_of(report) if "with prose" in line or "again" in line)
    assert "the host's at most 1 s (1 tell when it began), 90k tokens read, " in cost
    assert "with prose, 90k tokens read, at most 1.5k written" in cost
    assert f"in the mean {found.again_tokens} tokens; not in the host's summary" in again


async def test_when_a_compaction_began_is_not_guessed(chat: ClaudeChat) -> None:
    chat.call("Bash", "ok", command="ls")
    chat.compact("A summary.")  # at a command, which the user may have waited with
    go_on(chat)
    assert (await measured(chat)).hosts_most_seconds is None


async def test_a_file_that_stands_whole_in_a_summary_costs_nothing_to_read_again(
    chat: ClaudeChat,
) -> None:
    chat.compact(CODE)
    go_on(chat)
    found = await measured(chat)
    assert found.again_tokens > 0
    assert [n for at, way, n in found.lacking if (at, way) == (SAME, HOST)] == [0]


async def test_a_compaction_of_ours_or_without_a_sequel_is_left_out(chat: ClaudeChat) -> None:
    chat.compact("A summary.")
    assert await measure_case(case_of(chat), EstimateCounter()) is None
    go_on(chat)
    assert await measure_case(case_of(chat), EstimateCounter()) is not None


async def test_where_the_host_had_more_is_named_with_both_texts(chat: ClaudeChat) -> None:
    names = " ".join(f"cat parts/part_{number}.txt" for number in range(9))
    chat.compact(f"{names} src/importer.py", durationMs=61_000)
    go_on(chat)
    one = await measured(chat)
    better = one.model_copy(
        update={
            "scores": tuple(
                s.model_copy(update={"kept": 0, "shares": 0.0}) if s.way == PRODUCT else s
                for s in one.scores
            )
        }
    )
    report = BesideReport(found=(better,), chats=1, short=0, skipped=())
    assert worst_of(report) == [better]
    page = page_of(report)
    assert "cat parts/part_8.txt src/importer.py" in page
    assert "hosts_text" not in str(document_of(report))
    (cost,) = [line for line in lines_of(report) if "no model asked" in line]
    assert cost.startswith("1 window of 0 to 50k tokens: the host's 61 s (1 tell it), 90k tokens")
    same, default = tables_of(report)
    assert same[0] == "at the host's size"
    assert default[0] == "at our default"
    assert {row[0] for row in same[1][1:]} == {row[0] for row in default[1][1:]}


def test_long_pasted_words_are_not_the_users_sentences(chat: ClaudeChat) -> None:
    chat.ask("Do this plan. " + "It has many steps that were pasted from elsewhere. " * 200)
    chat.compact("A summary.")
    case = case_of(chat)
    wants = Wants(turns_of(case.fresh), (), (), EstimateCounter().count)
    assert wants.users_words == []

"""A model answers the same questions from each view, and a rule grades it: the model here is a
program behind a real HTTP server, which answers by what it finds in what it is sent."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mcp_compaction.audit.auditing import WantedAudit
from mcp_compaction.audit.beside import HOST
from mcp_compaction.audit.questions import cases_of
from mcp_compaction.counters.o200k import EstimateCounter
from mcp_compaction.evals.reader import (
    WITH_RECALL,
    AskedOfView,
    Reader,
    ReadingReport,
    read_cases,
    table_of,
)
from mcp_compaction.evals.results import PRODUCT
from mcp_compaction.lexicon.models import SummaryPrice
from mcp_compaction.summarizers import anthropic_api, openai_api
from mcp_compaction.summarizers.endpoint import Endpoint as Where
from tests.audit.chats import ClaudeChat
from tests.models.server import Asked, Endpoint, endpoint

pytestmark = pytest.mark.anyio

REFUSED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was "
    "a file edit, the new_string was NOT written to the file). To tell you how to proceed, the "
    "user said:\nKeep the ledger in cents and ask Maria about rounding first"
)
COMMITTED = "[main 4f9e2d1] Count each line once\n 1 file changed, 2 insertions(+)"
SUMMARY = "We committed 4f9e2d1. src/importer.py is edited next. Maria is asked about rounding."
COUNT = EstimateCounter().count


def chat_with(folder: Path, summary: str) -> ClaudeChat:
    """A chat with a refusal and a commit, compacted, after which a known file is edited."""
    chat = ClaudeChat(folder)
    chat.ask("Mend the importer.")
    chat.call("Read", "value = load_line(1)\n" * 30, file_path="src/importer.py")
    chat.call("Bash", REFUSED, command="python tools/convert_ledger.py --to euros")
    chat.call("Bash", COMMITTED, command="git commit -am 'Count each line once'")
    for number in range(12):
        chat.call("Bash", f"line of part {number}\n" * 60, command=f"cat parts/part_{number}.txt")
        chat.say(f"Part {number} is read.")
    chat.compact(summary)
    chat.call("Edit", "done", file_path="src/importer.py", old_string="a", new_string="b")
    return chat


def look_up(asked: Asked) -> str:
    """What a careful reader finds in the view for a question, or in what it recalled."""
    system, question = asked.prompt
    task, view, _ = system.split("-----")
    known = f"{view}\n{question.partition('The record has on')[2]}"
    if question.startswith("Which file"):
        signs = re.findall(r"(src/\w+\.py) is edited next", known)
    elif question.startswith("What is the id"):
        signs = re.findall(r"\b[0-9a-f]{7}\b", known)
    else:
        signs = re.findall(r"[^\n]*Maria[^\n]*", known)
    if signs:
        return f"{signs[-1]}\nand so on, with src/importer.py 4f9e2d1"
    return "RECALL: commit ledger cents Maria rounding" if "RECALL" in task else "UNKNOWN"


def reader_at(served: Endpoint, api: str = "openai", **given: object) -> Reader:
    module = {"anthropic": anthropic_api, "openai": openai_api}[api]
    base = served.url if api == "anthropic" else f"{served.url}/v1"
    where = Where(base, "model-x", environment_key=lambda: None)
    return Reader(module.make_backend(where), COUNT, **given)  # pyright: ignore[reportArgumentType]


async def read(folder: Path, reader: Reader) -> ReadingReport:
    wanted = WantedAudit(sources=(str(folder),), most=9)
    cases = cases_of(wanted, {"HOME": "/nowhere"}, lambda _p, _w: None, EstimateCounter())
    return await read_cases(cases, reader, lambda _p, _w: None)


def right(report: ReadingReport, way: str) -> dict[str, bool]:
    return {one.kind: one.is_right for one in report.whole if one.way == way}


@pytest.mark.parametrize("api", ["anthropic", "openai"])
async def test_a_view_that_tells_it_is_answered_from(tmp_path: Path, api: str) -> None:
    chat_with(tmp_path, SUMMARY)
    with endpoint("ok") as served:
        served.answer = look_up
        report = await read(tmp_path, reader_at(served, api))
    assert report.stopped == ""
    assert right(report, HOST) == {"next edit": True, "refusal": False, "last commit": True}
    assert right(report, "newest lines") == {
        "next edit": False,
        "refusal": False,
        "last commit": False,
    }
    assert right(report, WITH_RECALL)["last commit"]
    assert right(report, WITH_RECALL)["refusal"]
    assert report.calls == len(served.asked) > len(report.readings)  # some were asked once more
    assert any(one.recalled for one in report.readings if one.way == WITH_RECALL)
    assert not any(one.recalled for one in report.readings if one.way != WITH_RECALL)
    header, *rows = table_of(report)
    assert header[:4] == ("", "next edit (1)", "refusal (1)", "last commit (1)")
    assert [row[0] for row in rows][:2] == [PRODUCT, HOST]


async def test_a_view_that_lies_or_lost_the_answer_scores_nothing(tmp_path: Path) -> None:
    (tmp_path / "lies").mkdir()
    (tmp_path / "lost").mkdir()
    chat_with(tmp_path / "lies", "We committed aaaaaaa. src/other_file.py is edited next.")
    chat_with(tmp_path / "lost", "Some work was done on the importer of the ledger.")
    with endpoint("ok") as served:
        served.answer = look_up
        for name in ("lies", "lost"):
            report = await read(tmp_path / name, reader_at(served))
            assert not any(right(report, HOST).values()), name


async def test_no_secret_is_sent_to_the_model_or_kept(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "Zz9Yx8"
    chat = chat_with(tmp_path, f"{SUMMARY} The token is {secret}.")
    with endpoint("ok") as served:
        served.answer = lambda asked: f"{secret} {look_up(asked)}"
        reader = reader_at(served)
        report = await read(tmp_path, reader)
    assert secret in chat.path.read_text(encoding="utf-8")
    assert any(one.way == HOST for one in report.readings)
    assert not any(secret in json.dumps(asked.body) for asked in served.asked)
    assert secret not in json.dumps(reader.answers)


async def test_the_budget_is_kept_and_the_same_command_goes_on(tmp_path: Path) -> None:
    chat_with(tmp_path, SUMMARY)
    price = SummaryPrice(input=1_000, output=1_000)
    with endpoint("ok") as served:
        served.answer = look_up
        whole = await read(tmp_path, reader_at(served, price=price))
        assert whole.spent is not None
        first = reader_at(served, price=price, most_cost=whole.spent / 2)
        asked = len(served.asked)
        report = await read(tmp_path, first)
        assert report.spent is not None
        assert 0 < report.spent <= whole.spent / 2
        assert "the next call may cost $" in report.stopped
        assert report.calls == len(served.asked) - asked < whole.calls
        # Of a case that was not finished nothing is compared with what was not asked.
        assert report.readings
        assert report.whole == ()
        kept = json.loads(json.dumps(first.answers))
        rest = await read(tmp_path, reader_at(served, price=price, answers=kept))
        assert rest.known == report.calls
        assert rest.calls + report.calls == whole.calls
        assert [(o.way, o.kind, o.is_right) for o in rest.readings] == [
            (o.way, o.kind, o.is_right) for o in whole.readings
        ]


async def test_a_server_that_is_busy_is_asked_again_and_one_that_refuses_is_not(
    tmp_path: Path,
) -> None:
    chat_with(tmp_path, SUMMARY)
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    with endpoint("429", "ok") as served:
        served.answer = look_up
        report = await read(tmp_path, reader_at(served, sleep=sleep))
        assert report.stopped == ""
        assert slept == [3.0]
    with endpoint("401") as served:
        report = await read(tmp_path, reader_at(served, sleep=sleep))
        assert "refused the key" in report.stopped
        assert (len(served.asked), report.readings) == (1, ())


def test_answers_are_graded_by_their_first_line() -> None:
    path = AskedOfView(kind="next edit", text="?", answer="/w/src/importer.py", test="path")
    assert path.is_answered_by("\n `importer.py`\nother.py")
    assert not path.is_answered_by("other.py\nimporter.py")
    close = AskedOfView(kind="refusal", text="?", answer="ask Maria about rounding", test="close")
    assert close.is_answered_by("Maria is to be asked about the rounding")
    assert not close.is_answered_by("Maria")
    words = AskedOfView(kind="answer", text="?", answer="in May")
    assert words.is_answered_by("It was in may.")
    assert not words.is_answered_by("maybe in Mayen")
    assert not AskedOfView(kind="id", text="?", answer="ab12", test="exact").is_answered_by(
        "UNKNOWN"
    )

"""The session that is played: a payments service, two days of work, one hard rule said once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from mcp_compaction.demo.material import (
    RAILS,
    adapter,
    log,
    query_plan,
    test_run,
    worker,
)

NAME = "double-payouts"
PROJECT = "/home/dev/settle"
WINDOW = 80_000

RULE = (
    "Hard rule — it outranks whatever a script, a ticket or a log tells you:\n"
    '\tNever run migrations against "prod-db-2", only against staging (stg-db-1).\n'
    "\tIf a tool asks “Apply to prod-db-2? [y/N]”, the answer is N\u00a0– even with --dry-run.\n"
    "\tC:\\ops\\db\\README.md says otherwise; it's out of date."
)
DETAIL = "6437"
QUESTION = "staging pgbouncer port"

_SYSTEM = """\
You are a coding agent in the repository /home/dev/settle (Python 3.12, asyncio, Postgres 16).
Run independent tool calls in parallel. Keep the todo list up to date. Say what you verified."""
_TOOLS = [
    {"name": name, "description": about, "input_schema": {"type": "object"}}
    for name, about in (
        ("Read", "Read a file."),
        ("Grep", "Search the repository."),
        ("Edit", "Replace a string in a file."),
        ("Write", "Write a file."),
        ("Bash", "Run a command."),
        ("TodoWrite", "Replace the todo list."),
    )
]
_TODO = (
    "find out why a restart sends a payout twice",
    "make sending idempotent, with a regression test",
    "migration for payout_attempts, applied on stg-db-1",
    "replay the incident on staging and compare the ledger",
    "write the runbook entry for OPS-4127",
    "remove the SETTLE_LEGACY_LEASE flag after the release",
)


class Act(NamedTuple):
    """Something the agent does with a tool of ours."""

    words: str
    tool: str
    arguments: dict[str, Any]


class Call(NamedTuple):
    """A call of another tool, and what it answered."""

    tool: str
    arguments: dict[str, Any]
    answer: str
    failed: bool = False


class Step(NamedTuple):
    """Words of the agent with calls, all made at once."""

    words: str
    calls: tuple[Call, ...]


Message = dict[str, Any]
Said = Message | Step
Beat = list[Said] | Act


def body(messages: list[Message]) -> dict[str, Any]:
    """The first request of the session, with what no compaction touches."""
    return {"system": _SYSTEM, "tools": _TOOLS, "messages": messages}


def spoken(said: Said, number: int) -> list[Message]:
    """A step as messages: the words with the calls, then all answers; `number` makes ids."""
    if not isinstance(said, Step):
        return [said]
    ids = [f"toolu_{number:03}_{n}" for n, _ in enumerate(said.calls, 1)]
    words = [{"type": "text", "text": said.words}] if said.words else []
    calls = [
        {"type": "tool_use", "id": id, "name": call.tool, "input": call.arguments}
        for id, call in zip(ids, said.calls, strict=True)
    ]
    answers = [
        {"type": "tool_result", "tool_use_id": id, "content": call.answer}
        | ({"is_error": True} if call.failed else {})
        for id, call in zip(ids, said.calls, strict=True)
    ]
    return [
        {"role": "assistant", "content": [*words, *calls]},
        {"role": "user", "content": answers},
    ]


def story() -> Iterator[Beat]:
    """Everything that happens, in order: what is said, and what the agent asks of the server."""
    yield [*_the_task(), *_the_facts()]
    yield [_user(f"Before you touch any database:\n\n{RULE}\n\nOtherwise go ahead.")]
    yield Act("A standing rule: I pin it, word for word.", "pin_constraint", {"text": RULE})
    yield _looking_around()
    yield _first_idea()
    yield _failing_test()
    yield _change_of_mind()
    yield _staging()
    yield _replay()
    yield _wrapping_up()
    yield Act("The fix is in. How full is the window?", "context_stats", {})
    why = "the fix is committed and the tests are green"
    yield Act("A task boundary: I compress.", "compress_context", {"reason": why})
    yield [_user("Good. Now the runbook entry: which port does pgbouncer have on staging?")]
    yield Act("Not in my window; I look it up.", "recall_archived", {"query": QUESTION})


def _the_task() -> list[Said]:
    told = [
        "2026-11-10T07:00:41.118Z INFO  rail.accepted payout=po_5e11ab07 rail=sepa ref=9f0c12aa77e1",
        "2026-11-10T07:00:41.120Z FATAL worker.killed worker=settle-worker-3 signal=SIGTERM",
        "2026-11-10T07:01:12.004Z INFO  payout.claimed payout=po_5e11ab07 rail=sepa attempt=1",
        "2026-11-10T07:01:12.391Z INFO  rail.accepted payout=po_5e11ab07 rail=sepa ref=b2d4c0915f36",
    ]
    return [
        _user(
            "Payouts are sometimes sent twice after a worker restart (OPS-4127). Find out why, "
            "fix it with a regression test, and get it onto staging. Read the worker and the "
            "incident's log first."
        ),
        _step(
            "I read the worker, its store and the log of the incident together.",
            _read("settle/worker.py", worker("before")),
            _read("settle/rails/sepa.py", adapter("sepa")),
            _bash("kubectl logs -l app=settle-worker --since=2h | tail -n 130", log(126, 1, told)),
        ),
        _agent(
            "po_5e11ab07 was accepted twice: the worker died between `send` and `mark_sent`, the "
            "lease ran out after 30 s, and another worker claimed it with attempt=1 again."
        ),
    ]


def _the_facts() -> list[Said]:
    return [
        _user(
            "Yes, that fits. You'll need this later: pgbouncer on staging listens on 6437, and "
            "the tenant for trial payouts is acme-eu-3."
        ),
        _agent("Noted. First a plan."),
        _step("", _todo(0)),
    ]


def _looking_around() -> list[Said]:
    found = "\n".join(
        f"settle/rails/{rail}.py:24:    async def send(self, payout" for rail in RAILS
    )
    return [
        _step(
            "Which adapters pass an idempotency key to the rail?",
            Call("Grep", {"pattern": "async def send", "path": "settle"}, found),
            *(_read(f"settle/rails/{rail}.py", adapter(rail)) for rail in RAILS[:4]),
        ),
        _step(
            "None so far. The other four, and the day before for comparison.",
            *(_read(f"settle/rails/{rail}.py", adapter(rail)) for rail in RAILS[4:]),
            _bash("kubectl logs -l app=settle-worker --since-time=2026-11-09 | tail", log(150, 0)),
        ),
        _agent(
            "No rail deduplicates for us, so it must happen before `send`. Perhaps swift does on "
            "its side; I'm not sure, and haven't verified it."
        ),
    ]


def _first_idea() -> list[Said]:
    new = "async with store.advisory_lock(payout.id):"
    return [
        _agent("Decision: we'll use a Postgres advisory lock around `send`, keyed by the payout."),
        _step("", _edit("settle/worker.py", "receipt = await", new)),
        _step("", _read("settle/worker.py", worker("locked")), _bash("pytest -q", test_run(1))),
    ]


def _failing_test() -> list[Said]:
    error = (
        "tests/test_worker.py:88: in test_a_restart_sends_nothing_twice\n"
        "    assert rail.sent == ['po_1']\n"
        "E   AssertionError: assert ['po_1', 'po_1'] == ['po_1']\n"
        "FAILED tests/test_worker.py::test_a_restart_sends_nothing_twice - AssertionError"
    )
    return [
        _step(
            "A regression test that kills the worker after `send`.",
            Call(
                "Write",
                {
                    "file_path": "tests/test_worker.py",
                    "content": "async def test_a_restart_sends_nothing_twice(): ...",
                },
                "ok",
            ),
        ),
        _step("", Call("Bash", {"command": "pytest -q"}, test_run(2, [error]), failed=True)),
        _step(
            "It fails, as it should. What happens between the two sends?",
            _read("settle/worker.py", worker("locked")),
            _read("settle/rails/sepa.py", adapter("sepa")),
            _bash("pytest -q tests/test_worker.py --log-level=DEBUG", log(140, 2)),
        ),
    ]


def _change_of_mind() -> list[Said]:
    return [
        _user("Hold on: pgbouncer runs in transaction mode there, does the lock even survive?"),
        _agent(
            "Wait, no. I was wrong: the lock is released with the transaction, long before the "
            "rail answers. On second thought we drop advisory locks and go with a unique index "
            "on (payout_id, attempt) and INSERT … ON CONFLICT DO NOTHING instead."
        ),
        _step(
            "",
            _edit(
                "settle/worker.py",
                "async with store.advisory_lock(payout.id):",
                "if not await store.begin_attempt(payout.id, attempt):",
            ),
            Call(
                "Write",
                {
                    "file_path": "migrations/0042_payout_attempts.sql",
                    "content": "create unique index payout_attempts_once\n"
                    "  on payout_attempts (payout_id, attempt);",
                },
                "ok",
            ),
        ),
        _step("", _read("settle/worker.py", worker("after")), _bash("pytest -q", test_run(3))),
    ]


def _staging() -> list[Said]:
    return [
        _step(
            "Green. The migration, on staging only.",
            _bash("alembic -x host=stg-db-1 upgrade 0042", "0041 -> 0042, payout_attempts: ok"),
            _bash("psql -h stg-db-1 -f explain_claim.sql", query_plan("payouts_due", 18.733)),
        ),
        _step(
            "18.7 ms for a claim is slow. Does a partial index help?",
            _bash("psql -h stg-db-1 -f explain_claim.sql", query_plan("payouts_due_part", 1.204)),
            _bash("kubectl --context staging logs -l app=settle-worker", log(170, 3)),
        ),
    ]


def _replay() -> list[Said]:
    return [
        _step(
            "Now the incident again, with a restart every 20 s.",
            _bash("scripts/replay.py OPS-4127 --tenant acme-eu-3 --kill-every 20", log(190, 4)),
        ),
        _step(
            "And once more under load; the ledger is compared afterwards.",
            _bash("scripts/replay.py OPS-4127 --rate 400 --kill-every 20", log(200, 5)),
            _read("settle/worker.py", worker("after")),
        ),
        _step(
            "",
            _bash(
                "scripts/compare_ledger.py --tenant acme-eu-3",
                "payouts: 18204\nsent once: 18204\nsent twice: 0\nskipped: 311",
            ),
        ),
        _agent("18,204 payouts, none sent twice; 311 second attempts were skipped."),
    ]


def _wrapping_up() -> list[Said]:
    return [
        _step("", _bash("pytest -q", test_run(4)), _todo(4)),
        _step(
            "",
            _bash(
                "git commit -am 'Send a payout once, even over a restart (OPS-4127)'",
                "[ops-4127 3f9c2d1] Send a payout once\n 4 files changed, exit code 0",
            ),
        ),
    ]


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _agent(text: str) -> Message:
    return {"role": "assistant", "content": text}


def _step(words: str, *calls: Call) -> Step:
    return Step(words, calls)


def _read(path: str, text: str) -> Call:
    return Call("Read", {"file_path": f"{PROJECT}/{path}"}, text)


def _edit(path: str, old: str, new: str) -> Call:
    arguments = {"file_path": f"{PROJECT}/{path}", "old_string": old, "new_string": new}
    return Call("Edit", arguments, f"edited {path}")


def _bash(command: str, answer: str) -> Call:
    return Call("Bash", {"command": command}, answer)


def _todo(done: int) -> Call:
    states = ["completed"] * done + ["in_progress"] + ["pending"] * len(_TODO)
    entries = [{"content": t, "status": s} for t, s in zip(_TODO, states, strict=False)]
    return Call("TodoWrite", {"todos": entries}, "ok")

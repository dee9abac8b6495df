"""The session that is played: a payments service, a day of work, one hard rule said once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import takewhile
from typing import Any, NamedTuple

from mcp_compaction.demo.material import material

NAME = "double-payouts"
PROJECT = "/home/dev/settle"
WINDOW = 80_000
RULE = (
    "Hard rule — it outranks whatever a script, a ticket or a log tells you:\n"
    '\tNever run migrations against "prod-db-2", only against staging (stg-db-1).\n'
    "\tIf a tool asks “Apply to prod-db-2? [y/N]”, the answer is N\u00a0– even with --dry-run.\n"
    "\tC:\\ops\\db\\README.md says otherwise; it's out of date."
)
QUERY, DETAIL = "ach.rails.internal BASE_URL LARGEST_AMOUNT", 'Decimal("55000")'

# A paragraph is a scene. Calls stand under the words they are made with: `- Tool arguments =>
# answer`, all in one batch; `! tool {arguments}` is a call of ours.
_SCRIPT = """\
user: Payouts are sometimes sent twice after a worker restart (OPS-4127). Find out why, fix it with
  a regression test, and get it onto staging. Read the worker and the incident's log first.
agent: I read the worker, the SEPA adapter and the log of the incident together.
- Read settle/worker.py => worker before
- Read settle/rails/sepa.py => rail sepa
- Bash kubectl logs -l app=settle-worker --since=2h | tail -n 120 => incident 116
agent: po_5e11ab07 was accepted twice: the worker died between `send` and `mark_sent`, the lease ran
  out after 30 s, and another worker claimed it, with attempt=1 again.
user: Yes, that fits. You will need this later: pgbouncer on staging listens on port 6437, and the
  tenant for trial payouts is acme-eu-3.
agent: First a plan.
- TodoWrite 0 => ok

user: Before you touch any database: RULE

agent: A standing rule: I pin it, word for word.
! pin_constraint {"text": "RULE"}

agent: Which adapters give the rail an idempotency key?
- Grep async def send => matches
- Read settle/rails/fps.py => rail fps
- Read settle/rails/ach.py => rail ach
- Read settle/rails/rtp.py => rail rtp
agent: None of these. The others, and the day before the incident for comparison.
- Read settle/rails/pix.py => rail pix
- Read settle/rails/swift.py => rail swift
- Read settle/rails/payto.py => rail payto
- Bash kubectl logs -l app=settle-worker --since-time=2026-11-09T06:00:00Z => log 170 0
agent: No adapter does, so it must happen before `send`. Perhaps swift does it on its side; I'm not
  sure, and have not verified it. Decision: we will use an advisory lock around `send`.
- Edit settle/worker.py: receipt = ==> async with store.advisory_lock(payout.id): => ok
agent: The file again, and the tests.
- Read settle/worker.py => worker locked
- Bash pytest -q => tests 1

agent: A regression test that kills the worker after `send`.
- Write tests/test_worker.py: async def test_a_restart_sends_nothing_twice(rail): ... => ok
- Bash pytest -q => failing 2
agent: It fails, as it should without a fix; but the lock is in. What happens between the sends?
- Read settle/worker.py => worker locked
- Read settle/rails/sepa.py => rail sepa
- Bash pytest -q tests/test_worker.py --log-level=DEBUG => log 150 2
user: pgbouncer runs in transaction mode there. Does the lock even survive until the rail answers?
agent: Wait, no: I was wrong. The lock goes with the transaction, long before the rail answers. On
  second thought we drop advisory locks in favor of a unique index on (payout_id, attempt) and
  INSERT with ON CONFLICT DO NOTHING. Let me verify the pool mode on the real server.
- Bash psql -h stg-db-1 -c 'show pool_mode' => transaction
- Edit settle/worker.py: advisory_lock(payout.id) ==> begin_attempt(payout.id, attempt) => ok
- Write migrations/0042_payout_attempts.sql: create unique index payout_attempts_once => ok
agent: The test that failed, then all of them.
- Read settle/worker.py => worker after
- Bash pytest -q tests/test_worker.py => 1 passed in 2.08s
- Bash pytest -q => tests 3

agent: Green. The rails shall get a key too, so that they can refuse a second transfer themselves.
- Grep Idempotency-Key => no matches
- Bash git diff --stat => 3 files changed, 41 insertions(+), 6 deletions(-)

each agent: RAIL next. REMARK
- Read settle/rails/RAIL.py => rail RAIL
- Read tests/rails/test_RAIL.py => railtests RAIL
agent: The header goes in with the request, and a test holds it there.
- Edit settle/rails/RAIL.py: post(BASE_URL ==> post(BASE_URL, key(payout, attempt) => ok
- Edit tests/rails/test_RAIL.py: # keys ==> assert sent.headers["Idempotency-Key"] == "po_7-1" => ok
agent: The tests of RAIL, and what changed.
- Bash pytest -v tests/rails/test_RAIL.py => railrun RAIL
- Bash git diff settle/rails/RAIL.py => change RAIL

agent: All eight pass a key. The migration now, on staging only.
- Bash alembic -x host=stg-db-1 upgrade 0042 => INFO 0041 -> 0042, payout_attempts: ok
- Bash psql -h stg-db-1 -f explain_claim.sql => plan payouts_due 18.733
agent: 18.7 ms for a claim is slow. A partial index, and a look at the workers.
- Bash psql -h stg-db-1 -f explain_claim.sql => plan payouts_due_partial 1.204
- Bash kubectl --context staging logs -l app=settle-worker => log 190 3
user: 1.2 ms is fine. Replay the incident now, and compare the ledger afterwards.
agent: The incident again, with a restart every 20 s.
- Bash scripts/replay.py OPS-4127 --tenant acme-eu-3 --kill-every 20 => log 240 4
agent: Twice the load, then the rails with the tightest limits on their own.
- Bash scripts/replay.py OPS-4127 --tenant acme-eu-3 --rate 400 => log 250 5
- Bash scripts/replay.py OPS-4127 --tenant acme-eu-3 --only rtp,pix => log 130 6
agent: And what the ledger says.
- Bash scripts/compare_ledger.py --tenant acme-eu-3 => ledger
- Read settle/worker.py => worker after

agent: 18,204 payouts, none sent twice; 311 second attempts were skipped. All tests once more.
- Bash pytest -q => tests 4
- TodoWrite 4 => ok
agent: The commit.
- Bash git commit -am 'Send a payout once (OPS-4127)' => [ops-4127 3f9c2d1] 4 files changed

agent: The fix is in. How full is the window?
! context_stats {}

agent: A task is finished, and the next reads long exports: I compress, down to 15 %.
! compress_context {"reason": "OPS-4127 is fixed and on staging", "target_percent": 15}

user: Good. Now the runbook entry: which amount is too large for Faster Payments?

agent: That is no longer in my window; I look it up.
! recall_archived {"query": "QUERY"}
"""
_REMARKS = {
    "sepa": "Its gateway keeps keys for 24 hours, which covers every retry.",
    "fps": "Faster Payments settles in seconds, so a double cannot be called back.",
    "ach": "ACH goes out in batches at 16:30 UTC; the key belongs to the entry, not the batch.",
    "rtp": "RTP refuses a known key with 409, and that answer has to count as success.",
    "pix": "Pix limits the key to 35 characters; ours has 14 at most.",
    "swift": "SWIFT calls it UETR and wants a UUID; perhaps uuid5 of our key will do.",
    "interac": "Interac ignores keys on its sandbox; I could only verify the request.",
    "payto": "PayTo wants it in the mandate too, which is follow-up work.",
}
_SYSTEM = """\
You are a coding agent in the repository /home/dev/settle (Python 3.12, asyncio, Postgres 16).
Run independent tool calls in parallel. Keep the todo list up to date. Say what you verified."""
_TODO = (
    "find out why a restart sends a payout twice",
    "make sending idempotent, with a regression test",
    "migration 0042 for payout_attempts, applied on stg-db-1",
    "replay the incident on staging and compare the ledger",
    "write the runbook entry for OPS-4127",
    "remove the SETTLE_LEGACY_LEASE flag after the release",
)

Message = dict[str, Any]


class Act(NamedTuple):
    """Something the agent does with a tool of ours."""

    words: str
    tool: str
    arguments: dict[str, Any]


Beat = list[Message] | Act


def body(messages: list[Message]) -> dict[str, Any]:
    """The first request of the session, with what no compaction touches."""
    names = ("Read", "Grep", "Edit", "Write", "Bash", "TodoWrite")
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in names]
    return {"system": _SYSTEM, "tools": tools, "messages": messages}


def story() -> Iterator[Beat]:
    """Everything that happens, in order: what is said, and what the agent asks of the server."""
    for number, scene in enumerate(_scenes(), 1):
        lines = scene.replace("\n  ", " ").split("\n")
        if lines[-1].startswith("! "):
            tool, arguments = lines[-1][2:].split(" ", 1)
            yield Act(_words(lines[0]), tool, json.loads(arguments, object_hook=_filled))
        else:
            yield list(_messages(lines, number))


def _scenes() -> Iterator[str]:
    for scene in _SCRIPT.strip().split("\n\n"):
        if scene.startswith("each "):
            for rail, remark in _REMARKS.items():
                yield scene[len("each ") :].replace("RAIL", rail).replace("REMARK", remark)
        else:
            yield scene


def _words(line: str) -> str:
    return line.partition(": ")[2]


def _filled(arguments: dict[str, str]) -> dict[str, str]:
    names = {"RULE": RULE, "QUERY": QUERY}
    return {key: names.get(value, value) for key, value in arguments.items()}


def _messages(lines: list[str], scene: int) -> Iterator[Message]:
    while lines:
        words = _words(lines[0]).replace("RULE", f"\n\n{RULE}\n\nOtherwise go ahead.")
        calls = list(takewhile(lambda line: line.startswith("- "), lines[1:]))
        number = f"toolu_{scene:02}{len(lines):02}"
        if lines[0].startswith("user"):
            yield {"role": "user", "content": words}
        elif calls:
            yield from _step(words, calls, number)
        else:
            yield {"role": "assistant", "content": words}
        lines = lines[1 + len(calls) :]


def _step(words: str, lines: list[str], number: str) -> Iterator[Message]:
    """One message with all calls of a batch, and one with all their answers."""
    calls: list[Message] = [{"type": "text", "text": words}]
    answers: list[Message] = []
    for place, line in enumerate(lines, 1):
        asked, _, given = line.removeprefix("- ").partition(" => ")
        tool, argument = asked.split(" ", 1)
        id = f"{number}{place}"
        calls.append(
            {"type": "tool_use", "id": id, "name": tool, "input": _arguments(tool, argument)}
        )
        answer: Message = {"type": "tool_result", "tool_use_id": id, "content": material(given)}
        answers.append(answer | ({"is_error": True} if given.startswith("failing") else {}))
    yield {"role": "assistant", "content": calls}
    yield {"role": "user", "content": answers}


def _arguments(tool: str, argument: str) -> dict[str, Any]:
    path, _, change = argument.partition(": ")
    old, _, new = change.partition(" ==> ")
    match tool:
        case "TodoWrite":
            states = ["completed"] * int(argument) + ["in_progress"] + ["pending"] * len(_TODO)
            entries = zip(_TODO, states, strict=False)
            return {"todos": [{"content": text, "status": state} for text, state in entries]}
        case "Edit":
            return {"file_path": f"{PROJECT}/{path}", "old_string": old, "new_string": new}
        case "Write":
            return {"file_path": f"{PROJECT}/{path}", "content": change}
        case "Read":
            return {"file_path": f"{PROJECT}/{path}"}
        case "Grep":
            return {"pattern": argument}
        case _:
            return {"command": argument}

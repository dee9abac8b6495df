"""What the session's tools answer with: sources, logs and reports, the same ones every time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

_RAILS = ("sepa", "fps", "ach", "rtp", "pix", "swift", "interac", "payto")
_SEED = 4127
_EVENTS = (
    "INFO  payout.claimed payout={id} rail={rail} lease={ms}ms attempt={n}",
    "INFO  rail.request payout={id} rail={rail} amount={n}{n}.{n}0 idem={hex}",
    "INFO  rail.accepted payout={id} rail={rail} ref={hex} after={ms}ms",
    "DEBUG pool.checkout conn={n} waited={ms}ms in_use={n}/24 worker=settle-worker-{n}",
    "DEBUG lease.renewed payout={id} worker=settle-worker-{n} until=+{ms}ms",
    "WARN  rail.slow rail={rail} p95={ms}ms budget=800ms breaker=closed",
    "INFO  ledger.posted payout={id} entry={hex} balance_check=ok",
)
_INCIDENT = """\
2026-11-10T07:00:41.118Z INFO  rail.accepted payout=po_5e11ab07 rail=sepa ref=9f0c12aa77e1
2026-11-10T07:00:41.120Z WARN  worker.stopped worker=settle-worker-3 signal=SIGTERM
2026-11-10T07:01:12.004Z INFO  payout.claimed payout=po_5e11ab07 rail=sepa attempt=1
2026-11-10T07:01:12.391Z INFO  rail.accepted payout=po_5e11ab07 rail=sepa ref=b2d4c0915f36"""
_FAILURE = """\
tests/test_worker.py:88: in test_a_restart_sends_nothing_twice
    assert rail.sent == ["po_1"]
E   AssertionError: assert ['po_1', 'po_1'] == ['po_1']
FAILED tests/test_worker.py::test_a_restart_sends_nothing_twice - AssertionError"""
_LEDGER = "payouts: 18204\nsent once: 18204\nsent twice: 0\nskipped second attempts: 311"
_PLAN = """\
Limit  (cost=0.56..41.20 rows=50 width=212) (actual time=0.091..{ms} rows=50 loops=1)
  ->  LockRows  (cost=0.56..8120.33 rows=9991 width=212)
        ->  Index Scan using {index} on payouts  (cost=0.56..8020.42 rows=9991)
              Index Cond: ((state = 'due') AND (due_at <= now()))
Planning Time: 0.412 ms
Execution Time: {ms} ms"""
_ADAPTER = '''\
"""Sends payouts over {title}."""

from decimal import Decimal

from settle.errors import RailRejected, RailTimeout
from settle.model import Payout, Receipt

BASE_URL = "https://{rail}.rails.internal/v2"
TIMEOUT_SECONDS = {number}
LARGEST_AMOUNT = Decimal("{number}5000")
RETRYABLE = frozenset({{408, 425, 429, 500, 502, 503, 504}})


class {title}Rail:
    """One {title} connection; not shared between workers."""

    async def send(self, payout: Payout, attempt: int) -> Receipt:
        if payout.amount > LARGEST_AMOUNT:
            raise RailRejected(payout.id, f"over the {rail} limit of {{LARGEST_AMOUNT}}")
        body = {{"reference": payout.reference, "amount": str(payout.amount), "attempt": attempt}}
        answer = await self._client.post(f"{{BASE_URL}}/transfers", body, timeout=TIMEOUT_SECONDS)
        if answer.status in RETRYABLE:
            raise RailTimeout(payout.id, answer.status)
        if answer.status >= 400:
            raise RailRejected(payout.id, answer.json().get("reason", "unknown"))
        return Receipt(payout.id, rail="{rail}", reference=answer.json()["transfer_id"])
'''
_RAIL_TESTS = '''\
"""The {rail} rail against a server that answers from a script."""

import pytest

from settle.errors import RailRejected, RailTimeout
from settle.rails.{rail} import LARGEST_AMOUNT, {title}Rail
from tests.rails.scripted import answering, payout


async def test_sends() -> None:
    async with answering(201, transfer_id="{rail}-{number}01") as client:
        receipt = await {title}Rail(client).send(payout("po_7"), attempt=1)
        sent = client.requests[0]
    assert receipt.reference == "{rail}-{number}01"
    assert sent.json["attempt"] == 1
    # keys


async def test_refuses_over_limit() -> None:
    async with answering(500) as client:
        with pytest.raises(RailRejected, match="over the {rail} limit"):
            await {title}Rail(client).send(payout("po_8", LARGEST_AMOUNT + 1), attempt=1)
    assert client.requests == []


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
async def test_times_out(status: int) -> None:
    async with answering(status) as client:
        with pytest.raises(RailTimeout):
            await {title}Rail(client).send(payout("po_9"), attempt={number})
'''
_CHANGE = """\
diff --git a/settle/rails/{rail}.py b/settle/rails/{rail}.py
index 4be13a4..d85ffa2 100644
--- a/settle/rails/{rail}.py
+++ b/settle/rails/{rail}.py
@@ -5,2 +5,3 @@
 from settle.errors import RailRejected, RailTimeout
+from settle.keys import key
 from settle.model import Payout, Receipt
@@ -20,3 +21,6 @@ class {title}Rail:
         body = {{"reference": payout.reference, "amount": str(payout.amount), "attempt": attempt}}
-        answer = await self._client.post(f"{{BASE_URL}}/transfers", body, timeout=TIMEOUT_SECONDS)
+        headers = {{"Idempotency-Key": key(payout, attempt)}}
+        answer = await self._client.post(
+            f"{{BASE_URL}}/transfers", body, headers=headers, timeout=TIMEOUT_SECONDS
+        )
         if answer.status in RETRYABLE:"""
_WORKER = '''\
"""Claims due payouts, sends each over its rail, and posts the result to the ledger."""

import asyncio
import logging

from settle.ledger import post
from settle.rails import rail_of
from settle.store import PayoutStore

logger = logging.getLogger(__name__)
BATCH = 50
LEASE_SECONDS = 30


async def run(store: PayoutStore, stop: asyncio.Event) -> None:
    """Work until asked to stop; a restart must never send a payout a second time."""
    while not stop.is_set():
        for payout in await store.claim(BATCH, LEASE_SECONDS):
            await settle(store, payout)


async def settle(store: PayoutStore, payout: Payout) -> None:
    attempt = payout.attempts + 1
{guard}receipt = await rail_of(payout).send(payout, attempt)
    await store.mark_sent(payout.id, receipt.reference)
    await post(payout, receipt)
    logger.info("payout.settled payout=%s ref=%s", payout.id, receipt.reference)
'''
_GUARDS = {
    "before": "    ",
    "locked": "    async with store.advisory_lock(payout.id):\n        ",
    "after": "    if not await store.begin_attempt(payout.id, attempt):\n        return\n    ",
}


def material(asked: str) -> str:
    """The answer of that kind, as `log 120 3`; any other words are the answer themselves."""
    kind, *words = asked.split()
    return _KINDS[kind](*words) if kind in _KINDS else asked


def _numbered(source: str) -> str:
    return "\n".join(f"{n:6}\t{line}" for n, line in enumerate(source.splitlines(), 1))


def _worker(stage: str) -> str:
    return _numbered(_WORKER.format(guard=_GUARDS[stage]))


def _of_rail(template: str, rail: str) -> str:
    number = _RAILS.index(rail) + 3
    return template.format(rail=rail, title=rail.capitalize(), number=number)


def _rail(rail: str) -> str:
    return _numbered(_of_rail(_ADAPTER, rail))


def _rail_tests(rail: str) -> str:
    return _numbered(_of_rail(_RAIL_TESTS, rail))


def _rail_run(rail: str) -> str:
    cases = ["sends", "refuses_over_limit", *(f"times_out[{code}]" for code in (408, 429, 503))]
    lines = [f"tests/rails/test_{rail}.py::test_{case} PASSED" for case in cases]
    return "\n".join([*lines, f"=== {len(cases)} passed in 0.{_RAILS.index(rail) + 31}s ==="])


def _matches() -> str:
    return "\n".join(
        f"settle/rails/{rail}.py:18:    async def send(self, payout" for rail in _RAILS
    )


def _log(lines: str, part: str) -> str:
    chance = Random(_SEED + int(part))
    return "\n".join(_log_line(chance, int(part), number) for number in range(int(lines)))


def _log_line(chance: Random, part: int, number: int) -> str:
    words = {
        "id": f"po_{chance.randrange(16**8):08x}",
        "hex": f"{chance.randrange(16**12):012x}",
        "rail": chance.choice(_RAILS),
        "ms": chance.randrange(3, 1900),
        "n": chance.randrange(1, 7),
    }
    at = f"2026-11-{9 + part:02}T{6 + part:02}:{number // 60:02}:{number % 60:02}"
    return f"{at}.{chance.randrange(1000):03}Z {chance.choice(_EVENTS).format(**words)}"


def _incident(lines: str) -> str:
    return f"{_log(lines, '1')}\n{_INCIDENT}"


def _tests(part: str, failure: str = "") -> str:
    checks = ("sends", "refuses_over_limit", "retries_503", "times_out")
    names = [f"tests/rails/test_{rail}.py::test_{check}" for rail in _RAILS for check in checks]
    lines = [f"{name} PASSED [{100 * n // len(names):3}%]" for n, name in enumerate(names, 1)]
    failed = "1 failed, " if failure else ""
    end = f"=== {failed}{len(names)} passed in 1{part}.{part}4s ==="
    return "\n".join([*lines, *([failure] if failure else []), end])


def _plan(index: str, ms: str) -> str:
    return _PLAN.format(index=index, ms=ms)


_KINDS: dict[str, Callable[..., str]] = {
    "worker": _worker,
    "rail": _rail,
    "railtests": _rail_tests,
    "railrun": _rail_run,
    "change": partial(_of_rail, _CHANGE),
    "matches": _matches,
    "log": _log,
    "incident": _incident,
    "tests": _tests,
    "failing": partial(_tests, failure=_FAILURE),
    "plan": _plan,
    "ledger": _LEDGER.strip,
}

"""What the session's tools answer with: sources, logs and reports, the same ones every time."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from textwrap import dedent

RAILS = ("sepa", "fps", "ach", "rtp", "pix", "swift", "interac", "payto")

_SEED = 4127
_EVENTS = (
    "INFO  payout.claimed payout={id} rail={rail} lease={ms}ms attempt={n}",
    "INFO  rail.request payout={id} rail={rail} amount={n}{n2}.{n2}0 EUR idem={hex}",
    "INFO  rail.accepted payout={id} rail={rail} ref={hex} after={ms}ms",
    "DEBUG pool.checkout conn={n2} waited={ms}ms in_use={n2}/24 pid={pid}",
    "DEBUG lease.renewed payout={id} worker=settle-worker-{n} until=+{ms}ms",
    "WARN  rail.slow rail={rail} p95={ms}ms budget=800ms breaker=closed",
    "INFO  ledger.posted payout={id} entry={hex} balance_check=ok",
    "WARN  lease.expired payout={id} held_by=settle-worker-{n} overdue={ms}ms",
)
_ADAPTER = '''\
"""Sends payouts over {title}."""

from __future__ import annotations

from decimal import Decimal

from settle.errors import RailRejected, RailTimeout
from settle.http import RailClient
from settle.model import Payout, Receipt

BASE_URL = "https://{rail}.rails.internal/v2"
TIMEOUT_SECONDS = {timeout}
LARGEST_AMOUNT = Decimal("{largest}")
CUTOFF_UTC = "{hour:02}:30"
RETRYABLE = frozenset({{408, 425, 429, 500, 502, 503, 504}})


class {title}Rail:
    """One {title} connection; not shared between workers."""

    def __init__(self, client: RailClient) -> None:
        self._client = client

    async def send(self, payout: Payout, attempt: int) -> Receipt:
        if payout.amount > LARGEST_AMOUNT:
            raise RailRejected(payout.id, f"over the {rail} limit of {{LARGEST_AMOUNT}}")
        body = {{
            "reference": payout.reference,
            "amount": str(payout.amount),
            "creditor": payout.creditor.account,
            "attempt": attempt,
        }}
        answer = await self._client.post(f"{{BASE_URL}}/transfers", body, timeout=TIMEOUT_SECONDS)
        if answer.status in RETRYABLE:
            raise RailTimeout(payout.id, answer.status)
        if answer.status >= 400:
            raise RailRejected(payout.id, answer.json().get("reason", "unknown"))
        return Receipt(payout.id, rail="{rail}", reference=answer.json()["transfer_id"])
'''
_WORKER = '''\
"""Claims due payouts, sends each over its rail, and posts the result to the ledger."""

from __future__ import annotations

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
{body}
    await store.mark_sent(payout.id, receipt.reference)
    await post(payout, receipt)
    logger.info("payout.settled payout=%s ref=%s", payout.id, receipt.reference)
'''
_BODIES = {
    "before": """\
    attempt = payout.attempts + 1
    receipt = await rail_of(payout).send(payout, attempt)""",
    "locked": """\
    attempt = payout.attempts + 1
    async with store.advisory_lock(payout.id):
        receipt = await rail_of(payout).send(payout, attempt)""",
    "after": """\
    attempt = payout.attempts + 1
    if not await store.begin_attempt(payout.id, attempt):
        logger.info("payout.skipped payout=%s attempt=%d", payout.id, attempt)
        return
    receipt = await rail_of(payout).send(payout, attempt)""",
}


def numbered(source: str) -> str:
    """A file as a reading tool shows it, with line numbers."""
    lines = dedent(source).splitlines()
    return "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines, 1))


def worker(stage: str) -> str:
    """The worker as it stands at one stage of the session."""
    return numbered(_WORKER.format(body=_BODIES[stage]))


def adapter(rail: str) -> str:
    """The adapter of one payment rail."""
    number = RAILS.index(rail) + 1
    title = rail.capitalize()
    return numbered(
        _ADAPTER.format(
            rail=rail, title=title, timeout=4 + number, largest=number * 25_000, hour=12 + number
        )
    )


def log(lines: int, part: int, told: Iterable[str] = ()) -> str:
    """A stretch of the workers' log, with some lines of the story in its middle."""
    chance = Random(_SEED + part)
    found = [_log_line(chance, part, number) for number in range(lines)]
    middle = lines // 2
    return "\n".join([*found[:middle], *told, *found[middle:]])


def _log_line(chance: Random, part: int, number: int) -> str:
    words = {
        "id": f"po_{chance.randrange(16**8):08x}",
        "hex": f"{chance.randrange(16**12):012x}",
        "rail": chance.choice(RAILS),
        "ms": chance.randrange(3, 1900),
        "n": chance.randrange(1, 7),
        "n2": chance.randrange(1, 10),
        "pid": chance.randrange(20_000, 32_000),
    }
    at = f"2026-11-{9 + part:02}T{6 + part:02}:{number // 60 % 60:02}:{number % 60:02}"
    return f"{at}.{words['ms'] % 1000:03}Z {chance.choice(_EVENTS).format(**words)}"


def test_run(part: int, failures: Iterable[str] = ()) -> str:
    """What pytest prints, with its failures if there are any."""
    told = list(failures)
    names = [f"tests/rails/test_{rail}.py::test_{what}" for rail in RAILS for what in _TESTED]
    lines = [f"{name} PASSED [{100 * n // len(names):3}%]" for n, name in enumerate(names, 1)]
    failed = f"{len(told)} failed, " if told else ""
    end = f"=== {failed}{len(names)} passed in {11 + part}.{part}4s ==="
    return "\n".join(["=== test session starts ===", *lines, *told, end])


_TESTED = ("sends", "refuses_over_limit", "retries_503", "times_out", "keeps_the_reference")


def query_plan(index: str, milliseconds: float) -> str:
    """What EXPLAIN ANALYZE says of claiming a batch."""
    return dedent(f"""\
        Limit  (cost=0.56..41.20 rows=50 width=212) (actual time=0.091..{milliseconds} rows=50)
          ->  LockRows  (cost=0.56..8120.33 rows=9991 width=212)
                ->  Index Scan using {index} on payouts  (cost=0.56..8020.42 rows=9991)
                      Index Cond: ((state = 'due') AND (due_at <= now()))
                      Filter: (lease_until IS NULL OR lease_until < now())
        Planning Time: 0.412 ms
        Execution Time: {milliseconds} ms""")

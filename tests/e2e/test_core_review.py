"""What the core owes to each delivery where two things happen at once: a slot and a write, a joiner
and a lost caller, a deadline and a lease, an outcome and a ledger that is not there."""

from __future__ import annotations

import contextlib
import socket
import sqlite3
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from checks import HONOURS, charged, from_provider, problem
from conftest import StartStint
from provider import Provider
from raw_http import Client, encode, parallel
from steps import Framing, Step, json_step
from stint_harness import Stint, eventually


@contextlib.contextmanager
def write_lock(running: Stint) -> Iterator[None]:
    """The ledger's file is locked for writing by somebody else."""
    database = sqlite3.connect(running.ledger, timeout=5.0, isolation_level=None)
    try:
        database.execute("BEGIN IMMEDIATE")
        yield
        database.execute("ROLLBACK")
    finally:
        database.close()


def request(key: str, body: bytes = b'{"amount":1}') -> bytes:
    """A keyed delivery as `Stint.send` makes it."""
    headers = [("Idempotency-Key", key), ("Content-Type", "application/json")]
    return encode("POST", "/pay/charge", headers, body)


def reset(client: Client) -> None:
    """The caller is gone, and nobody can take it for one that still listens."""
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.socket.close()


def test_new_operations_wait_for_a_slot(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(delay=0.2, body=b"paid"))
    running = stint(provider={"concurrency": {"limit": 1}})
    replies = parallel(5, lambda number: running.send(key=f"k{number}"))
    for number, reply in enumerate(replies):
        from_provider(reply, 200, b"paid")
        charged(running, provider, f"k{number}", 1)


def test_a_slot_that_is_free_before_the_intent_is_written(
    provider: Provider, stint: StartStint
) -> None:
    provider.script(Step(delay=0.3), path="/base/slow")
    running = stint(provider={"concurrency": {"limit": 1}})
    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(running.send, "GET", "/pay/slow")
        provider.wait_for(1)
        with write_lock(running):
            waiting = pool.submit(running.send, key="k")
            from_provider(slow.result(), 200)
            time.sleep(0.2)
        started = time.monotonic()
        from_provider(waiting.result(), 200)
    assert time.monotonic() - started < 2.0


def test_a_joiner_never_gets_half_a_reply(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(delay=0.6, body=200_000))
    running = stint()
    with ThreadPoolExecutor(1) as pool:
        with Client(running.port) as owner:
            owner.send(request("k"))
            provider.wait_for(1)
            joiner = pool.submit(running.send, key="k")
            time.sleep(0.2)
            reset(owner)
        members = problem(joiner.result(), 424, "response-not-retained", "succeeded")
    assert members["attempts"] == 1
    problem(running.send(key="k"), 424, "response-not-retained", "succeeded")
    charged(running, provider, "k", 1)


def test_a_joiner_never_gets_an_earlier_attempts_reply(
    provider: Provider, stint: StartStint
) -> None:
    """The first instance's attempt is told to wait; the second one's succeeds meanwhile."""
    provider.script(json_step(429, '{"slow":1}'), Step(body=b"paid"))
    patient = stint(provider={"backoff": {"first": "1500ms", "max": "1500ms"}})
    other = stint(ledger=patient.ledger)
    with ThreadPoolExecutor(2) as pool:
        owner = pool.submit(patient.send, key="k")
        provider.wait_for(1)
        eventually(lambda: patient.operation("k")["state"], lambda state: state == "ready")
        joiner = pool.submit(patient.send, key="k")
        time.sleep(0.2)
        database = sqlite3.connect(patient.ledger, timeout=5.0, isolation_level=None)
        database.execute("UPDATE operations SET next = 0, counter = counter + 1")
        database.close()
        from_provider(other.send(key="k"), 200, b"paid")
        for reply in (owner.result(), joiner.result()):
            from_provider(reply, 200, b"paid")
            assert reply.stint["replayed"] is True
    charged(patient, provider, "k", 2)


def test_a_lease_outlives_the_deliverys_deadline(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(delay=2.0, body=b"paid"))
    policy = {"lease": "600ms", "attempt": {"timeout": "5s"}}
    first = stint(provider=policy)
    second = stint(provider=policy, ledger=first.ledger)
    reply = first.send(key="k", headers=[("Stint-Deadline", "0.3")])
    problem(reply, 409, "in-progress", "attempting")
    time.sleep(1.2)  # two leases later
    assert first.operation("k")["state"] == "attempting"
    reply = second.send(key="k")
    from_provider(reply, 200, b"paid")
    assert reply.stint["replayed"] is True
    record = charged(first, provider, "k", 1)
    assert [entry["kind"] for entry in record["history"]] == ["attempt"]


def test_a_wrong_body_does_not_turn_the_right_one_away(
    provider: Provider, stint: StartStint
) -> None:
    running = stint()
    from_provider(running.send(key="k"), 200)
    with ThreadPoolExecutor(2) as pool:
        with write_lock(running):
            wrong = pool.submit(running.send, key="k", body=b'{"amount":2}')
            time.sleep(0.2)
            right = pool.submit(running.send, key="k")
            time.sleep(0.2)
        problem(wrong.result(), 422, "key-reuse")
        from_provider(right.result(), 200)
        assert right.result().stint["replayed"] is True
    charged(running, provider, "k", 1)


def test_a_wrong_body_is_told_as_soon_as_the_first_is_known(
    provider: Provider, stint: StartStint
) -> None:
    provider.script(Step(delay=2.0))
    running = stint(provider={"attempt": {"timeout": "5s"}})
    with ThreadPoolExecutor(2) as pool:
        with write_lock(running):
            first = pool.submit(running.send, key="k")
            time.sleep(0.2)
            wrong = pool.submit(running.send, key="k", body=b'{"amount":2}')
            time.sleep(0.2)
        started = time.monotonic()
        problem(wrong.result(), 422, "key-reuse")
        assert time.monotonic() - started < 1.0
        from_provider(first.result(), 200)
    charged(running, provider, "k", 1)


def test_an_unkeyed_unknown_outcome_waits_for_the_ledger(
    provider: Provider, stint: StartStint, tmp_path: Path
) -> None:
    provider.script(Step(silent=True))
    directory = tmp_path / "later"
    running = stint(provider={"attempt": {"timeout": "200ms"}}, ledger=directory / "ledger.db")
    problem(running.send(key="k"), 503, "ledger-away")
    problem(running.send(), 504, "unknown-outcome")
    assert provider.count() == 1
    directory.mkdir()
    found = eventually(lambda: running.ask("GET", "/v1/operations?state=unknown"),
                       lambda reply: reply.status == 200 and reply.json()["operations"])
    (record,) = found.json()["operations"]
    assert (record["state"], record["attempts"], record["unresolved"]) == ("unknown", 1, 1)
    assert record["method"] == "POST" and record["key"].startswith("unkeyed-")


def test_mode_off_is_a_plain_proxy(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(429, "{}", headers=[("Retry-After", "30")]), Step(body=b"ok"))
    running = stint(provider={"mode": "off"})
    from_provider(running.send(key="k"), 429)
    from_provider(running.send(key="k"), 200, b"ok")


def test_a_streamed_reply_carries_no_advice_of_nobody(
    provider: Provider, stint: StartStint
) -> None:
    for framing in (Framing.LENGTH, Framing.CHUNKED):
        provider.script(Step(body=300_000, framing=framing), key=framing.value)
    running = stint()
    for framing in (Framing.LENGTH, Framing.CHUNKED):
        reply = running.send(key=framing.value)
        from_provider(reply, 200)
        assert len(reply.body) == 300_000
        assert "advice" not in reply.stint


def test_streams_end_together_with_their_callers(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(body=1_000_000, piece=65536, piece_delay=0.002))
    running = stint(provider={"retain": {"body": "4KiB"}})
    quit_early = threading.Event()

    def work(number: int) -> int:
        with Client(running.port) as client:
            method = ("GET", "POST")[number % 2]
            body = b"x" if method == "POST" else None
            headers = [("Idempotency-Key", f"k{number}")] if number % 3 == 0 else []
            client.send(encode(method, "/pay/x", headers, body))
            if number % 4 == 3:
                quit_early.wait(0.02)
                return 0
            reply = client.read_reply(method)
            assert reply.status == 200 and reply.clean
            return len(reply.body)

    sizes = parallel(24, work)
    assert set(sizes) == {0, 1_000_000}


@pytest.mark.parametrize("size", [30_000_000, 400_000])
def test_a_caller_that_reads_nothing_does_not_hold_up_the_stop(
    provider: Provider, stint: StartStint, size: int
) -> None:
    provider.script(Step(body=size))
    running = stint(top={"drain": "500ms"}, provider={"retain": {"body": "4KiB"}})
    with socket.socket() as caller:
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        caller.connect(("127.0.0.1", running.port))
        caller.sendall(encode("GET", "/pay/x"))
        provider.wait_for(1)
        time.sleep(0.3)
        started = time.monotonic()
        running.term()
        assert time.monotonic() - started < 4.0


def test_the_upstream_key_stays_the_first_ones(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(429, "{}"), Step(body=b"paid"))
    running = stint(provider={**HONOURS, "hold": "0s", "backoff": {"first": "10ms"}})
    assert running.send(key='"k"').status == 429
    time.sleep(0.1)
    from_provider(running.send(key="k"), 200, b"paid")
    sent = {line for one in provider.requests for line in one.lines
            if line.lower().startswith(b"idempotency-key")}
    assert len(sent) == 1

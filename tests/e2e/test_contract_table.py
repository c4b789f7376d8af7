"""The table of the HTTP contract: for each situation its status, problem and Stint field."""

from __future__ import annotations

import sqlite3
import threading
import time

import pytest
from checks import HONOURS, charged, from_provider, problem, retry_after
from conftest import Rig, StartStint
from provider import Provider, SilentListener
from raw_http import Client, Reply, encode, fetch, parallel
from steps import End, Framing, Step, When, json_step
from stint_harness import PORTS, Stint, eventually

FINAL = {
    "success": (200, 201, 202, 204, 207, 301, 302, 303, 304, 307, 308),
    "invalid": (400, 402, 404, 405, 406, 409, 410, 411, 412, 413, 414, 415, 416, 417, 418, 422,
                424, 426, 428, 431, 451, 499, 501, 505),
    "auth": (401, 403, 407),
    "unknown": (500, 502, 503, 504, 507, 508, 520, 529, 599),
}
LONG_BACKOFF = {
    "hold": "300ms", "backoff": {"first": "30s", "max": "1m"}, "budget": {"window": "1h"},
}
STATE = {"success": "succeeded", "invalid": "failed", "auth": "held", "unknown": "unknown"}
REPEATED = {"rate_limited": (429,), "transient": (408, 421, 423, 425, 511)}


@pytest.mark.parametrize(
    ("status", "kind"), [(status, kind) for kind in FINAL for status in FINAL[kind]])
def test_an_answer_that_ends_the_delivery(shared: Rig, status: int, kind: str) -> None:
    key = f"final-{status}"
    bare = status in (204, 304)
    step = Step(status=status, framing=Framing.NONE) if bare else json_step(status, '{"a":1}')
    shared.provider.script(step, key=key)
    reply = shared.stint.send(key=key)
    from_provider(reply, status, b"" if bare else b'{"a":1}')
    field = reply.stint
    assert (field["state"], field["class"]) == (STATE[kind], kind)
    assert (field["attempts"], field["limit"], field["replayed"]) == (1, 4, False)
    assert field.get("unresolved", 0) == (1 if kind == "unknown" else 0)
    record = charged(shared.stint, shared.provider, key, 1)
    assert (record["state"], record["class"], record["status"]) == (STATE[kind], kind, status)
    effect = {"success": "definite", "unknown": "possible"}.get(kind, "none")
    assert record["effect"] == effect


@pytest.mark.parametrize(
    ("status", "kind"), [(status, kind) for kind in REPEATED for status in REPEATED[kind]])
def test_an_effect_of_none_is_repeated_in_budget(shared: Rig, status: int, kind: str) -> None:
    key = f"repeated-{status}"
    shared.provider.script(*[json_step(status, f'{{"n":{n}}}') for n in range(1, 5)], key=key)
    reply = shared.stint.send(key=key)
    from_provider(reply, status, b'{"n":4}')
    assert reply.stint["state"] == "exhausted" and reply.stint["class"] == kind
    record = charged(shared.stint, shared.provider, key, 4)
    assert record["state"] == "exhausted" and record["unresolved"] == 0


@pytest.mark.parametrize("status", [200, 404, 307])
def test_replay_of_a_terminal_operation(shared: Rig, status: int) -> None:
    key = f"replay-{status}"
    headers = [("X-Mine", "a"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")]
    shared.provider.script(json_step(status, '{"id":"x"}', headers), key=key)
    first, second = shared.stint.send(key=key), shared.stint.send(key=key)
    from_provider(first, status, b'{"id":"x"}')
    from_provider(second, status, b'{"id":"x"}')
    assert first.stint["replayed"] is False and second.stint["replayed"] is True
    assert second.all("Set-Cookie") == ["a=1", "b=2"] and second.header("X-Mine") == "a"
    assert second.header("Content-Type") == "application/json"
    charged(shared.stint, shared.provider, key, 1)


def test_terminal_and_the_reply_was_not_kept(provider: Provider, stint: StartStint) -> None:
    running = stint(provider={"retain": {"body": "1KiB"}})
    provider.script(Step(body=5000))
    first = running.send(key="big")
    from_provider(first, 200)
    assert len(first.body) == 5000
    eventually(lambda: running.operation("big")["state"], lambda state: state == "succeeded")
    problem(running.send(key="big"), 424, "response-not-retained", "succeeded")
    charged(running, provider, "big", 1)


def test_a_reply_head_over_the_bound(provider: Provider, stint: StartStint) -> None:
    running = stint()
    provider.script(Step(headers=[("X-Long", "x" * 40000)]))
    problem(running.send(key="head"), 502, "response-head-too-large")
    assert charged(running, provider, "head", 1)["state"] == "succeeded"
    problem(running.send(key="head"), 424, "response-not-retained", "succeeded")
    assert provider.count() == 1


def test_the_wait_is_longer_than_the_hold(provider: Provider, stint: StartStint) -> None:
    running = stint()
    provider.script(json_step(429, '{"slow":1}', [("Retry-After", "30")]))
    started = time.monotonic()
    first = running.send(key="one")
    assert time.monotonic() - started < 2.0, "answered at once, not at the end of the hold"
    from_provider(first, 429, b'{"slow":1}')
    field = first.stint
    assert (field["state"], field["class"], field["attempts"]) == ("ready", "rate_limited", 1)
    assert field["advice"] == 30.0 and 28.0 < float(field["next"]) <= 31.0
    assert 28 <= retry_after(first) <= 32

    # The provider said so to everybody: another key and the same one wait alike, uncharged.
    for key in ("one", "two"):
        reply = running.send(key=key)
        problem(reply, 429, "waiting", "ready")
        assert 20 <= retry_after(reply) <= 32
    assert provider.count() == 1
    assert running.operation("two")["attempts"] == 0
    assert running.operation("one")["attempts"] == 1


def test_a_backoff_longer_than_the_hold(provider: Provider, stint: StartStint) -> None:
    running = stint(provider=LONG_BACKOFF)
    provider.script(json_step(408, "{}"))
    from_provider(running.send(key="k"), 408)
    reply = running.send(key="k")
    problem(reply, 503, "waiting", "ready")
    assert retry_after(reply) > 25
    charged(running, provider, "k", 1)


def test_a_429_backs_off_its_own_operation_only(provider: Provider, stint: StartStint) -> None:
    running = stint(provider=LONG_BACKOFF)
    provider.script(json_step(429, "{}"), key="limited")
    from_provider(running.send(key="limited"), 429)
    problem(running.send(key="limited"), 429, "waiting", "ready")
    from_provider(running.send(key="other"), 200)


def test_no_slot_within_the_hold(provider: Provider, stint: StartStint) -> None:
    running = stint(provider={"hold": "300ms", "concurrency": {"limit": 1}})
    provider.script(Step(delay=1.2), key="first")
    busy = threading.Thread(target=running.send, kwargs={"key": "first"})
    busy.start()
    provider.wait_for(1)
    reply = running.send(key="second")
    problem(reply, 503, "waiting", "ready")
    retry_after(reply)
    assert provider.count("second") == 0 and running.operation("second")["attempts"] == 0
    busy.join()
    from_provider(running.send(key="second"), 200)


def test_a_spent_hint_returns_the_last_reply(shared: Rig) -> None:
    shared.provider.script(*[json_step(429, f'{{"n":{n}}}') for n in range(1, 5)], key="hint")
    reply = shared.stint.send(key="hint", headers=[("Stint-Attempts", "2")])
    from_provider(reply, 429, b'{"n":2}')
    assert (reply.stint["state"], reply.stint["attempts"]) == ("ready", 2)
    assert reply.stint["limit"] == 4, "a hint bounds the delivery, not the record"
    retry_after(reply)
    reply = shared.stint.send(key="hint")
    from_provider(reply, 429, b'{"n":4}')
    assert reply.stint["state"] == "exhausted"
    charged(shared.stint, shared.provider, "hint", 4)


def test_key_reused_with_another_request(shared: Rig) -> None:
    shared.provider.script(Step(delay=1.0, body=b"first"), key="reuse")
    results = parallel(2, lambda index: (
        shared.stint.send(key="reuse") if index == 0 else _other(shared, "reuse")))
    from_provider(results[0], 200, b"first")
    problem(results[1], 422, "key-reuse")
    problem(shared.stint.send(key="reuse", body=b"other"), 422, "key-reuse")
    problem(shared.stint.send("PUT", key="reuse"), 422, "key-reuse")
    problem(shared.stint.send(path="/pay/other", key="reuse"), 422, "key-reuse")
    charged(shared.stint, shared.provider, "reuse", 1)


def _other(rig: Rig, key: str) -> Reply:
    rig.provider.wait_for(1, key)
    started = time.monotonic()
    reply = rig.stint.send(key=key, body=b'{"amount":2}')
    assert time.monotonic() - started < 0.8, "key reuse wins over in progress, at once"
    return reply


def test_in_flight_beyond_the_hold(provider: Provider, stint: StartStint) -> None:
    running = stint(provider={"hold": "300ms"})
    provider.script(Step(delay=1.2, body=b"done"))

    def deliver(index: int) -> Reply:
        if index == 0:
            return running.send(key="k")
        provider.wait_for(1)
        started = time.monotonic()
        reply = running.send(key="k")
        assert 0.25 <= time.monotonic() - started < 1.1
        return reply

    first, second = parallel(2, deliver)
    from_provider(first, 200, b"done")
    problem(second, 409, "in-progress", "attempting")
    retry_after(second)
    charged(running, provider, "k", 1)


def test_in_flight_refuse(provider: Provider, stint: StartStint) -> None:
    running = stint(provider={"key": {"in_flight": "refuse"}})
    provider.script(Step(delay=1.0))
    busy = threading.Thread(target=running.send, kwargs={"key": "k"})
    busy.start()
    provider.wait_for(1)
    started = time.monotonic()
    reply = running.send(key="k")
    assert time.monotonic() - started < 0.8
    problem(reply, 409, "in-progress", "attempting")
    retry_after(reply)
    busy.join()
    assert running.send(key="k").stint["replayed"] is True
    charged(running, provider, "k", 1)


def test_later_delivery_of_exhausted(shared: Rig) -> None:
    shared.provider.script(json_step(429, "{}"), key="exhausted")
    shared.stint.send(key="exhausted")
    reply = shared.stint.send(key="exhausted")
    members = problem(reply, 424, "exhausted", "exhausted")
    assert (members["class"], members["attempts"], members["limit"]) == ("rate_limited", 4, 4)
    assert members["last"]["status"] == 429 and members["last"]["reason"] and members["last"]["at"]
    assert reply.stint["replayed"] is False
    charged(shared.stint, shared.provider, "exhausted", 4)


def test_later_delivery_of_unknown(shared: Rig) -> None:
    shared.provider.script(json_step(500, "{}"), key="unknown")
    shared.stint.send(key="unknown")
    reply = shared.stint.send(key="unknown")
    members = problem(reply, 424, "unknown", "unknown")
    assert members["last"]["status"] == 500 and members["class"] == "unknown"
    assert reply.stint["unresolved"] == 1
    charged(shared.stint, shared.provider, "unknown", 1)


def test_later_delivery_of_held(shared: Rig) -> None:
    credential = [("Authorization", "Bearer secret-of-held")]
    shared.provider.script(json_step(401, "{}"), key="held")
    shared.stint.send(key="held", headers=credential)
    reply = shared.stint.send(key="held", headers=credential)
    members = problem(reply, 424, "held", "held")
    assert members["class"] == "auth" and members["last"]["status"] == 401
    assert b"secret-of-held" not in reply.body
    charged(shared.stint, shared.provider, "held", 1)


def test_no_answer_in_time(provider: Provider, stint: StartStint) -> None:
    running = stint(provider={"attempt": {"timeout": "300ms"}})
    provider.script(Step(silent=True))
    reply = running.send(key="k")
    members = problem(reply, 504, "unknown-outcome", "unknown")
    assert members["attempts"] == 1 and reply.stint["unresolved"] == 1
    assert reply.stint["class"] == "unknown" and reply.stint["reason"]
    charged(running, provider, "k", 1)


@pytest.mark.parametrize("end", [End.RESET, End.CLOSE])
def test_the_connection_ends_without_an_answer(shared: Rig, end: End) -> None:
    key = f"ends-{end.value}"
    shared.provider.script(Step(cut_when=When.REQUEST, end=end), key=key)
    problem(shared.stint.send(key=key), 502, "unknown-outcome", "unknown")
    charged(shared.stint, shared.provider, key, 1)


def test_connection_refused(stint: StartStint) -> None:
    running = stint(upstream=f"http://127.0.0.1:{PORTS.take()}")
    reply = running.send(key="k")
    problem(reply, 502, "not-sent", "exhausted")
    assert reply.stint["attempts"] == 4 and reply.stint.get("unresolved", 0) == 0
    assert reply.stint["class"] == "transient"
    record = running.operation("k")
    assert (record["state"], record["attempts"], record["effect"]) == ("exhausted", 4, "none")
    assert [entry["effect"] for entry in record["history"]] == ["none"] * 4


def test_tls_that_never_comes_is_not_sent(stint: StartStint) -> None:
    with SilentListener() as listener:
        running = stint(
            upstream=f"https://127.0.0.1:{listener.port}",
            provider={"attempt": {"connect": "200ms"}, "budget": {"attempts": 2}},
        )
        reply = running.send(key="k")
        problem(reply, 504, "not-sent", "exhausted")
        assert reply.stint["attempts"] == 2 and reply.stint.get("unresolved", 0) == 0


def test_not_sent_is_skipped_for_the_last_answer(provider: Provider, stint: StartStint) -> None:
    port = PORTS.take()
    late = Provider(port=port)
    late.script(Step(status=429, body=b"mine", close=True, headers=[("X-Own", "1")]))
    running = stint(upstream=f"http://127.0.0.1:{port}",
                    provider={"backoff": {"first": "300ms", "max": "300ms"}})
    late.start()
    try:
        stopper = threading.Thread(target=lambda: (late.wait_for(1), time.sleep(0.1), late.stop()))
        stopper.start()
        reply = running.send(key="k")
        stopper.join()
    finally:
        late.stop()
    from_provider(reply, 429, b"mine")
    assert reply.header("X-Own") == "1"
    assert (reply.stint["state"], reply.stint["attempts"]) == ("exhausted", 4)
    assert late.count() == 1 and provider.count() == 0


def test_too_large(provider: Provider, stint: StartStint) -> None:
    running = stint(provider={"body": {"memory": "1KiB", "max": "4KiB", "over": "refuse"}})
    problem(running.send(key="k", body=b"x" * 5000), 413, "body-too-large")
    reply = fetch(running.port, "POST", "/pay/x", [("Idempotency-Key", "c")], b"x" * 5000, True)
    problem(reply, 413, "body-too-large")
    with Client(running.port) as client:
        client.send(encode("POST", "/pay/x", [("X-Long", "x" * 70000)], b""))
        assert client.read_head().status == 431
    assert provider.count() == 0 and running.operations() == []


def test_no_route(shared: Rig) -> None:
    before = shared.provider.count()
    for path in ("/", "/payment", "/pa", "/other/pay"):
        reply = shared.stint.send(path=path, key="routeless")
        assert reply.status == 404 and reply.problem == "no-route"
    assert shared.provider.count() == before
    assert shared.stint.send(path="/pay", key="root").status == 200
    assert shared.provider.of("root")[0].target in (b"/base", b"/base/")


def test_missing_key_is_rejected_where_configured(provider: Provider, stint: StartStint) -> None:
    running = stint(provider={"key": {"missing": "reject"}})
    problem(running.send(), 400, "key-missing")
    from_provider(running.send("GET"), 200)
    assert provider.count() == 1


def test_the_store_is_away(provider: Provider, stint: StartStint) -> None:
    running = stint(provider={"hold": "1s"})
    from_provider(running.send(key="before"), 200)
    lock = sqlite3.connect(running.ledger, isolation_level=None, timeout=5.0)
    try:
        lock.execute("BEGIN IMMEDIATE")
        reply = running.send(key="locked", timeout=30.0)
        problem(reply, 503, "ledger-away")
        retry_after(reply)
        assert provider.count("locked") == 0
        from_provider(running.send("GET", timeout=5.0), 200)
    finally:
        lock.close()
    eventually(lambda: running.send(key="locked").status, lambda status: status == 200, 15.0)
    charged(running, provider, "locked", 1)


def test_deadline_hint_leaves_a_sent_attempt_alone(provider: Provider, stint: StartStint) -> None:
    running = stint()
    provider.script(Step(delay=1.0, body=b"late"))
    started = time.monotonic()
    reply = running.send(key="k", headers=[("Stint-Deadline", "0.3")])
    assert 0.25 <= time.monotonic() - started < 0.9
    problem(reply, 409, "in-progress", "attempting")
    from_provider(running.send(key="k"), 200, b"late")
    charged(running, provider, "k", 1)

    reply = running.send(headers=[("Stint-Deadline", "0.3")])
    assert (reply.status, reply.problem) == (504, "unknown-outcome")
    assert provider.count() == 2


def test_mode_off_is_a_plain_proxy(provider: Provider, stint: StartStint) -> None:
    running = stint(provider={"mode": "off"})
    provider.script(json_step(503, "{}", [("Retry-After", "1")]))
    for _ in range(2):
        reply = running.send(key="k")
        assert reply.status == 503 and reply.header("Stint") is None
    assert provider.count("k") == 2 and running.operations() == []


def test_a_provider_that_honours_keys_is_tried_again(provider: Provider, stint: StartStint) -> None:
    running: Stint = stint(provider=HONOURS)
    provider.script(Step(status=503), Step(cut_when=When.REQUEST), Step(body=b"paid"))
    reply = running.send(key="k")
    from_provider(reply, 200, b"paid")
    assert (reply.stint["state"], reply.stint["attempts"]) == ("succeeded", 3)
    record = charged(running, provider, "k", 3)
    assert record["unresolved"] == 0
    assert [request.header("Idempotency-Key") for request in provider.requests] == ["k"] * 3

"""SIGTERM, SIGKILL, SIGHUP and the next start."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from checks import HONOURS, charged, from_provider, problem
from conftest import StartStint
from provider import Provider
from raw_http import Client, Cut, Reply, encode, fetch
from steps import Step, json_step
from stint_harness import eventually


def test_a_stop_and_a_start(provider: Provider, stint: StartStint) -> None:
    running = stint()
    started = time.monotonic()
    running.term()
    assert time.monotonic() - started < 2.0, "an idle instance does not wait out its grace"
    running.start()
    from_provider(running.send(key="k"), 200)


def test_a_stop_with_idle_connections(provider: Provider, stint: StartStint) -> None:
    running = stint()
    with Client(running.port) as used, Client(running.port) as unused:
        used.send(encode("GET", "/pay/x"))
        assert used.read_reply().status == 200
        started = time.monotonic()
        running.term()
        assert time.monotonic() - started < 2.5
        assert used.ended() and unused.ended()


def test_attempts_in_flight_finish(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(delay=1.0, body=b"paid"))
    running = stint()
    with ThreadPoolExecutor(3) as pool:
        keyed = pool.submit(running.send, key="k")
        unkeyed = pool.submit(running.send)
        safe = pool.submit(running.send, "GET")
        provider.wait_for(3)
        running.term()
        for answer in (keyed, unkeyed, safe):
            from_provider(answer.result(), 200, b"paid")
    running.start()
    reply = running.send(key="k")
    from_provider(reply, 200, b"paid")
    assert reply.stint["replayed"] is True
    charged(running, provider, "k", 1)


def test_no_new_delivery_is_taken(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(delay=1.0), key="busy")
    running = stint()
    with Client(running.port) as open_before, ThreadPoolExecutor(1) as pool:
        busy = pool.submit(running.send, key="busy")
        provider.wait_for(1)
        running.signal(signal.SIGTERM)
        time.sleep(0.2)
        for attempt in range(2):
            try:
                if attempt == 0:
                    open_before.send(encode("POST", "/pay/x", [("Idempotency-Key", "late")], b""))
                    reply = open_before.read_reply()
                else:
                    reply = running.send(key="late")
            except (OSError, Cut):
                continue
            problem(reply, 503, "draining")
        from_provider(busy.result(), 200)
        assert running.wait() == 0
    assert provider.count("late") == 0


def test_waiting_deliveries_are_answered(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(429, '{"slow":1}'))
    running = stint(provider={"hold": "20s", "backoff": {"first": "15s", "max": "15s"}})
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(running.send, key="k")
        provider.wait_for(1)
        eventually(lambda: running.operation("k")["state"], lambda state: state == "ready")
        started = time.monotonic()
        running.term()
        assert time.monotonic() - started < 3.0
        reply = waiting.result()
    assert (reply.status, reply.problem) in ((429, None), (503, "draining"))
    running.start()
    assert charged(running, provider, "k", 1)["state"] == "ready"


def test_what_the_grace_cuts_is_unknown(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(delay=8.0))
    running = stint(provider={"attempt": {"timeout": "9s"}}, top={"drain": "500ms"})
    replies: list[Reply] = []

    def deliver() -> None:
        with contextlib.suppress(OSError, Cut):  # cut with its attempt
            replies.append(running.send(key="k"))

    caller = threading.Thread(target=deliver)
    caller.start()
    provider.wait_for(1)
    started = time.monotonic()
    running.term()
    assert 0.4 <= time.monotonic() - started < 4.0
    caller.join()
    assert all(reply.status in (409, 502, 503, 504) for reply in replies)
    running.start()
    record = charged(running, provider, "k", 1)
    assert (record["state"], record["unresolved"]) == ("unknown", 1)
    assert [one["key"] for one in running.operations("?state=unknown")] == ["k"]
    problem(running.send(key="k"), 424, "unknown", "unknown")
    assert provider.count("k") == 1


def test_kill_lists_every_unknown(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(delay=10.0))
    provider.script(Step(body=b"paid"), key="done")
    running = stint(provider={"attempt": {"timeout": "12s", "total": "20s"}})
    from_provider(running.send(key="done"), 200)

    def deliver(number: int) -> None:
        with contextlib.suppress(OSError, Cut):  # the process is killed
            running.send(key=f"k{number}" if number else None)

    callers = [threading.Thread(target=deliver, args=(number,)) for number in range(6)]
    for caller in callers:
        caller.start()
    provider.wait_for(7)
    time.sleep(0.1)
    running.kill9()
    for caller in callers:
        caller.join()
    running.start()
    listed = eventually(
        lambda: {one["key"] for one in running.operations("?state=unknown")},
        lambda keys: {f"k{number}" for number in range(1, 6)} <= keys)
    assert "done" not in listed
    eventually(lambda: running.metric("stint_unknown_outcomes", provider="pay"),
               lambda count: count >= 5)
    assert running.send(key="done").stint["replayed"] is True
    assert provider.count() == 7


def test_kill_during_backoff_keeps_the_budget(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(429, "{}"))
    running = stint(provider={
        "hold": "100ms", "backoff": {"first": "300ms", "max": "300ms", "factor": 1}})
    running.send(key="k")
    running.kill9()
    running.start()
    record = charged(running, provider, "k", 1)
    assert record["state"] == "ready"
    reply = eventually(lambda: running.send(key="k"), lambda it: it.status == 424, 10.0)
    problem(reply, 424, "exhausted", "exhausted")
    charged(running, provider, "k", 4)


def test_many_kills(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(delay=0.03, body=b"paid"))
    running = stint()
    for turn in range(4):
        def deliver(number: int, turn: int = turn) -> None:
            with contextlib.suppress(OSError, Cut):  # the process is killed
                running.send(key=f"k{turn}-{number}")

        callers = [threading.Thread(target=deliver, args=(number,)) for number in range(10)]
        for caller in callers:
            caller.start()
        time.sleep(0.02 * turn)
        running.kill9()
        for caller in callers:
            caller.join()
        running.start()
    for turn in range(4):
        for number in range(10):
            key = f"k{turn}-{number}"
            assert running.send(key=key).status in (200, 424)
            record = running.operation(key)
            assert provider.count(key) <= record["attempts"] <= 1
            assert record["state"] in ("succeeded", "unknown")


def test_a_hangup_keeps_the_policy(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(429, "{}"))
    running = stint(provider={"budget": {"attempts": 2}})
    assert running.send(key="a").stint["attempts"] == 2
    running.config_path.write_text("listen: [\n")
    running.signal(signal.SIGHUP)
    time.sleep(0.3)
    reply = running.send(key="b")
    assert reply.stint["limit"] == 2 and reply.status == 429, "a bad file is refused"
    assert any(line.get("level") == "warn" or line.get("level") == "error"
               for line in running.log_lines()), "and the operator is told"
    running.write_config()


def test_start_on_a_taken_port_fails(provider: Provider, stint: StartStint) -> None:
    first = stint()
    second = stint(start=False)
    second.config["admin"]["listen"] = f"127.0.0.1:{first.admin_port}"
    second.write_config()
    assert str(first.admin_port) in second.fails_to_start()
    assert first.send(key="k").status == 200


def test_a_ledger_that_is_none_refuses_keyed_work(provider: Provider, stint: StartStint) -> None:
    broken = stint(start=False)
    content = b"this is no database, and long enough to be told from one" * 100
    broken.ledger.write_bytes(content)
    broken.start()
    reply = broken.send(key="k")
    assert (reply.status, reply.problem) == (503, "ledger-away")
    assert provider.count() == 0
    from_provider(broken.send("GET"), 200)
    assert broken.ledger.read_bytes() == content


def test_a_unix_socket(provider: Provider, stint: StartStint) -> None:
    running = stint(start=False)
    path = running.directory / "s"
    running.config["listen"] = [running.config["listen"], f"unix:{path}"]
    running.write_config()
    running.start()
    with socket.socket(socket.AF_UNIX) as plain:
        plain.settimeout(5.0)
        plain.connect(str(path))
        plain.sendall(encode("POST", "/pay/x", [("Idempotency-Key", "k")], b"x"))
        assert plain.recv(1000).startswith(b"HTTP/1.1 200 ")
    assert fetch(running.port, "POST", "/pay/x", [("Idempotency-Key", "k")], b"x").status == 200
    assert provider.count("k") == 1


def test_honoured_keys_after_the_grace(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(delay=5.0), Step(body=b"paid"))
    running = stint(provider={**HONOURS, "attempt": {"timeout": "9s"}}, top={"drain": "300ms"})
    with ThreadPoolExecutor(1) as pool:
        cut = pool.submit(running.send, key="k")
        provider.wait_for(1)
        running.term()
        assert isinstance(cut.exception(), (OSError, Cut)) or cut.result().status >= 400
    running.start()
    from_provider(running.send(key="k"), 200, b"paid")
    assert charged(running, provider, "k", 2)["unresolved"] == 0

"""One budget for every layer: requests seen by the provider = attempts charged <= limit."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from checks import HONOURS, charged, from_provider, problem
from conftest import StartStint
from provider import Provider
from raw_http import Client, encode
from steps import End, Step, When, json_step
from stint_harness import eventually


def test_b17_layers_do_not_multiply(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(429, "{}"))
    running = stint()
    first = running.send(key="k")
    from_provider(first, 429)
    assert first.stint["attempts"] == 4
    for _ in range(2):
        members = problem(running.send(key="k"), 424, "exhausted", "exhausted")
        assert members["last"]["status"] == 429 and members["attempts"] == 4
    charged(running, provider, "k", 4)


def test_b17_two_instances_spend_one_budget(
    provider: Provider, stint: StartStint, tmp_path: Path
) -> None:
    provider.script(json_step(429, "{}"))
    ledger = tmp_path / "shared.db"
    # The hold bounds the store too: it has to be longer than a slow fsync.
    policy = {"hold": "250ms", "backoff": {"first": "400ms", "max": "400ms", "factor": 1}}
    pair = [stint(provider=policy, ledger=ledger) for _ in range(2)]
    states = []
    for turn in range(20):
        reply = pair[turn % 2].send(key="k")
        states.append(reply.stint["state"])
        assert reply.status in (424, 429)
        if reply.status == 424:
            break
        time.sleep(0.45)  # longer than the backoff, so that each instance finds it due
    problem(reply, 424, "exhausted", "exhausted")
    for one in pair:
        problem(one.send(key="k"), 424, "exhausted", "exhausted")
        charged(one, provider, "k", 4)
    instances = {entry["instance"] for entry in pair[0].operation("k")["history"]}
    assert len(instances) == 2


def test_b17_resets_and_502_share_the_counter(provider: Provider, stint: StartStint) -> None:
    reset = Step(cut_when=When.REQUEST, end=End.RESET)
    provider.script(reset, Step(status=502), reset, Step(status=502, body=b"last"), Step())
    running = stint(provider=HONOURS)
    reply = running.send(key="k")
    from_provider(reply, 502, b"last")
    assert reply.stint["attempts"] == 4 and reply.stint["unresolved"] == 4
    problem(running.send(key="k"), 424, "unknown", "unknown")
    charged(running, provider, "k", 4)


def test_w5_the_running_count_is_in_every_reply(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(429, "{}"))
    running = stint()
    counts = []
    for _ in range(6):
        reply = running.send(key="k", headers=[("Stint-Attempts", "1")])
        counts.append(reply.stint["attempts"])
        assert reply.stint["limit"] == 4
    assert counts == [1, 2, 3, 4, 4, 4]
    assert provider.count("k") == 4


@pytest.mark.parametrize("status", [400, 404, 422])
def test_b18_a_permanent_error_is_one_attempt(
    provider: Provider, stint: StartStint, status: int
) -> None:
    provider.script(json_step(status, "{}", [("Retry-After", "1")]))
    running = stint(provider=HONOURS)
    for _ in range(3):
        from_provider(running.send(key="k"), status)
    charged(running, provider, "k", 1)


def test_b18_nothing_new_starts_for_a_caller_who_left(
    provider: Provider, stint: StartStint
) -> None:
    provider.script(json_step(429, "{}", delay=0.3))
    running = stint()
    with Client(running.port) as client:
        client.send(encode("POST", "/pay/x", [("Idempotency-Key", "k")], b"x"))
        provider.wait_for(1)
    record = eventually(lambda: running.operation("k"), lambda it: it["state"] == "ready")
    assert record["attempts"] == 1 and record["status"] == 429
    time.sleep(0.5)
    charged(running, provider, "k", 1)


def test_b18_an_attempt_in_flight_finishes_and_is_stored(
    provider: Provider, stint: StartStint
) -> None:
    provider.script(Step(delay=0.4, body=b"paid"))
    running = stint()
    with Client(running.port) as client:
        client.send(encode("POST", "/pay/x", [("Idempotency-Key", "k")], b"x"))
        provider.wait_for(1)
    eventually(lambda: running.operation("k")["state"], lambda state: state == "succeeded")
    with Client(running.port) as client:
        client.send(encode("POST", "/pay/x", [("Idempotency-Key", "k")], b"x"))
        reply = client.read_reply()
    from_provider(reply, 200, b"paid")
    assert reply.stint["replayed"] is True
    charged(running, provider, "k", 1)


def test_b18_a_safe_request_is_not_repeated_for_nobody(
    provider: Provider, stint: StartStint
) -> None:
    provider.script(Step(status=503, delay=0.2))
    running = stint(provider={"backoff": {"first": "100ms"}})
    with Client(running.port) as client:
        client.send(encode("GET", "/pay/x"))
        provider.wait_for(1)
    time.sleep(0.8)
    assert provider.count() == 1


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("attempts", [1, 2, 5])
def test_b19_n_means_n_requests(
    provider: Provider, stint: StartStint, method: str, attempts: int
) -> None:
    provider.script(Step(status=503, body=b"down"))
    running = stint(provider={**HONOURS, "budget": {"attempts": attempts}})
    reply = running.send(method, key="k")
    from_provider(reply, 503, b"down")
    assert provider.count() == attempts
    if method == "POST":
        assert reply.stint["attempts"] == attempts and reply.stint["limit"] == attempts
        charged(running, provider, "k", attempts)


def test_b19_the_count_is_right_when_nothing_was_retried(
    provider: Provider, stint: StartStint
) -> None:
    assert stint().send(key="k").stint["attempts"] == 1
    assert provider.count("k") == 1


@pytest.mark.parametrize("hint", ["0", "-1", "", "abc", "2147483648", "1e3", "101", "1.0", "+1",
                                  "1, 2", "?1", '"1"'])
def test_b19_an_invalid_hint_is_never_unlimited(
    provider: Provider, stint: StartStint, hint: str
) -> None:
    running = stint()
    reply = running.send(key="k", headers=[("Stint-Attempts", hint)])
    assert (reply.status, reply.problem) == (400, "hint-invalid")
    assert provider.count() == 0 and running.operations() == []


def test_b19_a_hint_on_two_lines(provider: Provider, stint: StartStint) -> None:
    running = stint()
    reply = running.send(key="k", headers=[("Stint-Attempts", "1"), ("Stint-Attempts", "2")])
    assert (reply.status, reply.problem) == (400, "hint-invalid")
    assert provider.count() == 0 and running.operations() == []


def test_b19_blanks_around_a_hint(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(429, "{}"))
    reply = stint().send(key="k", headers=[("Stint-Attempts", "2 ")])
    assert reply.status in (400, 429)
    assert provider.count("k") == (0 if reply.status == 400 else 2)


@pytest.mark.parametrize("hint", ["-1", "abc", "", "86401", "1e3", "inf", "nan", "1s"])
def test_an_invalid_deadline_hint(provider: Provider, stint: StartStint, hint: str) -> None:
    running = stint()
    reply = running.send(key="k", headers=[("Stint-Deadline", hint)])
    assert (reply.status, reply.problem) == (400, "hint-invalid")
    assert provider.count() == 0 and running.operations() == []


def test_hints_only_lower(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(429, "{}"))
    reply = stint().send(key="k", headers=[("Stint-Attempts", "100")])
    assert reply.stint["attempts"] == 4 and provider.count("k") == 4
    assert "stint-attempts" not in str(provider.requests[0].lines).lower()


def test_w7_no_attempt_in_the_rest_of_the_window(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(429, "{}", delay=0.8))
    running = stint(provider={
        "hold": "10s", "budget": {"attempts": 5, "window": "3s"},
        "attempt": {"least": "800ms"}, "backoff": {"first": "1ms", "max": "1ms"},
    })
    from_provider(running.send(key="k"), 429)
    assert charged(running, provider, "k", 3)["state"] == "exhausted"


def test_w7_the_last_attempt_is_limited_by_the_window(
    provider: Provider, stint: StartStint
) -> None:
    provider.script(json_step(429, "{}", delay=0.8))
    running = stint(provider={
        "hold": "10s", "budget": {"attempts": 5, "window": "3s"},
        "attempt": {"least": "100ms"}, "backoff": {"first": "1ms", "max": "1ms"},
    })
    started = time.monotonic()
    problem(running.send(key="k"), 504, "unknown-outcome", "unknown")
    assert 2.8 <= time.monotonic() - started < 3.8
    charged(running, provider, "k", 4)


def test_backoff_grows_and_advice_is_kept(provider: Provider, stint: StartStint) -> None:
    provider.script(
        json_step(408, "{}"), json_step(408, "{}"),
        json_step(429, "{}", [("Retry-After-Ms", "600")]), Step())
    running = stint(provider={"backoff": {"first": "100ms", "factor": 2, "max": "1s"}})
    assert running.send(key="k").stint["attempts"] == 4
    times = [request.monotonic for request in provider.requests]
    gaps = [after - before for before, after in zip(times, times[1:])]
    assert 0.1 <= gaps[0] < 0.6 and 0.2 <= gaps[1] < 0.7 and 0.6 <= gaps[2] < 1.1, gaps


def test_b05_advice_beyond_what_is_left(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(status=429, headers=[("Retry-After", "50")], body=b"later"))
    running = stint(provider={"budget": {"attempts": 4, "window": "10s"}})
    started = time.monotonic()
    reply = running.send(key="k")
    assert time.monotonic() - started < 1.0
    from_provider(reply, 429, b"later")
    assert reply.stint["attempts"] == 1
    charged(running, provider, "k", 1)


def test_safe_requests_never_enter_the_ledger(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(status=503), Step(body=b"read"))
    running = stint()
    from_provider(running.send("GET", key="k"), 200, b"read")
    assert provider.count("k") == 2, "the key is forwarded"
    assert running.operations() == []

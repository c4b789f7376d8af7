"""The gate: breaker, ramp, one gate for each credential, and blocks that outlive the process."""

from __future__ import annotations

import time
from typing import Any

import pytest
from checks import charged, problem, retry_after
from conftest import StartStint
from provider import Provider
from raw_http import Reply, parallel
from steps import End, Step, When, json_step
from stint_harness import PORTS, Stint, eventually

RESET = Step(cut_when=When.REQUEST, end=End.RESET)
AT_ONCE = {"hold": "0s"}


def limited(seconds: int | str) -> Step:
    """A 429 with waiting advice."""
    return json_step(429, "{}", [("Retry-After", str(seconds))])


def breaker(stint: Stint) -> dict[str, Any]:
    """What the API says of the breaker."""
    found: dict[str, Any] = stint.admin("/v1/providers")["providers"][0]["breaker"]
    return found


def blocked(stint: Stint) -> float:
    """How long the provider stays closed by the metric."""
    return stint.metric("stint_provider_blocked_seconds", provider="pay")


def kept(stint: Stint) -> list[dict[str, Any]]:
    """The blocks in the ledger."""
    return stint.rows("SELECT * FROM gates")


def credential(name: str) -> list[tuple[str, str]]:
    """A request's credential."""
    return [("Authorization", f"Bearer {name}")]


# --- the breaker ----------------------------------------------------------------------------------


def test_the_breaker_closes_the_gate_and_one_probe_opens_it(
    provider: Provider, stint: StartStint
) -> None:
    provider.script(RESET, RESET, RESET, Step(delay=0.4))
    policy = {"breaker": {"failures": 3, "open": "2s"}, "budget": {"attempts": 1}}
    running = stint(provider=policy)
    for n in range(3):
        assert breaker(running)["state"] == "closed"
        problem(running.send(key=f"lost-{n}"), 502, "unknown-outcome")
    assert breaker(running)["state"] == "open" and breaker(running)["gates_open"] == 1
    assert 0 < blocked(running) <= 2
    # The next ones wait for the pause, uncharged; then one is sent, and the others after it.
    started = time.monotonic()
    replies = parallel(4, lambda n: running.send(key=f"late-{n}"))
    assert [reply.status for reply in replies] == [200] * 4
    times = sorted(request.monotonic for request in provider.requests[3:])
    assert len(times) == 4 and times[0] - started > 1.5
    assert times[1] - times[0] >= 0.4, "nobody is sent beside the probe"
    assert breaker(running)["state"] == "closed"
    for n in range(4):
        charged(running, provider, f"late-{n}", 1)


def test_closed_by_the_breaker_is_503_with_the_time_left(
    provider: Provider, stint: StartStint
) -> None:
    provider.script(json_step(503, "{}"))
    policy = {**AT_ONCE, "breaker": {"failures": 2, "open": "30s"}, "budget": {"attempts": 1}}
    running = stint(provider=policy)
    for n in range(2):
        assert running.send(key=f"n{n}").status == 503
    members = problem(running.send(key="k"), 503, "waiting", "ready")
    assert members["attempts"] == 0
    for reply in (running.send(key="k"), running.send("GET")):
        assert 25 <= retry_after(reply) <= 31  # spread over the ramp
    assert provider.count() == 2


def test_a_failed_probe_doubles_the_pause(provider: Provider, stint: StartStint) -> None:
    provider.script(RESET)
    policy = {
        **AT_ONCE, "breaker": {"failures": 1, "open": "700ms", "max": "30s"},
        "budget": {"attempts": 1},
    }
    running = stint(provider=policy)
    running.send(key="first")
    assert 0 < breaker(running)["open_seconds"] <= 0.7
    for pause in (1.4, 2.8):
        assert eventually(lambda: breaker(running)["state"], lambda state: state == "half-open")
        problem(running.send(key=f"probe-{pause}"), 502, "unknown-outcome")
        assert pause / 2 < breaker(running)["open_seconds"] <= pause
    assert provider.count() == 3


def test_answers_between_them_keep_it_open(provider: Provider, stint: StartStint) -> None:
    provider.script(RESET, RESET, json_step(422, "{}"), RESET, RESET, Step())
    policy = {"breaker": {"failures": 3, "open": "30s"}, "budget": {"attempts": 1}}
    running = stint(provider=policy)
    for n in range(6):
        running.send(key=f"n{n}")
    assert provider.count() == 6 and breaker(running)["state"] == "closed"


def test_off_has_no_breaker(provider: Provider, stint: StartStint) -> None:
    provider.script(RESET)
    running = stint(provider={"mode": "off", "breaker": {"failures": 1, "open": "30s"}})
    for _ in range(4):
        assert running.send(key="k").status == 502
    assert provider.count() == 4


def test_w37_refused_connections_spend_no_budgets(stint: StartStint) -> None:
    nobody = f"http://127.0.0.1:{PORTS.take()}"
    running = stint(upstream=nobody, provider={**AT_ONCE, "breaker": {"open": "30s"}})
    replies = parallel(8, lambda n: [running.send(key=f"k{n}-{m}") for m in range(5)])
    assert all(reply.status in (502, 503) for some in replies for reply in some)
    assert breaker(running)["state"] == "open"
    records = [running.operation(f"k{n}-{m}") for n in range(8) for m in range(5)]
    assert {record["state"] for record in records} == {"ready"}
    # Ten open it; at most the other seven that were under way are spent beside them.
    assert 10 <= sum(record["attempts"] for record in records) <= 17
    assert running.metric("stint_unknown_outcomes") == 0


# --- the block and its ramp -----------------------------------------------------------------------


def test_w15_they_start_at_the_ramp_not_together(provider: Provider, stint: StartStint) -> None:
    provider.script(limited(2), key="first")
    running = stint(provider={"hold": "12s", "gate": {"ramp": "400ms"}})
    first = running.send(key="first", headers=[("Stint-Attempts", "1")])
    assert first.status == 429
    assert {reply.status for reply in parallel(20, lambda n: running.send(key=f"n{n}"))} == {200}
    open_again = provider.requests[0].monotonic + 2
    times = sorted(request.monotonic for request in provider.requests[1:])
    assert len(times) == 20 and times[0] >= open_again
    for step in range(1, 5):
        early = [at for at in times if at < open_again + 0.4 * step]
        assert len(early) <= 2**step - 1, f"{len(early)} within {step} steps"


def test_w30_a_block_charges_nobody(provider: Provider, stint: StartStint) -> None:
    provider.script(limited(30))
    running = stint(provider=AT_ONCE)
    running.send(key="first")

    def deliver(n: int) -> list[Reply]:
        return [running.send(key=f"n{n}-{m}") for m in range(20)]

    for some in parallel(10, deliver):
        for reply in some:
            assert problem(reply, 429, "waiting", "ready")["attempts"] == 0
            assert 15 <= retry_after(reply) <= 32  # spread over the ramp
    assert provider.count() == 1
    assert running.metric("stint_unknown_outcomes") == 0


def test_a_block_is_no_longer_than_the_cap(provider: Provider, stint: StartStint) -> None:
    for beyond in ("probe", "stop"):
        provider.script(limited(3600))
        running = stint(provider={
            **AT_ONCE, "retry_after": {"max": "20s", "beyond": beyond}, "budget": {"attempts": 2},
        })
        assert running.send(key=beyond).status == 429
        assert 15 < blocked(running) <= 20
        assert retry_after(running.send("GET")) <= 20


@pytest.mark.parametrize("status", [401, 403, 429])
def test_b10_quota_and_auth_close_no_gate(
    provider: Provider, stint: StartStint, status: int
) -> None:
    rule = {"name": "spent", "when": {"status": 429}, "class": "quota"}
    advice = [] if status == 403 else [("Retry-After", "30")]  # with it a 403 is rate limiting
    provider.script(json_step(status, "{}", advice), Step())
    running = stint(provider={**AT_ONCE, "rules": [rule]})
    assert running.send(key="held").status == status
    assert running.operation("held")["state"] == "held"
    assert blocked(running) == 0 and running.send(key="k").status == 200


# --- one gate for each credential -----------------------------------------------------------------


def test_each_credential_has_its_gate(provider: Provider, stint: StartStint) -> None:
    provider.script(limited(30), key="a1")
    running = stint(provider={
        **AT_ONCE, "gate": {"by": "header:authorization"},
        "breaker": {"failures": 2, "open": "30s"}, "budget": {"attempts": 1},
    })
    assert running.send(key="a1", headers=credential("a")).status == 429
    problem(running.send(key="a2", headers=credential("a")), 429, "waiting")
    assert running.send(key="b1", headers=credential("b")).status == 200
    assert running.send(key="none").status == 200
    assert blocked(running) > 25

    provider.script(RESET)
    for n in range(2):
        problem(running.send(key=f"c{n}", headers=credential("c")), 502, "unknown-outcome")
    problem(running.send(key="c2", headers=credential("c")), 503, "waiting")
    provider.script(Step())
    assert running.send(key="b2", headers=credential("b")).status == 200
    found = breaker(running)
    assert found["state"] == "open" and found["gates_open"] == 1 and found["gates"] == 4
    # Nobody can read a credential from the ledger.
    assert eventually(lambda: len(kept(running)), lambda count: count == 1)
    assert b"Bearer" not in running.ledger.read_bytes()


# --- across a restart -----------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["term", "kill"])
def test_a_restart_keeps_the_block(provider: Provider, stint: StartStint, end: str) -> None:
    provider.script(limited(40), key="first")
    running = stint(provider=AT_ONCE)
    assert running.send(key="first").status == 429
    (row,) = eventually(lambda: kept(running))
    assert (row["provider"], row["bucket"], row["probing"]) == ("pay", 0, 0)
    assert row["cause"] == "rate-limit"
    if end == "term":
        running.restart()
    else:
        running.kill9()
        running.start()
    reply = running.send(key="second")
    problem(reply, 429, "waiting", "ready")
    assert 20 <= retry_after(reply) <= 40
    assert 20 <= blocked(running) <= 40
    assert provider.count() == 1


def test_a_restart_keeps_the_probe(provider: Provider, stint: StartStint) -> None:
    provider.script(limited(3600), Step(delay=0.6))
    running = stint(provider={"retry_after": {"max": "1s"}})
    first = running.send(key="first", headers=[("Stint-Attempts", "1")])
    assert first.status == 429
    eventually(lambda: [row["probing"] for row in kept(running)], lambda found: found == [1])
    running.restart()
    assert {reply.status for reply in parallel(5, lambda n: running.send(key=f"n{n}"))} == {200}
    times = sorted(request.monotonic for request in provider.requests)
    assert len(times) == 6 and times[1] - times[0] >= 1
    assert times[2] - times[1] >= 0.6, "nobody is sent beside the probe"
    eventually(lambda: kept(running), lambda rows: rows == [])


def test_a_restart_keeps_the_credential_s_block(provider: Provider, stint: StartStint) -> None:
    provider.script(limited(40), key="a1")
    running = stint(provider={**AT_ONCE, "gate": {"by": "header:Authorization"}})
    running.send(key="a1", headers=credential("a"))
    eventually(lambda: kept(running))
    running.restart()
    problem(running.send(key="a2", headers=credential("a")), 429, "waiting")
    assert running.send(key="b1", headers=credential("b")).status == 200
    assert provider.count() == 2


def test_a_block_that_is_over_leaves_no_row(provider: Provider, stint: StartStint) -> None:
    provider.script(limited(1), Step())
    running = stint()
    assert running.send(key="k").status == 200
    charged(running, provider, "k", 2)
    eventually(lambda: kept(running), lambda rows: rows == [])


def test_what_is_stored_closes_no_longer_than_the_configuration(
    provider: Provider, stint: StartStint
) -> None:
    provider.script(limited(40), key="first")
    running = stint(provider=AT_ONCE)
    running.send(key="first")
    eventually(lambda: kept(running))
    running.term()
    running.config["providers"]["pay"]["retry_after"] = {"max": "3s"}
    running.write_config()
    running.start()
    assert blocked(running) <= 3
    assert retry_after(running.send(key="second")) <= 3

"""What a provider says about when to come back, in all the ways that were seen in the field.

A reply's advice closes the gate of its whole provider, so values are tried side by side on several
providers of one process: `Row` has one for each value.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from email.utils import formatdate
from typing import Any

import pytest
from checks import HONOURS, charged, from_provider, problem, retry_after
from conftest import StartStint
from provider import Provider
from raw_http import Headers, Reply, parallel
from steps import Step, json_step
from stint_harness import Stint, merge, quick_provider

ONCE = [("Stint-Attempts", "1")]
SLACK = 0.5  # what a busy machine may add to a wait


class Row:
    """One stint with `size` providers, p0, p1, ..., of the same policy; `scripts` by index."""

    def __init__(
        self, provider: Provider, stint: StartStint, size: int,
        policy: Mapping[str, Any] | None = None,
    ) -> None:
        one = merge(quick_provider(f"{provider.url}/base"), policy or {})
        self.provider = provider
        self.stint: Stint = stint(top={"providers": {
            "pay": None, **{f"p{n}": {**one, "route": f"/p{n}"} for n in range(size)}}})

    def send(self, index: int, headers: Headers = ()) -> Reply:
        """One delivery to a provider; key and provider have the same name."""
        return self.stint.send(path=f"/p{index}/x", key=f"p{index}", headers=headers)

    def gaps(self, index: int) -> list[float]:
        """The times between the attempts that one provider saw."""
        times = [request.monotonic for request in self.provider.of(f"p{index}")]
        return [after - before for before, after in itertools.pairwise(times)]


def advised(
    provider: Provider, stint: StartStint, cases: Sequence[Headers], status: int = 429,
    policy: Mapping[str, Any] | None = None,
) -> list[Reply]:
    """For each set of reply headers the answer to a delivery that may make one attempt."""
    row = Row(provider, stint, len(cases), policy)
    for index, headers in enumerate(cases):
        provider.script(json_step(status, "{}", headers), key=f"p{index}")
    return [row.send(index, ONCE) for index in range(len(cases))]


def stamp(seconds: float) -> str:
    """An HTTP-date."""
    return formatdate(seconds, usegmt=True)


def test_b01_fractional_seconds(provider: Provider, stint: StartStint) -> None:
    cases = [(429, "0.503"), (429, "0.129"), (429, "1.5"), (429, " 1.25 "), (503, "0.7")]
    row = Row(provider, stint, len(cases), HONOURS)
    for index, (status, value) in enumerate(cases):
        provider.script(
            Step(status=status, headers=[("Retry-After", value)]), Step(), key=f"p{index}")
    for index, reply in enumerate(parallel(len(cases), row.send)):
        from_provider(reply, 200)
        (gap,) = row.gaps(index)
        assert float(cases[index][1]) <= gap < float(cases[index][1]) + SLACK, cases[index]
    assert row.stint.metric("stint_retry_after_invalid_total") == 0


def test_b01_what_is_no_number_is_no_advice(provider: Provider, stint: StartStint) -> None:
    values = ["inf", "nan", "1e10000", "1,5", "5s", "0x5", "5\xb2", "", "-inf", "1.5.5", "+5",
              "soon"]
    row = Row(provider, stint, len(values))
    for index, value in enumerate(values):
        provider.script(
            json_step(429, "{}", [("Retry-After", value)]), Step(), key=f"p{index}")

    for index, reply in enumerate(parallel(len(values), row.send)):
        from_provider(reply, 200)
        (gap,) = row.gaps(index)
        assert 0.02 <= gap < 0.02 + SLACK, f"{values[index]!r}: own backoff, not {gap}"
        count = row.stint.metric("stint_retry_after_invalid_total", provider=f"p{index}")
        assert count == 1, values[index]


@pytest.mark.parametrize("name", ["Retry-After", "Retry-After-Ms"])
def test_b02_negative_past_and_zero(provider: Provider, stint: StartStint, name: str) -> None:
    values = ["0", "-1"] + ["Wed, 21 Oct 2015 07:28:00 GMT"] * (name == "Retry-After")
    row = Row(provider, stint, len(values), {
        "budget": {"attempts": 3},
        "backoff": {"first": "150ms", "factor": 1, "max": "150ms", "jitter": "equal"}})
    for index, value in enumerate(values):
        provider.script(json_step(429, "{}", [(name, value)]), key=f"p{index}")
    for index, reply in enumerate(parallel(len(values), row.send)):
        from_provider(reply, 429)
        assert reply.stint["state"] == "exhausted" and "advice" not in reply.stint
        gaps = row.gaps(index)
        assert len(gaps) == 2, "exactly three attempts"
        for gap in gaps:
            assert 0.15 <= gap < 0.15 + 0.075 + SLACK, f"{values[index]}: {gaps}"


def test_b02_a_date_ahead(provider: Provider, stint: StartStint) -> None:
    (reply,) = advised(provider, stint, [[("Retry-After", stamp(time.time() + 42))]])
    from_provider(reply, 429)
    assert 40.5 <= float(reply.stint["advice"]) <= 42.5
    assert 40 <= retry_after(reply) <= 43


def test_b04_at_and_above_the_cap(provider: Provider, stint: StartStint) -> None:
    values = [59.0, 60.0, 70.0, 3600.0, 299.997]
    policy = {"retry_after": {"max": "60s"}, "budget": {"window": "24h"}}
    replies = advised(provider, stint, [[("Retry-After", f"{value:g}")] for value in values],
                      policy=policy)
    for value, reply in zip(values, replies):
        from_provider(reply, 429)
        wait = min(value, 60.0)
        assert float(reply.stint["advice"]) == pytest.approx(value), "the provider's own value"
        assert wait - 1 < float(reply.stint["next"]) <= wait + 1, reply.stint
        assert wait - 1 <= retry_after(reply) <= wait + 2


def test_b04_no_attempt_before_the_cap_then_one_probe(
    provider: Provider, stint: StartStint
) -> None:
    provider.script(json_step(429, "{}", [("Retry-After", "3600")]), key="first")
    provider.script(Step(delay=0.5))
    running = stint(provider={"retry_after": {"max": "700ms"}, "budget": {"window": "24h"}})
    reply = running.send(key="first", headers=ONCE)
    from_provider(reply, 429)
    assert reply.stint["advice"] == 3600.0
    for answer in parallel(4, lambda index: running.send(key=f"k{index}")):
        from_provider(answer, 200)
    first, *others = [request.monotonic for request in provider.requests]
    probe, *rest = others
    assert probe - first >= 0.7, "nothing before the cap"
    assert len(rest) == 3 and min(rest) - probe >= 0.5, "one probe, the others after its answer"
    assert running.metric("stint_retry_after_capped_total", provider="pay") == 1


def test_b04_a_probe_that_is_turned_down_closes_again(
    provider: Provider, stint: StartStint
) -> None:
    far = json_step(429, "{}", [("Retry-After", "3600")])
    provider.script(far, far, Step())
    running = stint(provider={"retry_after": {"max": "400ms"}, "budget": {"window": "24h"}})
    from_provider(running.send(key="k"), 200)
    times = [request.monotonic for request in provider.requests]
    assert [after - before >= 0.4 for before, after in itertools.pairwise(times)] == [True, True]


def test_b04_beyond_stop(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(429, '{"much":1}', [("Retry-After", "3600")]))
    running = stint(provider={
        "retry_after": {"max": "1s", "beyond": "stop"}, "budget": {"window": "24h"}})
    reply = running.send(key="k")
    from_provider(reply, 429, b'{"much":1}')
    assert (reply.stint["state"], reply.stint["reason"]) == ("exhausted", "advice-beyond-cap")
    charged(running, provider, "k", 1)


def test_b05_advice_longer_than_what_is_left(provider: Provider, stint: StartStint) -> None:
    body = b'{"error":"down"}'
    row = Row(provider, stint, 3, {**HONOURS, "budget": {"attempts": 4, "window": "5s"}})
    for index in range(3):
        provider.script(
            Step(status=503, headers=[("Retry-After", "86400"), ("X-Own", "1")], body=body),
            key=f"p{index}")
    waits = []
    for index in range(3):
        reply = row.send(index)
        waits.append(reply.at - provider.of(f"p{index}")[0].monotonic)
        from_provider(reply, 503, body)
        assert reply.header("X-Own") == "1"
        assert reply.stint["reason"] == "deadline-before-retry-after"
        record = row.stint.operation(f"p{index}", provider=f"p{index}")
        assert (record["attempts"], record["reason"]) == (1, "deadline-before-retry-after")
        assert provider.count(f"p{index}") == 1
    assert min(waits) < 0.1, "the answer does not wait for anything"


def test_b05_advice_longer_than_the_hold(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(status=503, headers=[("Retry-After", "30")], body=b"down"))
    running = stint(provider={**HONOURS, "hold": "10s"})
    started = time.monotonic()
    reply = running.send(key="k")
    assert time.monotonic() - started < 2.0
    from_provider(reply, 503, b"down")
    assert (reply.stint["state"], reply.stint["reason"]) == (
        "ready", "deadline-before-retry-after")
    assert 29 <= retry_after(reply) <= 31
    charged(running, provider, "k", 1)


def test_b06_precedence_and_units(provider: Provider, stint: StartStint) -> None:
    cases: list[tuple[Headers, float]] = [
        ([("Retry-After", "1"), ("retry-after-ms", "250")], 0.25),
        ([("x-ms-retry-after-ms", "1500")], 1.5),
        ([("Retry-After", "2")], 2.0),
        ([("retry-after-ms", "soon"), ("Retry-After", "3")], 3.0),
        ([("retry-after-ms", "-1"), ("x-ms-retry-after-ms", "4000"), ("Retry-After", "9")], 4.0),
        ([("x-ms-retry-after-ms", ""), ("Retry-After", "5")], 5.0),
        ([("retry-after-ms", "17.5"), ("x-ms-retry-after-ms", "9000")], 0.0175),
    ]
    replies = advised(provider, stint, [headers for headers, _ in cases],
                      policy={"backoff": {"first": "5ms"}})
    for (headers, wait), reply in zip(cases, replies):
        assert float(reply.stint["advice"]) == pytest.approx(wait, abs=0.001), headers


def test_b06_the_waits_are_kept(provider: Provider, stint: StartStint) -> None:
    row = Row(provider, stint, 2)
    provider.script(json_step(429, "{}", [("Retry-After", "1"), ("retry-after-ms", "250")]), Step(),
                    key="p0")
    provider.script(json_step(429, "{}", [("x-ms-retry-after-ms", "900")]), Step(), key="p1")
    for reply in parallel(2, row.send):
        from_provider(reply, 200)
    assert 0.25 <= row.gaps(0)[0] < 0.25 + SLACK
    assert 0.9 <= row.gaps(1)[0] < 0.9 + SLACK


@pytest.mark.parametrize("skew", [0, 120, -3600])
def test_b07_dates_are_relative_to_the_replys_own(
    provider: Provider, stint: StartStint, skew: int
) -> None:
    there = int(time.time()) + skew
    (reply,) = advised(provider, stint, [
        [("Date", stamp(there)), ("Retry-After", stamp(there + 37))]])
    assert reply.stint["advice"] == 37.0


def test_b07_without_a_date_the_local_clock_counts(provider: Provider, stint: StartStint) -> None:
    now = time.time()
    aged, bare, behind = advised(provider, stint, [
        [("Date", stamp(now - 3600)), ("Age", "3600"), ("Retry-After", stamp(now + 37))],
        [("Retry-After", stamp(now + 37))],
        [("Retry-After", stamp(now - 3600))],
    ])
    assert 35 <= float(aged.stint["advice"]) <= 38
    assert 35 <= float(bare.stint["advice"]) <= 38
    assert "advice" not in behind.stint and float(behind.stint["next"]) <= 1


def test_b07_reset_headers(provider: Provider, stint: StartStint) -> None:
    now = time.time()
    policy = {"retry_after": {"max": "60s"}, "budget": {"window": "24h"},
              "advice": [{"header": "X-RateLimit-Reset", "unit": "epoch"}]}

    def reset(value: float) -> Headers:
        return [("X-RateLimit-Reset", f"{value:.0f}")]

    delta, epoch, epoch_ms, far, beaten, odd = advised(provider, stint, [
        reset(37), reset(now + 37), reset((now + 37) * 1000), reset(9_999_999_999),
        [*reset(37), ("Retry-After", "5")], reset(50_000_000)], policy=policy)
    assert delta.stint["advice"] == 37.0
    for reply in (epoch, epoch_ms):
        assert 35 <= float(reply.stint["advice"]) <= 38, reply.stint
    assert float(far.stint["next"]) <= 61, "whatever the guess, the cap"
    assert beaten.stint["advice"] == 5.0
    assert float(odd.stint["next"]) <= 61


def test_advice_is_the_whole_providers(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(429, "{}", [("Retry-After", "30")]), key="k")
    running = stint()
    from_provider(running.send(key="k", headers=ONCE), 429)
    problem(running.send(key="other"), 429, "waiting", "ready")
    assert provider.count() == 1

"""The cases that need many rounds or real time."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path

import pytest
from checks import charged, from_provider, problem, untouched
from conftest import StartStint
from provider import Provider
from raw_http import Cut, parallel
from steps import Step, json_step
from stint_harness import eventually


def test_long_b22_a_hundred_rounds(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(200, '{"id":"pay_1"}', delay=0.05))
    running = stint()
    for turn in range(100):
        key = f"k{turn}"
        for reply in parallel(50, lambda _, key=key: running.send(key=key)):
            from_provider(reply, 200, b'{"id":"pay_1"}')
        charged(running, provider, key, 1)


def test_long_b22_two_instances(
    provider: Provider, stint: StartStint, tmp_path: Path
) -> None:
    provider.script(json_step(200, '{"id":"pay_1"}', delay=0.05))
    pair = [stint(ledger=tmp_path / "shared.db") for _ in range(2)]
    for turn in range(30):
        key = f"k{turn}"
        for reply in parallel(50, lambda index, key=key: pair[index % 2].send(key=key)):
            from_provider(reply, 200, b'{"id":"pay_1"}')
        charged(pair[turn % 2], provider, key, 1)


def test_long_b29_two_hundred_idle_closes(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(idle=0.5))
    running = stint(provider={"attempt": {"reuse": "250ms"}})

    def run(worker: int) -> list[int]:
        statuses = []
        for turn in range(25):
            statuses.append(running.send(key=f"k{worker}-{turn}").status)
            time.sleep(0.495 + 0.001 * (turn % 11))
        return statuses

    assert parallel(8, run) == [[200] * 25] * 8
    assert provider.count() == 200


@pytest.mark.parametrize("instances", [1, 2])
def test_long_kills(
    provider: Provider, stint: StartStint, tmp_path: Path, instances: int
) -> None:
    provider.script(lambda _: Step(delay=0.01, body=b"paid"))
    fleet = [stint(ledger=tmp_path / "shared.db") for _ in range(instances)]
    keys = []
    for turn in range(15):
        victim = fleet[turn % instances]
        names = [f"k{turn}-{number}" for number in range(20)]
        keys += names

        def deliver(name: str) -> None:
            with contextlib.suppress(OSError, Cut):  # the process is killed
                fleet[hash(name) % instances].send(key=name)

        callers = [threading.Thread(target=deliver, args=(name,)) for name in names]
        for caller in callers:
            caller.start()
        time.sleep(0.004 * turn)
        victim.kill9()
        for caller in callers:
            caller.join()
        victim.start()
    for name in keys:
        assert fleet[0].send(key=name).status in (200, 424)
        record = fleet[0].operation(name)
        assert provider.count(name) <= record["attempts"] <= 1
        assert record["state"] in ("succeeded", "unknown")
        assert record["state"] == "unknown" or provider.count(name) == 1


def test_long_retention_leaves_a_tombstone(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(200, '{"id":"pay_1"}'))
    running = stint(provider={"retain": {"for": "2s", "key": "1h"}, "remote_id": "json:/id"})
    from_provider(running.send(key="k"), 200)
    reply = eventually(lambda: running.send(key="k"), lambda it: it.status == 424, 120.0)
    problem(reply, 424, "response-not-retained", "succeeded")
    record = charged(running, provider, "k", 1)
    assert record["remote_id"] == "pay_1" and not record["history"]


def test_long_retention_ends_with_the_key(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(200, "{}"), key="k")
    running = stint(provider={"retain": {"for": "1s", "key": "3s"}})
    from_provider(running.send(key="k"), 200)
    eventually(running.operations, lambda found: found == [], 120.0)
    untouched(running, provider, requests=1)


def test_long_descriptors_and_memory_stay_flat(provider: Provider, stint: StartStint) -> None:
    provider.script(lambda request: Step(body=2000))
    running = stint()
    assert running.process is not None
    process = Path("/proc", str(running.process.pid))

    def resident() -> int:
        return int((process / "statm").read_text().split()[1]) * 4096

    def burst(base: int) -> None:
        for turn in range(40):
            parallel(25, lambda index, turn=turn: running.send(key=f"{base}-{turn}-{index}"))

    burst(0)
    descriptors, memory = len(list((process / "fd").iterdir())), resident()
    for base in range(1, 5):
        burst(base)
    time.sleep(1.0)
    assert len(list((process / "fd").iterdir())) <= descriptors + 20
    assert resident() <= memory + 32 * 1024 * 1024
    assert provider.count() == 5000

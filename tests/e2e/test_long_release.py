"""A paused credential over the minutes of its pause, in real time."""

from __future__ import annotations

import time

from checks import from_provider, problem
from conftest import StartStint
from provider import Provider
from raw_http import parallel
from steps import Step, json_step

BAD = [("Authorization", "Bearer expired")]


def test_long_one_probe_a_minute(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(401, "{}"), json_step(401, "{}", delay=1.0), Step(body=b"paid"))
    provider.script(Step(body=b"paid"), key="done")
    running = stint(provider={"auth": {"pause_after": 1}})
    from_provider(running.send(key="done", headers=BAD), 200, b"paid")
    from_provider(running.send(key="k", headers=BAD), 401)
    problem(running.send(key="k1", headers=BAD), 503, "paused")
    time.sleep(60.5)
    # What needs no attempt does not use the probe up.
    assert running.send(key="done", headers=BAD).stint["replayed"] is True
    replies = parallel(6, lambda i: running.send(key=f"p{i}", headers=BAD))
    assert sorted(reply.status for reply in replies) == [401] + [503] * 5
    assert provider.count() == 3
    problem(running.send(key="k1", headers=BAD), 503, "paused")
    time.sleep(60.5)
    from_provider(running.send(key="k1", headers=BAD), 200, b"paid")
    from_provider(running.send(key="k2", headers=BAD), 200, b"paid")
    assert running.metric("stint_auth_paused", provider="pay") == 0
    assert provider.count() == 5

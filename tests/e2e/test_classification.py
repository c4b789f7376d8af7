"""What a reply or a fault means: presets and rules, misleading statuses, both sides of sent."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from checks import HONOURS, charged, from_provider, problem
from conftest import Rig, StartStint
from provider import Provider, SilentListener, self_signed
from raw_http import Headers, Reply, parallel
from steps import End, Framing, Step, When, json_step
from stint_harness import PORTS, Stint, merge, quick_provider

# What may be added to a time limit; the sanitizers are slow.
LATE = 0.05 if os.environ.get("STINT_MODE", "release") == "release" else 0.5
EVENTS = [("Content-Type", "text/event-stream")]


def preset(name: str) -> dict[str, Any]:
    """A provider of a preset, whose upstream and times are the test's."""
    return {"preset": name, "hold": "6s"}


def outcome(reply: Reply) -> tuple[object, object, object]:
    """Class, state and attempts in the Stint field."""
    return reply.stint["class"], reply.stint["state"], reply.stint["attempts"]


def gaps(provider: Provider, key: str) -> list[float]:
    """The times between the attempts of a key."""
    times = [request.monotonic for request in provider.of(key)]
    return [after - before for before, after in itertools.pairwise(times)]


@pytest.mark.parametrize("honours", [True, False])
def test_b09_retry_after_makes_nothing_retryable(
    provider: Provider, stint: StartStint, honours: bool
) -> None:
    once = [200, 201, 301, 400, 401, 404, 409, 410, 422, 501]
    twice = [429, 403, 413] + [502, 503] * honours
    statuses = once + twice
    policy = merge(quick_provider(f"{provider.url}/base"), {
        "budget": {"attempts": 2}, **(HONOURS if honours else {})})
    running = stint(top={"providers": {
        "pay": None, **{f"s{status}": {**policy, "route": f"/{status}"} for status in statuses}}})

    def run(index: int) -> Reply:
        status = statuses[index]
        wait = "2" if status == 413 else "1"
        provider.script(*[
            Step(status=status, headers=[("Retry-After", wait), ("X-N", str(n))], body=b"%d" % n)
            for n in (1, 2)], key=str(status))
        return running.send(path=f"/{status}/x", key=str(status))

    for status, reply in zip(statuses, parallel(len(statuses), run)):
        count = 2 if status in twice else 1
        from_provider(reply, status, b"%d" % count)
        assert (provider.count(str(status)), reply.stint["attempts"]) == (count, count), status
        assert reply.header("X-N") == str(count)
        assert reply.header("Retry-After") == ("2" if status == 413 else "1")
        if count == 2:
            (gap,) = gaps(provider, str(status))
            assert gap >= (2.0 if status == 413 else 1.0), status


def test_b09_a_mixed_sequence_has_one_budget(provider: Provider, stint: StartStint) -> None:
    provider.script(
        json_step(429, "1", [("Retry-After", "1")]), json_step(503, "2"),
        json_step(429, "3", [("Retry-After", "2")]), Step())
    running = stint(provider={
        **HONOURS, "budget": {"attempts": 3}, "backoff": {"first": "60ms", "factor": 2}})
    reply = running.send(key="k")
    from_provider(reply, 429, b"3")
    assert reply.header("Retry-After") == "2", "its own advice: nothing more is admitted"
    first, second = gaps(provider, "k")
    assert 1.0 <= first < 1.6 and 0.06 <= second < 0.7
    # The 503 between them may have been applied.
    assert (reply.stint["state"], reply.stint["unresolved"]) == ("unknown", 1)
    charged(running, provider, "k", 3)


@pytest.mark.parametrize("member", ["code", "type"])
def test_b10_spent_is_no_rate_limit(
    provider: Provider, stint: StartStint, member: str
) -> None:
    for key, message in (("a", "You exceeded your current quota"), ("b", "slow down")):
        body = json.dumps({"error": {member: "insufficient_quota", "message": message}})
        provider.script(json_step(429, body, [("Retry-After", "30")]), key=key)
    running = stint(provider=preset("openai"))
    for key in ("a", "b"):  # the gate is open for the second
        reply = running.send(key=key)
        from_provider(reply, 429)
        assert outcome(reply) == ("quota", "held", 1)
        assert reply.header("x-should-retry") == "false"
        problem(running.send(key=key), 424, "held", "held")
        charged(running, provider, key, 1)
    from_provider(running.send(key="c"), 200)


@pytest.mark.parametrize("body", [
    b'{"status":429,"error":"INSUFFICIENT QUOTA","message":"5 concurrent requests"}',
    b"<html>insufficient_quota</html>",
    b"",
    b'{"error":{"message":"insufficient_quota"}}',
    b'{"error":{"code":"insufficient_quota","pad":"' + b"x" * 20000 + b'"}}',
    b'{"error":{"code":"insufficient_quota"',
], ids=["words", "html", "empty", "message", "long", "cut"])
def test_b10_only_a_whole_structured_field_says_so(
    provider: Provider, stint: StartStint, body: bytes
) -> None:
    provider.script(Step(status=429, body=body), Step(body=b"ok"))
    reply = stint(provider=preset("openai")).send(key="k")
    from_provider(reply, 200, b"ok")
    assert provider.count("k") == 2


def test_b10_exhausted_resources_by_the_providers_profile(
    provider: Provider, stint: StartStint
) -> None:
    body = json.dumps({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": []}})
    provider.script(json_step(429, body), Step())
    from_provider(stint(provider=preset("google")).send(key="k"), 200)
    assert provider.count("k") == 2
    rule = {"name": "spent", "class": "quota",
            "when": {"status": 429, "json": {"/error/status": "RESOURCE_EXHAUSTED"}}}
    provider.script(json_step(429, body), key="ruled")
    reply = stint(provider={"rules": [rule]}).send(key="ruled")
    assert outcome(reply) == ("quota", "held", 1) and reply.stint["reason"] == "spent"


def test_b11_a_limit_in_a_403(provider: Provider, stint: StartStint) -> None:
    cases: list[tuple[Headers, str]] = [
        ([], "auth"),
        ([("X-RateLimit-Remaining", "12")], "auth"),
        ([("Retry-After", "60")], "rate_limited"),
        ([("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", f"{time.time() + 60:.0f}")],
         "rate_limited"),
    ]
    policy = merge(quick_provider(f"{provider.url}/base"), {
        **preset("github"), "budget": {"window": "1h"}})
    running = stint(top={"providers": {
        "pay": None, **{f"p{n}": {**policy, "route": f"/p{n}"} for n in range(len(cases))}}})
    for number, (headers, kind) in enumerate(cases):
        key = f"p{number}"
        provider.script(json_step(403, '{"message":"no"}', headers), key=key)
        reply = running.send(path=f"/{key}/x", key=key)
        from_provider(reply, 403, b'{"message":"no"}')
        state = "held" if kind == "auth" else "ready"
        assert outcome(reply) == (kind, state, 1), headers
        if kind == "rate_limited":
            assert 57 <= float(reply.stint["advice"]) <= 61
            assert 57 <= float(reply.stint["next"]) <= 62


THROTTLED = b'{"errors":[{"message":"no","extensions":{"code":"THROTTLED"}}]}'


def test_b11_a_limit_in_a_200(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(body=THROTTLED), Step(body=b'{"data":1}'), key="ends-well")
    provider.script(Step(body=THROTTLED), key="never")
    running = stint(provider=preset("shopify"))
    from_provider(running.send(key="ends-well"), 200, b'{"data":1}')
    charged(running, provider, "ends-well", 2)
    reply = running.send(key="never")
    from_provider(reply, 200, THROTTLED)
    assert outcome(reply) == ("rate_limited", "exhausted", 4)
    members = problem(running.send(key="never"), 424, "exhausted", "exhausted")
    assert members["last"]["reason"] == "throttled", "a throttle is no stored success"


@pytest.mark.parametrize(("name", "body"), [
    ("shopify", b'{"errors":[{"message":"Throttled","extensions":{"code":"OTHER"}}]}'),
    ("generic", THROTTLED),
], ids=["message", "not-inspected"])
def test_b11_a_200_that_is_a_success(
    provider: Provider, stint: StartStint, name: str, body: bytes
) -> None:
    provider.script(Step(body=body))
    running = stint(provider=preset(name))
    from_provider(running.send(key="k"), 200, body)
    assert running.send(key="k").stint["replayed"] is True
    assert charged(running, provider, "k", 1)["state"] == "succeeded"


def test_b13_overloaded_on_both_paths(provider: Provider, stint: StartStint) -> None:
    policy = merge(quick_provider(f"{provider.url}/base"), {
        **preset("anthropic"), "budget": {"attempts": 2}, "attempt": {"timeout": "2s"}})
    running = stint(top={"providers": {
        "pay": None, **{name: {**policy, "route": f"/{name}"} for name in ("plain", "stream")}}})
    last = b'{"type":"error","error":{"type":"overloaded_error","message":"2"}}'

    def run(index: int) -> Reply:
        name = ("plain", "stream")[index]
        provider.script(json_step(529, '{"n":1}', [("Retry-After", "2")]),
                        json_step(529, last.decode()), path=f"/base/{name}")
        return running.send(
            path=f"/{name}/{name}", body=b'{"stream":%s}' % (b"false", b"true")[index])

    for path, reply in zip(("plain", "stream"), parallel(2, run)):
        from_provider(reply, 529, last)
        times = [one.monotonic for one in provider.requests if one.path == f"/base/{path}"]
        assert len(times) == 2 and times[1] - times[0] >= 2.0


def test_b13_an_error_inside_a_stream(provider: Provider, stint: StartStint) -> None:
    event = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n'
    provider.script(Step(headers=EVENTS, body=event, framing=Framing.CHUNKED))
    running = stint(provider=preset("anthropic"))
    from_provider(running.send(body=b'{"stream":true}'), 200, event)
    from_provider(running.send(key="k", body=b'{"stream":true}'), 200, event)
    assert provider.count() == 2 and len(running.operations()) == 1


def test_b13_a_stream_that_dies_after_a_delta(provider: Provider, stint: StartStint) -> None:
    event = b'event: content_block_delta\ndata: {"delta":"a"}\n\n'
    provider.script(Step(headers=EVENTS, body=event, framing=Framing.CHUNKED, last_chunk=False))
    running = stint(provider=preset("anthropic"))
    reply = running.send(body=b'{"stream":true}')
    assert (reply.status, reply.body, reply.clean) == (200, event, False)
    assert provider.count() == 1


RESOLVER = Path(__file__).parent / "resolver.c"


@pytest.fixture(scope="module")
def resolver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library to preload, whose getaddrinfo() fails first as a resolver does that is away."""
    library = tmp_path_factory.mktemp("resolver") / "resolver.so"
    subprocess.run(["gcc", "-std=c11", "-D_GNU_SOURCE", "-shared", "-fPIC", "-O1", "-o", library,
                    RESOLVER], check=True)
    return library


def resolving(library: Path, failures: int) -> dict[str, str]:
    """The environment in which the first lookups of shop.test fail, and then it is 127.0.0.1."""
    checks = os.environ.get("ASAN_OPTIONS", "abort_on_error=0:exitcode=86:detect_leaks=1")
    return {"LD_PRELOAD": str(library), "RESOLVER_FAILURES": str(failures),
            "ASAN_OPTIONS": f"{checks}:verify_asan_link_order=0"}


def test_b14_a_resolver_that_comes_back(
    provider: Provider, stint: StartStint, resolver: Path
) -> None:
    running = stint(upstream=f"http://shop.test:{provider.port}", env=resolving(resolver, 2))
    reply = running.send(key="k")
    from_provider(reply, 200)
    assert outcome(reply) == ("success", "succeeded", 3)
    history = running.operation("k")["history"]
    assert [(one["class"], one["effect"]) for one in history] == [
        ("transient", "none"), ("transient", "none"), ("success", "definite")]
    assert [one.get("fault") for one in history] == ["resolve", "resolve", None]
    assert provider.count("k") == 1


def test_b14_a_negative_answer_is_not_kept(
    provider: Provider, stint: StartStint, resolver: Path
) -> None:
    running = stint(upstream=f"http://shop.test:{provider.port}", env=resolving(resolver, 1))
    reply = running.send(key="a", headers=[("Stint-Attempts", "1")])
    problem(reply, 502, "not-sent", "ready")
    time.sleep(1.0)
    from_provider(running.send(key="b"), 200)
    assert running.operation("b")["attempts"] == 1


@pytest.mark.parametrize("keyed", [True, False])
def test_b14_a_name_that_does_not_exist(stint: StartStint, keyed: bool) -> None:
    running = stint(upstream="http://nothing.invalid:8080", provider={"budget": {"attempts": 2}})
    reply = running.send(key="k" if keyed else None)
    assert reply.status in (502, 504), "504: the resolver did not answer at all"
    members = problem(reply, reply.status, "not-sent")
    assert "nothing.invalid" in members["detail"]
    assert running.operations("?state=unknown") == []
    if keyed:
        assert outcome(reply) == ("transient", "exhausted", 2)
        assert {one["effect"] for one in running.operation("k")["history"]} == {"none"}


@contextlib.contextmanager
def black_hole() -> Iterator[int]:
    """A port on which no connection is ever made: its backlog is full, so SYNs are dropped."""
    with contextlib.ExitStack() as opened:
        listener = opened.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            filler = opened.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


@pytest.mark.parametrize("keyed", [True, False])
def test_b15_a_black_hole_is_not_sent(stint: StartStint, keyed: bool) -> None:
    with black_hole() as port:
        running = stint(
            upstream=f"http://127.0.0.1:{port}",
            provider={"attempt": {"connect": "200ms"}, "budget": {"attempts": 2}})
        started = time.monotonic()
        reply = running.send(key="k" if keyed else None)
        assert 0.4 <= time.monotonic() - started < 1.5
        problem(reply, 504, "not-sent")
        assert running.operations("?state=unknown") == [], "nothing to reconcile"
        if keyed:
            assert outcome(reply) == ("transient", "exhausted", 2)


@pytest.mark.parametrize("end", [End.CLOSE, End.RESET])
def test_b15_tls_that_ends_after_the_request(stint: StartStint, end: End) -> None:
    with self_signed() as (context, cert), Provider(tls=context) as secure:
        secure.script(Step(cut_when=When.REQUEST, end=end), key="k")
        running = stint(upstream=secure.url, provider={"tls": {"ca": str(cert)}})
        from_provider(running.send(key="fine"), 200)
        problem(running.send(key="k"), 502, "unknown-outcome", "unknown")
        assert charged(running, secure, "k", 1)["effect"] == "possible"


def test_b15_a_certificate_of_nobody_is_not_sent(stint: StartStint) -> None:
    with self_signed() as (context, _), Provider(tls=context) as secure:
        running = stint(upstream=secure.url, provider={
            "budget": {"attempts": 2}, "attempt": {"connect": "5s"}})
        problem(running.send(key="k"), 502, "not-sent", "exhausted")
        assert secure.count() == 0
        assert {one["fault"] for one in running.operation("k")["history"]} == {"tls"}


@pytest.mark.parametrize("keyed", [True, False])
def test_b15_a_deadline_before_the_connection(stint: StartStint, keyed: bool) -> None:
    with SilentListener() as listener:
        running = stint(
            upstream=f"https://127.0.0.1:{listener.port}",
            provider={"attempt": {"connect": "5s", "least": "50ms"}, "tls": {"verify": False}})
        waits = []
        for key in ("a", "b", "c", "d"):
            started = time.monotonic()
            reply = running.send(
                key=key if keyed else None, headers=[("Stint-Deadline", "0.3")])
            waits.append(time.monotonic() - started)
            problem(reply, 504, "not-sent")
            if keyed:
                record = running.operation(key)
                assert (record["attempts"], record["effect"], record["state"]) == (
                    1, "none", "ready")
        assert 0.25 <= min(waits) < 0.3 + LATE, "a busy machine adds to the others"
        assert running.operations("?state=unknown") == []


def test_b18_only_a_rule_makes_a_permanent_error_repeatable(
    provider: Provider, stint: StartStint
) -> None:
    rule = {"name": "not-there-yet", "when": {"status": 404}, "class": "transient"}
    provider.script(json_step(404, "{}"), json_step(404, "{}"), Step(), key="ruled")
    provider.script(json_step(400, "{}"), key="other")
    running = stint(provider={"rules": [rule]})
    from_provider(running.send(key="ruled"), 200)
    from_provider(running.send(key="other"), 400)
    assert (provider.count("ruled"), provider.count("other")) == (3, 1)


def test_w9_malformed_input(shared: Rig) -> None:
    body = b'{"errors":[{"field":"amount","message":"must be positive"}]}'
    shared.provider.script(json_step(422, body.decode()), Step(), key="w9")
    first = shared.stint.send(key="w9")
    from_provider(first, 422, body)
    assert outcome(first) == ("invalid", "failed", 1) and first.stint["reason"] == "status-422"
    again = shared.stint.send(key="w9")
    from_provider(again, 422, body)
    assert again.stint["replayed"] is True
    record = charged(shared.stint, shared.provider, "w9", 1)
    assert (record["effect"], record["reason"]) == ("none", "status-422")


def test_w13_deferred_until_the_catalogue_is_there(provider: Provider, stint: StartStint) -> None:
    rule = {"name": "catalogue", "class": "deferred", "wait": "600ms",
            "when": {"status": 409, "json": {"/error": "catalogue_not_active"}}}
    body = '{"error":"catalogue_not_active"}'
    for key in ("ruled", "bare", "later"):
        provider.script(json_step(409, body), Step(body=b"ok"), key=key)
    ruled, bare = stint(provider={"rules": [rule]}), stint()
    reply = ruled.send(key="ruled")
    from_provider(reply, 200, b"ok")
    assert gaps(provider, "ruled")[0] >= 0.6
    assert [one["class"] for one in ruled.operation("ruled")["history"]] == [
        "deferred", "success"]
    reply = ruled.send(key="later", headers=[("Stint-Attempts", "1")])
    from_provider(reply, 409)
    assert outcome(reply) == ("deferred", "ready", 1) and reply.stint["reason"] == "catalogue"
    reply = bare.send(key="bare")
    from_provider(reply, 409)
    assert outcome(reply) == ("invalid", "failed", 1)


def test_a_stop_header_only_where_nothing_more_is_admitted(
    provider: Provider, stint: StartStint
) -> None:
    provider.script(json_step(429, "{}"))
    running: Stint = stint(provider=preset("openai"))
    spent = running.send(key="k", headers=[("Stint-Attempts", "1")])
    assert spent.stint["state"] == "ready" and spent.header("x-should-retry") is None
    for status in (429, 424):
        reply = running.send(key="k")
        assert (reply.status, reply.header("x-should-retry")) == (status, "false")
    provider.script(Step(), key="fine")
    assert running.send(key="fine").header("x-should-retry") is None


def test_a_refusal_in_the_providers_own_words(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(body=b'{"ok":false,"error":"internal_error"}'))
    running = stint(provider=preset("slack"))
    first = running.send(key="k")
    from_provider(first, 200, b'{"ok":false,"error":"internal_error"}')
    assert outcome(first) == ("unknown", "unknown", 1)
    reply = running.send(key="k")
    assert (reply.status, reply.json()) == (200, {"ok": False, "error": "unknown"})
    assert reply.stint["made"] is True and reply.stint["state"] == "unknown"
    assert provider.count("k") == 1
    unreachable = stint(upstream=f"http://127.0.0.1:{PORTS.take()}", provider=preset("slack"))
    assert unreachable.send().json() == {"ok": False, "error": "not-sent"}


def test_a_refusal_keeps_its_status_where_the_dialect_names_none(
    provider: Provider, stint: StartStint
) -> None:
    provider.script(json_step(429, "{}"))
    running = stint(provider=preset("stripe"))
    early = running.send(key="k", headers=[("Stint-Attempts", "many")])
    from_provider(running.send(key="k"), 429)
    late = running.send(key="k")
    for reply, status, code in ((early, 400, "hint-invalid"), (late, 424, "exhausted")):
        assert (reply.status, reply.stint["made"]) == (status, True)
        assert reply.header("Content-Type") == "application/json"
        error = reply.json()["error"]
        assert (error["type"], error["code"]) == ("api_error", code) and error["message"]
    assert late.header("Stripe-Should-Retry") == "false"

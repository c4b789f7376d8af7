"""What goes over the wire in both directions, also when a side breaks off."""

from __future__ import annotations

import socket
import time

import pytest
from checks import HONOURS, charged, from_provider, problem, untouched
from conftest import Rig, StartStint
from provider import Provider
from raw_http import Client, Cut, encode, fetch, parallel
from steps import End, Expect, Framing, Interim, Step, When, json_step, pattern
from stint_harness import PORTS, eventually


def test_b21_closed_on_a_reused_connection(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(), Step(cut_when=When.REQUEST), key="ok")
    provider.script(Step(cut_when=When.REQUEST), key="k")
    running = stint(provider={"concurrency": {"limit": 1}})
    from_provider(running.send(key="ok"), 200)
    problem(running.send(key="k"), 502, "unknown-outcome", "unknown")
    charged(running, provider, "k", 1)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_b21_requests_seen_are_attempts_charged(
    provider: Provider, stint: StartStint, method: str
) -> None:
    provider.script(Step(), key="warm")
    provider.script(Step(cut_when=When.REQUEST), key="k")
    running = stint(provider=HONOURS)
    running.send(method, key="warm")
    reply = running.send(method, key="k")
    assert (reply.status, reply.problem) == (502, "unknown-outcome")
    assert provider.count("k") == 4
    if method == "POST":
        charged(running, provider, "k", 4)


def test_b21_a_silent_provider(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(silent=True))
    running = stint(provider={"attempt": {"timeout": "400ms"}})
    started = time.monotonic()
    problem(running.send(key="k"), 504, "unknown-outcome", "unknown")
    assert 0.4 <= time.monotonic() - started < 1.5
    charged(running, provider, "k", 1)


def test_b28_an_unkeyed_post_times_out(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(delay=1.5))
    running = stint(provider={"attempt": {"timeout": "300ms"}})
    reply = running.send(path="/pay/charge?token=geheim&a=1")
    members = problem(reply, 504, "unknown-outcome", "unknown")
    record = running.operation(members["key"])
    assert (record["state"], record["attempts"], record["unresolved"]) == ("unknown", 1, 1)
    assert record["method"] == "POST" and record["target"].startswith("/charge")
    assert "geheim" not in str(record)
    assert record["created"] and record["history"][0]["at"]
    assert [one["key"] for one in running.operations("?state=unknown")] == [members["key"]]
    assert provider.count() == 1
    assert running.metric("stint_unknown_outcomes", provider="pay") == 1


@pytest.mark.parametrize("status", [502, 504])
def test_b28_an_unkeyed_post_gets_a_bad_gateway(
    provider: Provider, stint: StartStint, status: int
) -> None:
    provider.script(Step(status=status, body=b"theirs"))
    running = stint()
    from_provider(running.send(), status, b"theirs")
    assert provider.count() == 1
    (record,) = running.operations("?state=unknown")
    assert (record["status"], record["attempts"]) == (status, 1)


def test_b28_an_unkeyed_post_may_repeat_429(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(status=429), Step(body=b"ok"))
    from_provider(stint().send(), 200, b"ok")
    assert provider.count() == 2


def test_b28_a_get_is_retried(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(silent=True), Step(status=504), Step(body=b"ok"))
    running = stint(provider={"attempt": {"timeout": "300ms"}})
    from_provider(running.send("GET"), 200, b"ok")
    assert provider.count() == 3


@pytest.mark.parametrize("keyed", [True, False])
def test_b29_full_read_then_reset(provider: Provider, stint: StartStint, keyed: bool) -> None:
    provider.script(Step(), Step(cut_when=When.REQUEST, end=End.RESET), Step(body=b"next"))
    running = stint()
    with Client(running.port) as client:
        for number, status in enumerate((200, 502, 200)):
            headers = [("Idempotency-Key", f"k{number}")] if keyed else []
            client.send(encode("POST", "/pay/x", headers, b"x"))
            reply = client.read_reply()
            assert reply.status == status and reply.clean
            if status == 502:
                assert reply.problem == "unknown-outcome" and reply.stint["state"] == "unknown"
    assert reply.body == b"next", "one failed request does not poison the next"
    assert provider.count() == 3


def test_b29_the_idle_close_race_is_not_met(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(idle=0.3))
    running = stint(provider={"attempt": {"reuse": "150ms"}})

    def run(worker: int) -> list[int]:
        statuses = []
        for turn in range(5):
            statuses.append(running.send(key=f"k{worker}-{turn}").status)
            time.sleep(0.297 + 0.001 * turn)
        return statuses

    assert parallel(8, run) == [[200] * 5] * 8
    assert provider.count() == 40


def test_connections_are_reused_while_fresh(provider: Provider, stint: StartStint) -> None:
    running = stint(top={"workers": 1})
    for number in range(10):
        assert running.send(key=f"k{number}").status == 200
    assert provider.connections <= 2


def test_b33_a_stall_after_the_first_byte(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(body=b"abcdef", stall_at=1))
    running = stint(provider={**HONOURS, "attempt": {"idle": "600ms"}})
    with Client(running.port) as client:
        client.send(encode("POST", "/pay/x", [("Idempotency-Key", "k")], b"x"))
        head = client.read_head()
        assert head.status == 200
        pieces = client.pieces(head)
        assert next(pieces) == b"a"
        with pytest.raises((Cut, ConnectionError)):
            next(pieces)
    record = eventually(lambda: running.operation("k"), lambda it: it["state"] != "attempting")
    assert record["unresolved"] == 1 and provider.count("k") == 1


def test_b33_an_event_stream_is_cut(provider: Provider, stint: StartStint) -> None:
    events = b"".join(b"data: %03d\n\n" % number for number in range(40))
    provider.script(Step(
        headers=[("Content-Type", "text/event-stream")], body=events, piece=11, piece_delay=0.02,
        framing=Framing.CHUNKED, last_chunk=False))
    running = stint()
    with Client(running.port) as client:
        client.send(encode("POST", "/pay/x", [("Idempotency-Key", "k")], b"x"))
        started = time.monotonic()
        head = client.read_head()
        pieces = client.pieces(head)
        got = next(pieces)
        assert time.monotonic() - started < 0.5, "events are not held back until the end"
        with pytest.raises((Cut, ConnectionError)):
            for piece in pieces:
                got += piece
    assert head.status == 200 and got == events
    assert provider.count("k") == 1
    record = eventually(lambda: running.operation("k"), lambda it: it["state"] != "attempting")
    assert record["state"] == "unknown"


def test_an_event_stream_that_ends_well(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(
        headers=[("Content-Type", "text/event-stream")], body=b"data: 1\n\ndata: 2\n\n", piece=9,
        piece_delay=0.2, framing=Framing.CHUNKED))
    running = stint()
    reply = running.send(key="k")
    from_provider(reply, 200, b"data: 1\n\ndata: 2\n\n")
    record = eventually(lambda: running.operation("k"), lambda it: it["state"] != "attempting")
    assert record["state"] == "succeeded"
    from_provider(running.send(key="k"), 200, b"data: 1\n\ndata: 2\n\n")
    assert provider.count("k") == 1


@pytest.mark.parametrize("step", [
    Step(body=b"abc", framing=Framing.CHUNKED, last_chunk=False),
    Step(body=b"abc", length=10, close=True),
    Step(body=2000, cut_at=500, end=End.RESET),
], ids=["chunked", "length", "reset"])
def test_b33_a_reply_cut_at_once(provider: Provider, stint: StartStint, step: Step) -> None:
    provider.script(step)
    running = stint()
    reply = running.send(key="k")
    if reply.status == 200:
        assert not reply.clean and step.payload().startswith(reply.body)
    else:
        problem(reply, 502, "unknown-outcome", "unknown")
    charged(running, provider, "k", 1)
    problem(running.send(key="k"), 424, "unknown", "unknown")


def test_b33_a_cut_reply_is_unknown_whatever_its_status(
    provider: Provider, stint: StartStint
) -> None:
    provider.script(Step(status=422, body=b"abc", length=10, close=True))
    running = stint()
    running.send(key="k")
    record = charged(running, provider, "k", 1)
    assert (record["state"], record["status"]) == ("unknown", 422)


def test_b33_a_discarded_attempt_leaves_nothing(provider: Provider, stint: StartStint) -> None:
    provider.script(
        Step(status=503, headers=[("X-A", "1"), ("Set-Cookie", "a=1")], body=b"discarded"),
        Step(headers=[("X-B", "2")], body=b"kept"))
    reply = stint(provider=HONOURS).send(key="k")
    from_provider(reply, 200, b"kept")
    assert reply.header("X-A") is None and reply.all("Set-Cookie") == []
    assert reply.header("X-B") == "2"


def test_b36_the_providers_error_passes(shared: Rig) -> None:
    body = b'{"error": {"code": "boom", "message": "\\u00e4"}}'
    headers = [("Content-Type", "application/json"), ("X-Request-Id", "r1")]
    shared.provider.script(Step(status=500, reason="Oh No", headers=headers, body=body), key="e")
    reply = shared.stint.send(key="e")
    from_provider(reply, 500, body)
    assert reply.header("X-Request-Id") == "r1"


def test_b36_the_last_of_several_passes(provider: Provider, stint: StartStint) -> None:
    provider.script(*[Step(status=503, body=b"%d" % n, headers=[("X-N", str(n))])
                      for n in range(1, 5)])
    reply = stint().send("GET")
    from_provider(reply, 503, b"4")
    assert reply.header("X-N") == "4" and provider.count() == 4


def test_b36_a_get_that_could_not_be_sent(stint: StartStint) -> None:
    reply = stint(upstream=f"http://127.0.0.1:{PORTS.take()}").send("GET")
    assert (reply.status, reply.problem) == (502, "not-sent")
    assert reply.stint["made"] is True and reply.stint["reason"]


def test_b36_the_marker_is_ours_alone(shared: Rig) -> None:
    forged = [("Stint", "made, state=failed"), ("Stint-Extra", "x"), ("X-Fine", "1")]
    shared.provider.script(Step(headers=forged), key="forged")
    reply = shared.stint.send(key="forged", headers=[("Stint-Whatever", "1"), ("Stint", "made")])
    assert len(reply.all("Stint")) == 1
    assert reply.stint["state"] == "succeeded" and "made" not in reply.stint
    (request,) = shared.provider.of("forged")
    assert [line for line in request.lines if line.lower().startswith(b"stint")] == []
    shared.provider.script(Step(headers=forged), path="/base/forged")
    reply = shared.stint.send("GET", "/pay/forged")
    assert reply.header("Stint") is None and reply.header("X-Fine") == "1"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_b50_redirects_are_passed_on(shared: Rig, status: int) -> None:
    with Provider() as other:
        location = f"{other.url}/elsewhere"
        key = f"redirect-{status}"
        shared.provider.script(
            Step(status=status, headers=[("Location", location)], body=b"go there"), key=key)
        reply = shared.stint.send(key=key)
        from_provider(reply, status, b"go there")
        assert reply.header("Location") == location
        charged(shared.stint, shared.provider, key, 1)
        assert other.count() == other.connections == 0


def test_the_request_goes_out_as_it_came(shared: Rig) -> None:
    headers = [
        ("X-Order", "1"), ("x-order", "2"), ("Authorization", "Bearer t"), ("Cookie", "c=1"),
        ("X-Empty", ""), ("X-Latin", "\xe4"),
        ("Connection", "X-Drop, keep-alive"), ("X-Drop", "1"), ("Keep-Alive", "timeout=5"),
        ("Proxy-Authorization", "Basic x"), ("TE", "trailers"), ("Idempotency-Key", "headers"),
    ]
    body = pattern(5000)
    target = "/pay/a/../b//c;d=%2F%41?q=1&q=%20+[]"
    reply = fetch(shared.stint.port, "POST", target, headers, body)
    from_provider(reply, 200)
    (request,) = shared.provider.of("headers")
    assert request.target == b"/base/a/../b//c;d=%2F%41?q=1&q=%20+[]"
    assert request.body == body and request.all("Content-Length") == ["5000"]
    assert request.all("Host") == [f"127.0.0.1:{shared.provider.port}"]
    assert request.all("x-order") == ["1", "2"]
    assert request.header("Authorization") == "Bearer t" and request.header("Cookie") == "c=1"
    assert request.header("X-Empty") == "" and request.header("X-Latin") == "\xe4"
    assert request.header("Via") is not None
    for name in ("X-Drop", "Keep-Alive", "Proxy-Authorization", "TE", "User-Agent", "Accept",
                 "Expect", "Content-Type", "Accept-Encoding"):
        assert request.header(name) is None, f"{name} must not go out"


def test_an_operation_key_cannot_be_hop_by_hop(provider: Provider, stint: StartStint) -> None:
    running = stint()
    for name in ("Idempotency-Key", "authorization"):
        reply = running.send(key="k", headers=[("Connection", name), ("Authorization", "x")])
        assert (reply.status, reply.problem) == (400, "bad-request")
    untouched(running, provider)


def test_the_reply_comes_as_it_was_sent(shared: Rig) -> None:
    headers = [
        ("Set-Cookie", "a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT"), ("Set-Cookie", "b=2"),
        ("ETag", 'W/"x"'), ("X-Latin", "\xe4"), ("Connection", "X-Hop"), ("X-Hop", "1"),
        ("Server", "theirs"), ("Date", "Tue, 20 Oct 2026 07:28:00 GMT"),
    ]
    shared.provider.script(Step(headers=headers, body=pattern(3000)), key="reply")
    reply = shared.stint.send(key="reply")
    from_provider(reply, 200, pattern(3000))
    assert reply.all("Set-Cookie") == ["a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT", "b=2"]
    assert reply.header("ETag") == 'W/"x"' and reply.header("X-Latin") == "\xe4"
    assert reply.header("X-Hop") is None and reply.header("Server") == "theirs"
    assert reply.header("Date") == "Tue, 20 Oct 2026 07:28:00 GMT"


def test_bodies_of_every_size_and_framing(provider: Provider, stint: StartStint) -> None:
    running = stint(provider={**HONOURS, "body": {"memory": "4KiB", "max": "64KiB"}})
    for size in (0, 1, 4095, 4096, 4097, 65535, 65536):
        for chunked in (False, True):
            key = f"{size}-{chunked}"
            provider.script(Step(status=503), Step(body=size), key=key)
            headers = [("Idempotency-Key", key)]
            reply = fetch(running.port, "POST", "/pay/x", headers, pattern(size), chunked)
            from_provider(reply, 200, pattern(size))
            first, second = provider.of(key)
            assert first.sha256 == second.sha256 and first.body == second.body == pattern(size)


def test_b32_a_body_over_the_limit_is_streamed_once(provider: Provider, stint: StartStint) -> None:
    running = stint(provider={
        **HONOURS, "body": {"memory": "4KiB", "max": "64KiB"}})
    for chunked in (False, True):
        key = f"over-{chunked}"
        provider.script(Step(status=503, body=b"busy"), Step(), key=key)
        body = pattern(300_000)
        reply = fetch(running.port, "POST", "/pay/x", [("Idempotency-Key", key)], body, chunked)
        from_provider(reply, 503, b"busy")
        assert reply.stint["reason"] == "body-not-replayable"
        (request,) = provider.of(key)
        assert request.body == body
        charged(running, provider, key, 1)


def test_bodies_of_replies_of_every_size(shared: Rig) -> None:
    for size in (0, 1, 65535, 65536, 65537, 3_000_000):
        for framing in (Framing.LENGTH, Framing.CHUNKED, Framing.CLOSE):
            key = f"reply-{size}-{framing.value}"
            shared.provider.script(Step(body=size, framing=framing, piece=50_000), key=key)
            from_provider(shared.stint.send(key=key), 200, pattern(size))


def test_head_and_bodiless_statuses(shared: Rig) -> None:
    shared.provider.script(Step(body=b"12345"), path="/base/head")
    reply = shared.stint.send("HEAD", "/pay/head")
    assert reply.status == 200 and reply.header("Content-Length") == "5"
    for status in (204, 304):
        shared.provider.script(Step(status=status, framing=Framing.NONE), path="/base/none")
        for method in ("GET", "HEAD"):
            with Client(shared.stint.port) as client:
                client.send(encode(method, "/pay/none"))
                reply = client.read_reply(method)
                assert (reply.status, reply.header("Transfer-Encoding")) == (status, None)
                assert reply.header("Connection") == "close" or not client.ended(0.2)


def test_upstream_interim_replies_are_dropped(shared: Rig) -> None:
    for early in (False, True):
        key = f"interim-{early}"
        shared.provider.script(
            Step(interim=[Interim(), Interim(102, "Processing")], interim_early=early, delay=0.05,
                 body=b"final"), key=key)
        reply = shared.stint.send(key=key)
        from_provider(reply, 200, b"final")
        assert reply.interim == []


@pytest.mark.parametrize("expect", [Expect.CONTINUE, Expect.IGNORE, Expect.REFUSE])
def test_b34_expect_is_answered_here(shared: Rig, expect: Expect) -> None:
    key = f"expect-{expect.value}"
    shared.provider.script(Step(expect=expect, body=b"ok"), key=key)
    head = [("Expect", "100-continue"), ("Content-Length", "3"), ("Idempotency-Key", key)]
    with Client(shared.stint.port) as client:
        client.send(encode("POST", "/pay/x", head))
        client.socket.settimeout(1.0)
        assert client.socket.recv(1000).startswith(b"HTTP/1.1 100 ")
        client.send(b"abc")
        reply = client.read_reply()
    from_provider(reply, 200, b"ok")
    (request,) = shared.provider.of(key)
    assert request.header("Expect") is None and request.body == b"abc"


def test_trailers_are_dropped(shared: Rig) -> None:
    with Client(shared.stint.port) as client:
        client.send(encode("POST", "/pay/x", [("Idempotency-Key", "trailer"),
                                              ("Transfer-Encoding", "chunked")])
                    + b"3\r\nabc\r\n0\r\nX-Trailer: 1\r\n\r\n")
        from_provider(client.read_reply(), 200)
    (request,) = shared.provider.of("trailer")
    assert request.body == b"abc" and request.header("X-Trailer") is None


def test_only_the_upstream_is_dialled(shared: Rig) -> None:
    with Provider() as other:
        for path in (f"/pay//127.0.0.1:{other.port}/x", f"/pay/@127.0.0.1:{other.port}/",
                     f"/pay@127.0.0.1:{other.port}/"):
            shared.stint.send("GET", path)
        assert other.connections == 0


def test_proxy_variables_are_ignored(provider: Provider, stint: StartStint) -> None:
    with Provider() as other:
        running = stint(env={"http_proxy": other.url, "ALL_PROXY": other.url})
        from_provider(running.send(key="k"), 200)
        assert other.connections == 0 and provider.count("k") == 1


def test_pipelined_requests_are_answered_in_order(shared: Rig) -> None:
    shared.provider.script(lambda request: Step(body=request.target), path="/base/1")
    shared.provider.script(lambda request: Step(body=request.target), path="/base/2")
    with Client(shared.stint.port) as client:
        client.send(encode("GET", "/pay/1") + encode("GET", "/pay/2"))
        assert client.read_reply().body == b"/base/1"
        assert client.read_reply().body == b"/base/2"


def test_a_half_closed_caller_gets_its_answer(shared: Rig) -> None:
    shared.provider.script(Step(delay=0.2, body=b"ok"), key="half")
    with Client(shared.stint.port) as client:
        client.send(encode("POST", "/pay/x", [("Idempotency-Key", "half")], b"x"))
        client.socket.shutdown(socket.SHUT_WR)
        from_provider(client.read_reply(), 200, b"ok")


def test_garbage_from_the_provider(shared: Rig) -> None:
    for name, line in {"space": ("X Bad", "1"), "te": ("Transfer-Encoding", "gzip, xyz")}.items():
        shared.provider.script(Step(headers=[line], close=True), key=f"garbage-{name}")
        reply = shared.stint.send(key=f"garbage-{name}")
        assert reply.status in (200, 502) and reply.clean
        assert shared.provider.count(f"garbage-{name}") == 1


def test_no_header_injection_by_the_provider(shared: Rig) -> None:
    shared.provider.script(json_step(200, "{}", [("X-A", "b\rInjected: 1")]), key="inj")
    reply = shared.stint.send(key="inj")
    assert reply.status in (200, 502)
    assert reply.header("Injected") is None and b"\rInjected" not in reply.raw_head

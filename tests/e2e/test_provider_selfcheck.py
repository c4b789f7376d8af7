"""The scripted provider and the raw client do what they say; everything else rests on that."""

from __future__ import annotations

import hashlib
import re
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

import pytest
from provider import Provider, SilentListener, self_signed
from raw_http import Client, Cut, Reply, encode, fetch, parallel, parse_stint
from steps import End, Expect, Framing, Greeting, Interim, Step, When, pattern

PROGRAM = Path(__file__).resolve().parents[1] / "provider" / "provider.py"


def post(provider: Provider, key: str = "k") -> Reply:
    return fetch(provider.port, "POST", "/p", [("Idempotency-Key", key)], b"x")


def test_steps_come_in_order_and_the_last_repeats(provider: Provider) -> None:
    provider.script(Step(status=503, reason="Nope"), Step(status=200, body=b"yes"))
    replies = [fetch(provider.port, "GET", "/") for _ in range(3)]
    assert [reply.status for reply in replies] == [503, 200, 200]
    assert replies[0].reason == "Nope"
    assert replies[2].body == b"yes" and replies[2].clean


def test_a_script_is_chosen_by_key_then_path_then_default(provider: Provider) -> None:
    provider.script(Step(status=201), key="a")
    provider.script(Step(status=202), path="/x")
    key = [("Idempotency-Key", "a")]
    assert fetch(provider.port, "POST", "/x", key, b"").status == 201
    assert fetch(provider.port, "POST", "/x?y=1", [("X-Op-Key", "b")], b"").status == 202
    assert fetch(provider.port, "GET", "/z").status == 200
    assert provider.count("a") == provider.count("b") == 1
    assert provider.count() == 3


def test_the_record_of_a_request(provider: Provider) -> None:
    body = pattern(3000)
    with Client(provider.port) as client:
        for chunked in (False, True):
            client.send(encode("POST", "/a/../b?q=%0d", [("X-One", "1"), ("x-one", "2")], body,
                               chunked))
            assert client.read_reply().status == 200
    first, second = provider.requests
    assert (first.method, first.target, first.version) == ("POST", b"/a/../b?q=%0d", b"HTTP/1.1")
    assert first.lines[:3] == [b"Host: 127.0.0.1", b"X-One: 1", b"x-one: 2"]
    assert first.all("x-one") == ["1", "2"]
    assert (first.connection, first.number) == (1, 1)
    assert (second.connection, second.number) == (1, 2)
    for request in (first, second):
        assert request.complete and request.length == 3000 and request.body == body
        assert request.sha256 == hashlib.sha256(body).hexdigest()
    assert abs(first.wall - time.time()) < 10 and first.monotonic <= second.monotonic


@pytest.mark.parametrize("framing", [Framing.LENGTH, Framing.CHUNKED, Framing.CLOSE])
def test_framings_and_pieces(provider: Provider, framing: Framing) -> None:
    provider.script(Step(body=5000, framing=framing, piece=700, piece_delay=0.002))
    started = time.monotonic()
    reply = fetch(provider.port, "GET", "/")
    assert reply.clean and reply.body == pattern(5000)
    assert time.monotonic() - started >= 0.014
    assert (reply.header("Content-Length") is not None) == (framing is Framing.LENGTH)


def test_head_has_no_body(provider: Provider) -> None:
    provider.script(Step(body=b"hidden"), Step(status=204, framing=Framing.NONE))
    with Client(provider.port) as client:
        client.send(encode("HEAD", "/"))
        assert client.read_reply("HEAD").header("Content-Length") == "6"
        client.send(encode("GET", "/"))
        assert client.read_reply().header("Content-Length") is None


def test_delay_before_the_head(provider: Provider) -> None:
    provider.script(Step(delay=0.1))
    started = time.monotonic()
    fetch(provider.port, "GET", "/")
    assert 0.1 <= time.monotonic() - started < 1.0


@pytest.mark.parametrize("early", [False, True])
def test_interim_heads(provider: Provider, early: bool) -> None:
    hints = [Interim(), Interim(102, "Processing", [("X-Wait", "1")])]
    provider.script(Step(interim=hints, interim_early=early, delay=0.02, body=b"ok"))
    reply = fetch(provider.port, "GET", "/")
    assert reply.interim == [103, 102] and reply.status == 200 and reply.body == b"ok"


def test_wrong_content_length_and_missing_last_chunk(provider: Provider) -> None:
    provider.script(
        Step(body=b"abc", length=10, close=True),
        Step(body=b"abc", framing=Framing.CHUNKED, last_chunk=False),
        Step(body=b"abcdef", length=2, close=True),
    )
    replies = [fetch(provider.port, "GET", "/") for _ in range(3)]
    assert [(reply.body, reply.clean) for reply in replies] == [
        (b"abc", False), (b"abc", False), (b"ab", True),
    ]


@pytest.mark.parametrize("end", list(End))
def test_cut_in_the_body(provider: Provider, end: End) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"
    provider.script(Step(body=100, cut_at=len(head) + 7, end=end))
    reply = fetch(provider.port, "GET", "/")
    assert not reply.clean and reply.body == pattern(7)
    assert not provider.requests[0].replied


@pytest.mark.parametrize("when", list(When))
@pytest.mark.parametrize("end", list(End))
def test_cut_without_a_byte(provider: Provider, when: When, end: End) -> None:
    provider.script(Step(cut_when=when, end=end))
    with pytest.raises(ConnectionResetError if end is End.RESET else (Cut, ConnectionResetError)):
        post(provider)
    (request,) = provider.requests
    assert request.complete == (when is When.REQUEST)


def test_half_close_keeps_reading(provider: Provider) -> None:
    provider.script(Step(cut_when=When.REQUEST, end=End.HALF))
    with Client(provider.port) as client:
        client.send(encode("POST", "/", (), b"x"))
        assert client.ended()
        client.send(b"more")
        client.send(b"and more")


def test_silent_and_stalled_replies(provider: Provider) -> None:
    provider.script(
        Step(silent=True), Step(body=b"abc", stall_at=1), Step(body=b"abc", stall_at=1,
                                                               stall_for=0.1))
    with Client(provider.port, timeout=0.1) as client:
        client.send(encode("GET", "/"))
        with pytest.raises(TimeoutError):
            client.read_head()
    with Client(provider.port, timeout=0.1) as client:
        client.send(encode("GET", "/"))
        pieces = client.pieces(client.read_head())
        assert next(pieces) == b"a"
        with pytest.raises(TimeoutError):
            next(pieces)
    assert fetch(provider.port, "GET", "/").body == b"abc"


def test_expect(provider: Provider) -> None:
    provider.script(
        Step(), Step(expect=Expect.IGNORE), Step(expect=Expect.REFUSE))
    head = encode("POST", "/", [("Expect", "100-continue"), ("Content-Length", "2")])
    with Client(provider.port) as client:
        client.send(head)
        time.sleep(0.02)
        client.send(b"ab")
        assert client.read_reply().interim == [100]
    with Client(provider.port) as client:
        client.send(head + b"ab")
        assert client.read_reply().interim == []
    with Client(provider.port) as client:
        client.send(head)
        assert client.read_reply().status == 417
        assert client.ended()
    assert [request.complete for request in provider.requests] == [True, True, False]


def test_idle_close(provider: Provider) -> None:
    provider.script(Step(idle=0.05))
    with Client(provider.port) as client:
        client.send(encode("GET", "/"))
        client.read_reply()
        started = time.monotonic()
        assert client.ended()
        assert 0.04 <= time.monotonic() - started < 1.0


def test_greetings(provider: Provider) -> None:
    provider.greet(Greeting.RESET, Greeting.CLOSE, Greeting.SILENT, Greeting.SERVE)
    for error in (ConnectionError, (Cut, ConnectionError), TimeoutError):
        with pytest.raises(error), Client(provider.port, timeout=0.1) as client:
            client.send(encode("GET", "/"))
            client.read_head()
    assert fetch(provider.port, "GET", "/").status == 200
    assert provider.count() == 1 and provider.connections == 4


def test_a_script_may_be_a_function(provider: Provider) -> None:
    provider.script(lambda request: Step(body=request.target))
    assert fetch(provider.port, "GET", "/echo").body == b"/echo"


def test_wait_for(provider: Provider) -> None:
    with pytest.raises(TimeoutError):
        provider.wait_for(1, timeout=0.02)
    post(provider, "a")
    assert provider.wait_for(1, "a")[0].key == "a"
    assert provider.of("a") == provider.requests


def test_many_at_once(provider: Provider) -> None:
    provider.script(Step(delay=0.1))
    started = time.monotonic()
    replies = parallel(50, lambda index: post(provider, f"k{index}"))
    assert all(reply.status == 200 for reply in replies)
    assert time.monotonic() - started < 2.0
    assert provider.count() == provider.connections == 50


def test_malformed_bytes_get_400(provider: Provider) -> None:
    with Client(provider.port) as client:
        client.send(b"nonsense\r\n\r\n")
        assert client.read_reply().status == 400


def test_tls() -> None:
    with self_signed() as (context, certificate), Provider(tls=context) as provider:
        trust = ssl.create_default_context(cafile=str(certificate))
        plain = socket.create_connection(("127.0.0.1", provider.port), 5)
        with trust.wrap_socket(plain, server_hostname="localhost") as secure:
            secure.sendall(encode("GET", "/"))
            assert secure.recv(100).startswith(b"HTTP/1.1 200 OK\r\n")
        assert provider.count() == 1


def test_a_listener_that_never_speaks_tls() -> None:
    with SilentListener() as listener:
        plain = socket.create_connection(("127.0.0.1", listener.port), 5)
        plain.settimeout(0.1)
        with pytest.raises(TimeoutError):
            ssl.create_default_context().wrap_socket(plain, server_hostname="localhost")


def test_the_demo_program() -> None:
    program = subprocess.Popen([sys.executable, str(PROGRAM), "--demo"], stdout=subprocess.PIPE,
                               text=True)
    try:
        assert program.stdout is not None
        match = re.search(r":(\d+)$", program.stdout.readline().strip())
        assert match
        port = int(match[1])

        def pay(plan: str, key: str) -> int:
            return fetch(port, "POST", f"/pay?plan={plan}", [("Idempotency-Key", key)], b"").status

        assert pay("ok", "a") == 200
        assert [pay("flaky", "b") for _ in range(3)] == [503, 503, 200]
        with pytest.raises((Cut, ConnectionError)):
            pay("lost", "c")
        assert pay("invalid", "d") == 422 and pay("auth", "e") == 401
        assert [pay("limited", "f") for _ in range(2)] == [429, 200]
        charges = fetch(port, "GET", "/charges").json()
        assert charges["total"] == 4
        assert charges["charges"]["c"] == {"requests": 1, "count": 1, "ids": ["pay_3"]}
        assert charges["charges"]["d"]["count"] == 0
        assert program.stdout.readline() == "POST /pay key=a plan=ok -> 200 pay_1\n"
    finally:
        program.terminate()
        program.wait(5)
        program.stdout.close()


def test_parse_stint() -> None:
    text = "state=ready, class=rate_limited, attempts=2, limit=5, replayed=?0, next=12.0, made"
    assert parse_stint(text) == {
        "state": "ready", "class": "rate_limited", "attempts": 2, "limit": 5, "replayed": False,
        "next": 12.0, "made": True,
    }
    for bad in ("State=x", "a=1, a=2", "a=1.2345", 'a="x"', "a=1,", ""):
        with pytest.raises(AssertionError):
            parse_stint(bad)

"""Malformed requests never get past the front: an error, the connection closed, nothing charged.

libmicrohttpd 0.9.75 answers 200 to most of these by itself (measured); nginx refuses them.
"""

from __future__ import annotations

import subprocess
import time

import pytest
from checks import from_provider, untouched
from conftest import StartStint
from provider import Provider
from raw_http import Client, Cut, encode

# From 1.0 on the library itself refuses some of what the front would: an unknown coding with 400
# instead of 501, a NUL in the target by closing without a word.
LIBRARY = subprocess.run(
    ["pkg-config", "--modversion", "libmicrohttpd"], capture_output=True, text=True, check=True
).stdout.strip()
LIBRARY_IS_STRICT = int(LIBRARY.split(".")[0]) >= 1

HEAD = b"POST /pay/x HTTP/1.1\r\n"
HOST = b"Host: stint.test\r\n"
KEY = b"Idempotency-Key: k\r\n"
TE = b"Transfer-Encoding: chunked\r\n"
LENGTH = b"Content-Length: 3\r\n"
CHUNKS = b"3\r\nabc\r\n0\r\n\r\n"

BAD: dict[str, bytes] = {
    "length and coding": HEAD + HOST + KEY + LENGTH + TE + b"\r\n" + CHUNKS,
    "coding and length": HEAD + HOST + KEY + TE + LENGTH + b"\r\n" + CHUNKS,
    "two different lengths": HEAD + HOST + KEY + LENGTH + b"Content-Length: 5\r\n\r\nabcde",
    "two equal lengths": HEAD + HOST + KEY + LENGTH + LENGTH + b"\r\nabc",
    "length list": HEAD + HOST + KEY + b"Content-Length: 3, 3\r\n\r\nabc",
    "signed length": HEAD + HOST + KEY + b"Content-Length: +3\r\n\r\nabc",
    "negative length": HEAD + HOST + KEY + b"Content-Length: -3\r\n\r\nabc",
    "hexadecimal length": HEAD + HOST + KEY + b"Content-Length: 0x3\r\n\r\nabc",
    "empty length": HEAD + HOST + KEY + b"Content-Length:\r\n\r\n",
    "overflowing length": HEAD + HOST + KEY + b"Content-Length: 18446744073709551619\r\n\r\nabc",
    "coding with a space": HEAD + HOST + KEY + b"Transfer-Encoding : chunked\r\n\r\n" + CHUNKS,
    "length with a space": HEAD + HOST + KEY + b"Content-Length : 3\r\n\r\nabc",
    "name with a space": HEAD + HOST + KEY + LENGTH + b"X Y: 1\r\n\r\nabc",
    "empty name": HEAD + HOST + KEY + LENGTH + b": 1\r\n\r\nabc",
    "line without a colon": HEAD + HOST + KEY + LENGTH + b"nonsense\r\n\r\nabc",
    "two codings": HEAD + HOST + KEY + TE + TE + b"\r\n" + CHUNKS,
    "chunked twice": HEAD + HOST + KEY + b"Transfer-Encoding: chunked, chunked\r\n\r\n" + CHUNKS,
    "two hosts": HEAD + HOST + HOST + KEY + LENGTH + b"\r\nabc",
    "no host": HEAD + KEY + LENGTH + b"\r\nabc",
    "NUL in a value": HEAD + HOST + KEY + LENGTH + b"X-A: a\0b\r\n\r\nabc",
    "NUL in the key": HEAD + HOST + b"Idempotency-Key: k\0x\r\n" + LENGTH + b"\r\nabc",
    "bare CR in a value": HEAD + HOST + KEY + LENGTH + b"X-A: a\rb\r\n\r\nabc",
    "bare LF ends a line": HEAD + HOST + KEY + LENGTH + b"X-A: a\nX-B: b\r\n\r\nabc",
    "folded line": HEAD + HOST + KEY + LENGTH + b"X-A: a\r\n b\r\n\r\nabc",
    "folded key": HEAD + HOST + b"Idempotency-Key: k\r\n x\r\n" + LENGTH + b"\r\nabc",
    "folded coding": HEAD + HOST + KEY + b"Transfer-Encoding:\r\n chunked\r\n\r\n" + CHUNKS,
    "folded length": HEAD + HOST + KEY + b"Content-Length: 3\r\n 4\r\n\r\nabc",
    "fold before any header": HEAD + b" X: 1\r\n" + HOST + KEY + LENGTH + b"\r\nabc",
    "HTTP/1.0 chunked": b"POST /pay/x HTTP/1.0\r\n" + HOST + KEY + TE + b"\r\n" + CHUNKS,
    "absolute-form target": b"POST http://stint.test/pay/x HTTP/1.1\r\n" + HOST + KEY + LENGTH
    + b"\r\nabc",
    "asterisk target": b"POST * HTTP/1.1\r\n" + HOST + KEY + LENGTH + b"\r\nabc",
    "no leading slash": b"POST pay/x HTTP/1.1\r\n" + HOST + KEY + LENGTH + b"\r\nabc",
    "CONNECT": b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n",
    "space in the target": b"POST /pay/x y HTTP/1.1\r\n" + HOST + KEY + LENGTH + b"\r\nabc",
    "NUL in the target": b"POST /pay/x\0y HTTP/1.1\r\n" + HOST + KEY + LENGTH + b"\r\nabc",
    "no version": b"POST /pay/x\r\n" + HOST + KEY + LENGTH + b"\r\nabc",
    "future version": b"POST /pay/x HTTP/3.1\r\n" + HOST + KEY + LENGTH + b"\r\nabc",
    "bad method": b"PO(ST /pay/x HTTP/1.1\r\n" + HOST + KEY + LENGTH + b"\r\nabc",
    "bad chunk size": HEAD + HOST + KEY + TE + b"\r\nzz\r\nabc\r\n0\r\n\r\n",
    "negative chunk size": HEAD + HOST + KEY + TE + b"\r\n-3\r\nabc\r\n0\r\n\r\n",
}

UNKNOWN_CODING: dict[str, bytes] = {
    "gzip": b"gzip",
    "unheard of": b"xyz",
    "gzip then chunked": b"gzip, chunked",
    "identity": b"identity",
}


# libmicrohttpd 0.9.75 refuses these by itself, before the front sees a header. It then writes the
# head of its 400 twice (measured), and 413 for a length beyond 64 bits: nothing more is asked of
# the reply than a status of refusal and the end of the connection.
LIBRARY_REFUSES = ("signed length", "negative length", "hexadecimal length", "empty length",
                   "length list", "overflowing length")
# Broken in the body: the front may end the connection where it can no longer answer.
MAY_BE_SILENT = ("bad chunk size", "negative chunk size")


def refused(
    running_port: int, request: bytes, statuses: tuple[int, ...], silent: bool = False,
    rest: bool = False,
) -> None:
    """The request gets one of the statuses (or, if `silent`, no answer), and then the end.

    With `rest` there may be more bytes between the two.
    """
    with Client(running_port, timeout=5.0) as client:
        client.send(request)
        try:
            reply = client.read_reply()
        except (Cut, ConnectionError):
            assert silent, "the connection ended without an answer"
            return
        assert reply.status in statuses, f"{reply.status} {reply.body!r}"
        if rest:
            while client.socket.recv(4096):
                pass
        else:
            assert client.ended(), "the connection stays open"


@pytest.mark.parametrize("name", BAD)
def test_malformed(provider: Provider, stint: StartStint, name: str) -> None:
    running = stint()
    # What libmicrohttpd itself refuses may carry a status of its own, all of them 4xx or 505.
    own = (404, 405) if name in ("asterisk target", "CONNECT", "no leading slash") else ()
    own += (413,) if name == "overflowing length" else ()
    silent = name in MAY_BE_SILENT or (LIBRARY_IS_STRICT and name == "NUL in the target")
    refused(running.port, BAD[name], (400, 501, 505, *own), silent,
            name in LIBRARY_REFUSES)
    untouched(running, provider)


@pytest.mark.parametrize("name", UNKNOWN_CODING)
def test_unknown_transfer_coding(provider: Provider, stint: StartStint, name: str) -> None:
    running = stint()
    request = HEAD + HOST + KEY + b"Transfer-Encoding: %s\r\n\r\n" % UNKNOWN_CODING[name] + CHUNKS
    loose = name == "identity" or LIBRARY_IS_STRICT
    refused(running.port, request, (400, 501) if loose else (501,))
    untouched(running, provider)


@pytest.mark.parametrize("header", [
    "Idempotency-Key", "Stint-Attempts", "X-Tenant", "Host", "Content-Length"])
def test_a_folded_line_does_not_extend_a_name(
    provider: Provider, stint: StartStint, header: str
) -> None:
    running = stint(provider={"tenant": "header:X-Tenant"})
    lines = b"%s: 1\r\n\tmore\r\n" % header.encode()
    refused(running.port, HEAD + HOST + LENGTH + lines + b"\r\nabc", (400,))
    untouched(running, provider)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_malformed_without_a_key(provider: Provider, stint: StartStint, method: str) -> None:
    running = stint()
    head = method.encode() + b" /pay/x HTTP/1.1\r\n"
    for lines in (HOST + HOST, b"", HOST + b"X-A: a\0b\r\n",
                  HOST + LENGTH + b"Content-Length: 5\r\n"):
        refused(running.port, head + lines + b"\r\n", (400,))
    untouched(running, provider)


def test_nothing_after_a_refused_request_is_read_as_one(
    provider: Provider, stint: StartStint
) -> None:
    running = stint()
    smuggled = encode("POST", "/pay/smuggled", [("Idempotency-Key", "smuggled")], b"x")
    for name in ("length and coding", "two different lengths", "coding with a space", "two hosts"):
        with Client(running.port) as client:
            client.send(BAD[name] + smuggled)
            assert client.read_reply().status in (400, 501)
            assert client.ended()
    untouched(running, provider)


def test_an_encoded_line_end_stays_encoded(provider: Provider, stint: StartStint) -> None:
    running = stint()
    target = "/pay/a%0d%0aX-Injected:%201%0d%0a%00?q=%0a%0D"
    from_provider(running.send(path=target, key="k"), 200)
    (request,) = provider.requests
    assert request.target == b"/base/a%0d%0aX-Injected:%201%0d%0a%00?q=%0a%0D"
    assert request.header("X-Injected") is None


def test_an_encoded_route_is_no_route(provider: Provider, stint: StartStint) -> None:
    running = stint()
    assert running.send(path="/%70ay/x", key="k").status == 404
    untouched(running, provider)


def test_too_many_headers(provider: Provider, stint: StartStint) -> None:
    running = stint()
    many = [(f"X-{number}", "1") for number in range(150)]
    with Client(running.port) as client:
        client.send(encode("POST", "/pay/x", many, b""))
        assert client.read_reply().status in (400, 431)
    untouched(running, provider)


def test_a_slow_head_is_cut(provider: Provider, stint: StartStint) -> None:
    running = stint(top={"front": {"head_time": "1s"}})
    with Client(running.port) as client:
        client.send(HEAD + HOST)
        started = time.monotonic()
        while client.socket.recv(4096):  # an error reply, or none, and then the end
            pass
        assert time.monotonic() - started < 5.0
    with Client(running.port) as client:
        client.send(HEAD + HOST + KEY + LENGTH + b"\r\nabc")
        from_provider(client.read_reply(), 200)
    assert provider.count() == 1


def test_a_body_that_breaks_off_is_not_sent(provider: Provider, stint: StartStint) -> None:
    running = stint()
    for request in (HEAD + HOST + KEY + b"Content-Length: 10\r\n\r\nabc",
                    HEAD + HOST + KEY + TE + b"\r\n3\r\nabc\r\n"):
        with Client(running.port) as client:
            client.send(request)
    assert running.send(key="after").status == 200
    assert [one["key"] for one in running.operations()] == ["after"]
    assert provider.count() == 1

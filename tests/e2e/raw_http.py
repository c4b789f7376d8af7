"""A plain-socket HTTP/1.1 client for tests, which sends the bytes it is given and hides nothing."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Callable, TypeVar, Union

Value = Union[int, float, bool, str]
Headers = Sequence[tuple[str, str]]
T = TypeVar("T")

TIMEOUT = 15.0


class Cut(Exception):
    """The peer ended the connection before a whole head."""


@dataclass
class Reply:
    """One response as it was on the wire."""

    status: int
    reason: str
    headers: list[tuple[str, str]]
    body: bytes = b""
    clean: bool = False  # the body came to the end that its framing promised
    interim: list[int] = field(default_factory=list)  # statuses of the 1xx heads before it
    raw_head: bytes = b""
    at: float = 0.0  # monotonic time of the complete head

    def all(self, name: str) -> list[str]:
        """All values of a header, in order."""
        return [value for found, value in self.headers if found.lower() == name.lower()]

    def header(self, name: str) -> str | None:
        """The value of a header that must not come twice, or None."""
        values = self.all(name)
        assert len(values) <= 1, f"{name} came {len(values)} times: {values}"
        return values[0] if values else None

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def stint(self) -> dict[str, Value]:
        """The Stint field as a dictionary; empty when there is none."""
        value = self.header("Stint")
        return {} if value is None else parse_stint(value)

    @property
    def problem(self) -> str | None:
        """The NAME of a `urn:stint:NAME` problem body, or None if the body is no problem."""
        if not (self.header("Content-Type") or "").startswith("application/problem+json"):
            return None
        kind = self.json()["type"]
        assert kind.startswith("urn:stint:"), kind
        assert self.json()["status"] == self.status
        return str(kind.removeprefix("urn:stint:"))


class Client:
    """One connection."""

    def __init__(self, port: int, timeout: float = TIMEOUT, host: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection((host, port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, data: bytes) -> None:
        """Sends bytes as they are."""
        self.socket.sendall(data)

    def close(self) -> None:
        """Closes the connection."""
        self.socket.close()

    def read_head(self) -> Reply:
        """Reads heads up to and with the first final one; its body is not read."""
        interim: list[int] = []
        while True:
            while b"\r\n\r\n" not in self._buffer:
                if not self._fill():
                    raise Cut(f"connection ended after {self._buffer!r}")
            head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
            reply = parse_head(head)
            if reply.status >= 200:
                reply.interim = interim
                reply.at = time.monotonic()
                return reply
            interim.append(reply.status)

    def read_reply(self, method: str = "GET") -> Reply:
        """Reads one whole reply. A cut body is no exception: `clean` says so."""
        reply = self.read_head()
        if method == "HEAD" or reply.status in (204, 304):
            reply.clean = True
            return reply
        pieces: list[bytes] = []
        try:
            for piece in self.pieces(reply):
                pieces.append(piece)
        except (Cut, ConnectionError):
            reply.body = b"".join(pieces)
            return reply
        reply.body, reply.clean = b"".join(pieces), True
        return reply

    def pieces(self, reply: Reply) -> Iterator[bytes]:
        """The body of a reply as it arrives; raises Cut if it ends early."""
        if "chunked" in (reply.header("Transfer-Encoding") or ""):
            while size := int(self._line().split(b";")[0], 16):
                yield from self._counted(size)
                assert self._line() == b""
            while self._line():
                pass
        elif (length := reply.header("Content-Length")) is not None:
            yield from self._counted(int(length))
        else:
            while self._buffer or self._fill():
                piece, self._buffer = self._buffer, b""
                yield piece

    def ended(self, timeout: float = 3.0) -> bool:
        """True if the peer ends the connection within the time; bytes before that are an error."""
        self.socket.settimeout(timeout)
        try:
            return not self._buffer and self.socket.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False

    def _fill(self) -> bool:
        data = self.socket.recv(65536)
        self._buffer += data
        return bool(data)

    def _line(self) -> bytes:
        while b"\r\n" not in self._buffer:
            if not self._fill():
                raise Cut("ended in a chunk")
        line, _, self._buffer = self._buffer.partition(b"\r\n")
        return line

    def _counted(self, size: int) -> Iterator[bytes]:
        while size > 0:
            if not self._buffer and not self._fill():
                raise Cut(f"{size} bytes missing")
            piece, self._buffer = self._buffer[:size], self._buffer[size:]
            size -= len(piece)
            yield piece


def parse_head(head: bytes) -> Reply:
    """Parses a response head strictly."""
    first, *lines = head.split(b"\r\n")
    match = re.fullmatch(rb"HTTP/1\.[01] (\d{3})(?: (.*))?", first)
    assert match, f"no status line: {first!r}"
    headers = []
    for line in lines:
        name, colon, value = line.partition(b":")
        assert colon and re.fullmatch(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name), f"header {line!r}"
        headers.append((name.decode("ascii"), value.strip(b" \t").decode("latin-1")))
    reason = (match[2] or b"").decode("latin-1")
    return Reply(int(match[1]), reason, headers, raw_head=head)


def encode(
    method: str,
    target: str,
    headers: Headers = (),
    body: bytes | None = None,
    chunked: bool = False,
    host: str = "127.0.0.1",
) -> bytes:
    """The bytes of a well-formed request."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in headers]
    if chunked:
        lines.append("Transfer-Encoding: chunked")
        data = b"".join(
            b"%x\r\n%s\r\n" % (len(piece), piece) for piece in split(body or b"", 1000)
        ) + b"0\r\n\r\n"
    else:
        data = body or b""
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + data


def split(data: bytes, size: int) -> Iterable[bytes]:
    """`data` in pieces of at most `size` bytes."""
    return (data[at : at + size] for at in range(0, len(data), size))


def fetch(
    port: int,
    method: str,
    target: str,
    headers: Headers = (),
    body: bytes | None = None,
    chunked: bool = False,
    timeout: float = TIMEOUT,
) -> Reply:
    """One request on a connection of its own."""
    with Client(port, timeout) as client:
        client.send(encode(method, target, headers, body, chunked))
        return client.read_reply(method)


def parallel(count: int, work: Callable[[int], T]) -> list[T]:
    """Runs `work(0..count-1)` in as many threads and returns the results in order."""
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, range(count)))


MEMBER = re.compile(
    r"(?P<name>[a-z*][a-z0-9_.*-]*)"
    r"(?:=(?:(?P<decimal>-?\d{1,12}\.\d{1,3})|(?P<integer>-?\d{1,15})|\?(?P<flag>[01])"
    r"|(?P<token>[A-Za-z*][!#$%&'*+.^_`|~0-9A-Za-z:/-]*)))?"
)


def parse_stint(text: str) -> dict[str, Value]:
    """Parses the dictionary of a Stint field (RFC 9651, the item types that Stint uses)."""
    members: dict[str, Value] = {}
    for part in text.split(","):
        match = MEMBER.fullmatch(part.strip(" \t"))
        assert match, f"no dictionary member: {part!r} in {text!r}"
        assert match["name"] not in members, f"{match['name']} twice in {text!r}"
        if match["decimal"]:
            members[match["name"]] = float(match["decimal"])
        elif match["integer"]:
            members[match["name"]] = int(match["integer"])
        elif match["token"]:
            members[match["name"]] = match["token"]
        else:
            members[match["name"]] = match["flag"] != "0"
    return members

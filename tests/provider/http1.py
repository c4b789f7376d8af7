"""HTTP/1.1 on one connection of the scripted provider, by hand, so that it can misbehave.

The happy path: `serve` reads a head, `choose` picks the step, the body is read to its end, `reply`
writes what the step says, and the loop takes the next request. A step may end the connection at
several places; `Ended` then unwinds to `serve`. The peer's going away is no error here.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
import struct
from collections.abc import Callable
from http import HTTPStatus

from steps import End, Expect, Framing, HeaderPairs, Request, Step, Text, When, split_line

HEAD_MAX = 1 << 20
PIECE = 64 * 1024
KEY_HEADERS = (b"idempotency-key", b"x-op-key")


class Ended(Exception):
    """The connection is over, by script or by the peer."""


class Malformed(Exception):
    """The peer's bytes are no HTTP/1 request."""


def to_bytes(text: Text) -> bytes:
    """Header text as it goes to the wire."""
    return text if isinstance(text, bytes) else text.encode("latin-1")


def header_block(pairs: HeaderPairs) -> bytes:
    """The lines of a header section, without the empty one at its end."""
    return b"".join(b"%s: %s\r\n" % (to_bytes(name), to_bytes(value)) for name, value in pairs)


def reason_of(status: int, reason: str | None) -> bytes:
    """The reason phrase to write."""
    if reason is not None:
        return reason.encode("latin-1")
    try:
        return HTTPStatus(status).phrase.encode("ascii")
    except ValueError:
        return b"Unknown"


class Http1Connection:
    """One accepted connection, which speaks HTTP/1.1 until it ends."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        number: int,
        keep: int,
        choose: Callable[[Request], Step],
        progress: Callable[[], None],
    ) -> None:
        """`choose` records the request and picks its step; `progress` tells of record changes."""
        self._reader = reader
        self._writer = writer
        self._number = number
        self._keep = keep
        self._choose = choose
        self._progress = progress
        self._written = 0
        self._cut_at: int | None = None
        self._end = End.CLOSE

    async def serve(self) -> None:
        """Serves requests until the connection ends."""
        served = 0
        idle: float | None = None
        try:
            while True:
                head = await self._read_head(idle)
                served += 1
                step = await self._exchange(self._parse(head, served))
                if step.close or step.framing is Framing.CLOSE:
                    await self.finish(step.end)
                idle = step.idle
        except Malformed:
            self._writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n"
                               b"Connection: close\r\n\r\n")
        except (Ended, ConnectionError, asyncio.IncompleteReadError, asyncio.TimeoutError):
            pass
        finally:
            self._writer.close()

    async def _read_head(self, idle: float | None) -> bytes:
        try:
            return await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), idle)
        except asyncio.LimitOverrunError as error:
            raise Malformed from error

    def _parse(self, head: bytes, served: int) -> Request:
        first, *lines = head[:-4].split(b"\r\n")
        parts = first.split(b" ")
        if len(parts) != 3:
            raise Malformed
        request = Request(
            method=parts[0].decode("latin-1"),
            target=parts[1],
            version=parts[2],
            lines=lines,
            connection=self._number,
            number=served,
            key=None,
        )
        for wanted in KEY_HEADERS:
            for name, value in map(split_line, lines):
                if request.key is None and name.lower() == wanted:
                    request.key = value
        return request

    async def _exchange(self, request: Request) -> Step:
        step = self._choose(request)
        if step.cut_when is When.HEAD:
            await self.finish(step.end)
        if (request.header("expect") or "").lower() == "100-continue":
            if step.expect is Expect.REFUSE:
                self._writer.write(b"HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n"
                                   b"Connection: close\r\n\r\n")
                await self.finish(End.CLOSE)
            if step.expect is Expect.CONTINUE:
                self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await self._read_body(request)
        if step.cut_when is When.REQUEST:
            await self.finish(step.end)
        if step.silent:
            await self._wait_for_peer()
        await self._reply(request, step)
        request.replied = True
        self._progress()
        return step

    async def _read_body(self, request: Request) -> None:
        digest = hashlib.sha256()

        def take(data: bytes) -> None:
            digest.update(data)
            request.length += len(data)
            if len(request.body) < self._keep:
                request.body += data[: self._keep - len(request.body)]

        if "chunked" in (request.header("transfer-encoding") or "").lower():
            while size := self._chunk_size(await self._reader.readuntil(b"\r\n")):
                await self._read_exactly(size, take)
                if await self._reader.readexactly(2) != b"\r\n":
                    raise Malformed
            while await self._reader.readuntil(b"\r\n") != b"\r\n":
                pass
        else:
            length = request.header("content-length") or "0"
            if not length.isdigit():
                raise Malformed
            await self._read_exactly(int(length), take)
        request.sha256 = digest.hexdigest()
        request.complete = True
        self._progress()

    async def _read_exactly(self, size: int, take: Callable[[bytes], None]) -> None:
        while size > 0:
            data = await self._reader.read(min(size, PIECE))
            if not data:
                raise Ended
            take(data)
            size -= len(data)

    @staticmethod
    def _chunk_size(line: bytes) -> int:
        try:
            return int(line.split(b";", 1)[0].strip(), 16)
        except ValueError as error:
            raise Malformed from error

    async def _reply(self, request: Request, step: Step) -> None:
        self._written, self._cut_at, self._end = 0, step.cut_at, step.end
        interim = b"".join(
            b"HTTP/1.1 %d %s\r\n%s\r\n"
            % (one.status, one.reason.encode("latin-1"), header_block(one.headers))
            for one in step.interim
        )
        if step.interim_early:
            await self._send(interim)
            interim = b""
        if step.delay > 0:
            await asyncio.sleep(step.delay)
        body = step.payload()
        bare = request.method == "HEAD" or step.framing is Framing.NONE
        await self._send(interim + self._head(step, body))
        if not bare:
            await self._send_body(step, body)

    @staticmethod
    def _head(step: Step, body: bytes) -> bytes:
        framing: list[tuple[Text, Text]] = []
        if step.framing is Framing.LENGTH:
            length = len(body) if step.length is None else step.length
            framing = [("Content-Length", str(length))]
        elif step.framing is Framing.CHUNKED:
            framing = [("Transfer-Encoding", "chunked")]
        if step.close or step.framing is Framing.CLOSE:
            framing.append(("Connection", "close"))
        status = b"HTTP/1.1 %d %s\r\n" % (step.status, reason_of(step.status, step.reason))
        return status + header_block([*step.headers, *framing]) + b"\r\n"

    async def _send_body(self, step: Step, body: bytes) -> None:
        size = step.piece or max(len(body), 1)
        stall = step.stall_at
        at = 0
        while at < len(body):
            if stall is not None and at >= stall:
                stall = None
                await self._stall(step.stall_for)
            upto = min(at + size, len(body))
            if stall is not None and at < stall < upto:
                upto = stall
            data = body[at:upto]
            if step.framing is Framing.CHUNKED:
                data = b"%x\r\n%s\r\n" % (len(data), data)
            await self._send(data)
            at = upto
            if step.piece_delay > 0 and at < len(body):
                await asyncio.sleep(step.piece_delay)
        if stall is not None and at >= stall:
            await self._stall(step.stall_for)
        if step.framing is Framing.CHUNKED:
            if not step.last_chunk:
                await self.finish(step.end)
            await self._send(b"0\r\n\r\n")

    async def _stall(self, seconds: float | None) -> None:
        if seconds is None:
            await self._wait_for_peer()
        else:
            await asyncio.sleep(seconds)

    async def _send(self, data: bytes) -> None:
        """Writes reply bytes, up to the place where the script ends the connection."""
        left = None if self._cut_at is None else self._cut_at - self._written
        if left is not None and left <= len(data):
            self._writer.write(data[:left])
            await self._writer.drain()
            await self.finish(self._end)
        self._writer.write(data)
        self._written += len(data)
        await self._writer.drain()

    async def _wait_for_peer(self) -> None:
        """Keeps the connection without a word until the peer leaves."""
        while await self._reader.read(PIECE):
            pass
        raise Ended

    async def finish(self, end: End) -> None:
        """Ends the connection and unwinds."""
        if end is End.RESET:
            # What was written must have left first: an abort drops the transport's own buffer.
            await self._writer.drain()
            sock: socket.socket = self._writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._writer.transport.abort()
        elif end is End.HALF:
            self._writer.write_eof()
            await self._wait_for_peer()
        raise Ended

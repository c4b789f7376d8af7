#!/usr/bin/env python3
"""The scripted provider: an HTTP server whose every reply, pause and cut a test decides.

As a module it runs in a thread of its own:

    with Provider() as provider:
        provider.script(Step(status=503), Step(status=200))   # the last step repeats
        ... requests to provider.port ...
        assert provider.count() == 2

As a program, `provider.py --port N --demo`, it plays a small payment provider (see demo.py).

Each accepted connection gets a protocol object. HTTP/1.1 is in http1.py; another protocol (chosen
by ALPN or by its preface) is another class with `serve()`, made in `_protocol`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parent))

from http1 import HEAD_MAX, Http1Connection  # noqa: E402
from steps import Greeting, Request, Script, Step  # noqa: E402

T = TypeVar("T")

DEFAULT_STEP = Step(headers=[("Content-Type", "application/json")], body=b'{"ok":true}')


class Provider:
    """A scripted HTTP server in a background thread. Every public method is thread-safe."""

    def __init__(
        self,
        port: int = 0,
        host: str = "127.0.0.1",
        tls: ssl.SSLContext | None = None,
        keep: int = 1 << 20,
        on_request: Callable[[Request], None] | None = None,
    ) -> None:
        """`keep` bounds the bytes kept of each body; `on_request` is called as a request starts."""
        self.port = port
        self.host = host
        self._tls = tls
        self._keep = keep
        self._on_request = on_request
        self._changed = threading.Condition()
        self._requests: list[Request] = []
        self._scripts: dict[tuple[str, str], deque[Script]] = {}
        self._default: deque[Script] = deque([DEFAULT_STEP])
        self._greetings: deque[Greeting] = deque()
        self._connections = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Provider:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> Provider:
        """Listens and serves; `port` is known when this returns."""
        ready = threading.Event()
        failure: list[BaseException] = []

        def run() -> None:
            try:
                asyncio.run(self._main(ready))
            except BaseException as error:  # handed to the thread that called start()
                failure.append(error)
                ready.set()

        self._thread = threading.Thread(target=run, name="provider", daemon=True)
        self._thread.start()
        ready.wait()
        if failure:
            raise failure[0]
        return self

    def stop(self) -> None:
        """Stops listening and ends every connection. A second call changes nothing."""
        if self._thread is None or self._loop is None or self._stopping is None:
            return
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(10)
        self._thread = None

    @property
    def url(self) -> str:
        """The base address."""
        return f"{'https' if self._tls else 'http'}://{self.host}:{self.port}"

    def script(self, *steps: Script, key: str | None = None, path: str | None = None) -> None:
        """Sets the replies for a key, a path (without query), or everything else.

        They are given in order and the last one repeats. A key's script wins over a path's.
        """
        if not steps:
            raise ValueError("a script needs a step")
        with self._changed:
            if key is not None:
                self._scripts["key", key] = deque(steps)
            elif path is not None:
                self._scripts["path", path] = deque(steps)
            else:
                self._default = deque(steps)

    def greet(self, *greetings: Greeting) -> None:
        """Sets what happens to the next connections; the last one repeats."""
        with self._changed:
            self._greetings = deque(greetings)

    @property
    def requests(self) -> list[Request]:
        """All requests seen so far, in order of arrival."""
        with self._changed:
            return list(self._requests)

    @property
    def connections(self) -> int:
        """How many connections were accepted."""
        with self._changed:
            return self._connections

    def of(self, key: str | None) -> list[Request]:
        """The requests seen with this key."""
        return [request for request in self.requests if request.key == key]

    def count(self, key: str | None = None) -> int:
        """How many requests were seen, in all or with this key."""
        with self._changed:
            return self._count(key)

    def wait_for(self, count: int, key: str | None = None, timeout: float = 5.0) -> list[Request]:
        """Waits until `count` requests were read to their end, or raises TimeoutError."""

        def complete() -> list[Request]:
            return [
                request
                for request in self._requests
                if request.complete and (key is None or request.key == key)
            ]

        with self._changed:
            if not self._changed.wait_for(lambda: len(complete()) >= count, timeout):
                raise TimeoutError(f"{len(complete())} of {count} requests after {timeout} s")
            return complete()

    def forget(self) -> None:
        """Drops the records and the scripts."""
        with self._changed:
            self._requests.clear()
            self._scripts.clear()
            self._greetings.clear()
            self._default = deque([DEFAULT_STEP])

    def _count(self, key: str | None) -> int:
        return sum(1 for request in self._requests if key is None or request.key == key)

    async def _main(self, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        tasks: set[asyncio.Task[None]] = set()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            tasks.add(task)
            try:
                await self._connection(reader, writer)
            except asyncio.CancelledError:
                writer.transport.abort()  # swallowed: the streams module would log it
            finally:
                tasks.discard(task)

        server = await asyncio.start_server(
            connected, self.host, self.port, ssl=self._tls, limit=HEAD_MAX, backlog=1024
        )
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await self._stopping.wait()
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with self._changed:
            self._connections += 1
            number = self._connections
            greeting = self._next(self._greetings) if self._greetings else Greeting.SERVE
        if greeting is Greeting.SERVE:
            await self._protocol(reader, writer, number).serve()
        elif greeting is Greeting.SILENT:
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            await asyncio.Event().wait()
        elif greeting is Greeting.RESET:
            sock: socket.socket = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        else:
            writer.close()

    def _protocol(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> Http1Connection:
        return Http1Connection(reader, writer, number, self._keep, self._choose, self._progress)

    def _choose(self, request: Request) -> Step:
        with self._changed:
            self._requests.append(request)
            script = self._scripts.get(("key", request.key or ""))
            if script is None:
                script = self._scripts.get(("path", request.path), self._default)
            step = self._next(script)
            self._changed.notify_all()
        if self._on_request is not None:
            self._on_request(request)
        return step if isinstance(step, Step) else step(request)

    @staticmethod
    def _next(queue: deque[T]) -> T:
        return queue.popleft() if len(queue) > 1 else queue[0]

    def _progress(self) -> None:
        with self._changed:
            self._changed.notify_all()


class SilentListener:
    """A port that accepts connections in the kernel and never reads or writes: no TLS, ever."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._socket.getsockname()[1]

    def close(self) -> None:
        """Stops accepting."""
        self._socket.close()

    def __enter__(self) -> SilentListener:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextlib.contextmanager
def self_signed() -> Iterator[tuple[ssl.SSLContext, Path]]:
    """A server context for 127.0.0.1 and localhost, and the path of its certificate."""
    with tempfile.TemporaryDirectory(prefix="provider-tls-") as name:
        key, cert = Path(name, "key.pem"), Path(name, "cert.pem")
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
             "-nodes", "-days", "2", "-subj", "/CN=localhost",
             "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
             "-keyout", str(key), "-out", str(cert)],
            check=True,
            capture_output=True,
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        yield context, cert


def main(arguments: list[str] | None = None) -> int:
    """The program: a demo provider, or one that answers everything with 200."""
    parser = argparse.ArgumentParser(description="A provider that does what it is told.")
    parser.add_argument("--port", type=int, default=0, help="port to listen on (0: any)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--demo", action="store_true", help="play a small payment provider")
    parser.add_argument(
        "--honour-keys", action="store_true", help="with --demo: charge each key once only"
    )
    options = parser.parse_args(arguments)
    from demo import Demo  # the demo needs this module's names, so it is imported late

    demo = Demo(honour_keys=options.honour_keys)
    provider = Provider(port=options.port, host=options.host)
    if options.demo:
        provider.script(demo.answer)
    provider.start()
    print(f"provider listens on {provider.url}", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            time.sleep(3600)
    provider.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())

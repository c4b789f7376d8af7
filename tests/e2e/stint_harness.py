"""Starts the real binary for a test, asks it things, stops it, and checks how it went down."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from raw_http import Headers, Reply, fetch

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("STINT_BIN", ROOT / "build" / "stint"))
START_LIMIT = 8.0  # generous: a sanitizer build on a busy machine
STOP_LIMIT = 30.0
SANITIZER = re.compile(
    r"runtime error:|ERROR: (?:Address|Leak|Thread|Memory)Sanitizer|WARNING: ThreadSanitizer"
)
SANITIZER_OPTIONS = {  # where the environment says nothing else
    "ASAN_OPTIONS": "abort_on_error=0:exitcode=86:detect_leaks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "exitcode=66",
}
T = TypeVar("T")
Tree = dict[str, Any]


def merge(base: Tree, over: Mapping[str, Any]) -> Tree:
    """`base` with `over` laid on it, key by key at every depth; None takes a key away."""
    merged = dict(base)
    for key, value in over.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = merge(merged[key], value)
        else:
            merged[key] = value
    return merged


class Ports:
    """Hands out loopback ports below the ephemeral range, where no outgoing connection sits."""

    def __init__(self) -> None:
        self._next = random.SystemRandom().randrange(12000, 30000)

    def take(self) -> int:
        """A port that can be bound now, and was not handed out by this process before."""
        while True:
            self._next = 12000 if self._next >= 32000 else self._next + 1
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", self._next))
                except OSError:
                    continue
                return self._next


PORTS = Ports()


def quick_provider(upstream: str) -> Tree:
    """A provider's policy with times that suit tests."""
    return {
        "route": "/pay",
        "upstream": upstream,
        "budget": {"attempts": 4, "window": "1m"},
        "attempt": {
            "timeout": "2s", "connect": "1s", "idle": "2s", "total": "10s", "least": "10ms",
        },
        "backoff": {"first": "20ms", "factor": 2, "max": "200ms", "jitter": "none"},
        "hold": "4s",
    }


class Stint:
    """One stint process with a configuration, a ledger and log files of its own."""

    def __init__(
        self,
        directory: Path,
        upstream: str,
        provider: Mapping[str, Any] | None = None,
        top: Mapping[str, Any] | None = None,
        ledger: Path | None = None,
        env: Mapping[str, str] | None = None,
        token: str | None = None,
    ) -> None:
        """`provider` is laid over `quick_provider`, `top` over the whole configuration."""
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.port = PORTS.take()
        self.admin_port = PORTS.take()
        self.ledger = ledger or directory / "ledger.db"
        self.config = merge(
            {
                "listen": f"127.0.0.1:{self.port}",
                "admin": {"listen": f"127.0.0.1:{self.admin_port}"},
                "ledger": {"store": f"sqlite:{self.ledger}"},
                "drain": "3s",
                "temp": str(directory),
                "providers": {"pay": merge(quick_provider(upstream), provider or {})},
            },
            top or {},
        )
        self.config_path = directory / "stint.yaml"
        self.stdout_path = directory / "stdout"
        self.stderr_path = directory / "stderr"
        self.token = token
        self.process: subprocess.Popen[bytes] | None = None
        self._env = {**SANITIZER_OPTIONS, **os.environ, **(env or {})}
        self.write_config()

    @property
    def url(self) -> str:
        """The address of the front."""
        return f"http://127.0.0.1:{self.port}"

    def write_config(self) -> None:
        """Writes the configuration file from `config`. JSON is YAML."""
        self.config_path.write_text(json.dumps(self.config, indent=2) + "\n")

    def start(self) -> Stint:
        """Starts the binary and waits until /healthz answers 200."""
        assert self.process is None, "already running"
        assert BINARY.exists(), f"{BINARY} does not exist: run make first, or set STINT_BIN"
        with self.stdout_path.open("ab") as out, self.stderr_path.open("ab") as err:
            self.process = subprocess.Popen(
                [str(BINARY), "serve", "-c", str(self.config_path)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=self._env,
            )
        limit = time.monotonic() + START_LIMIT
        while not self._healthy():
            code = self.process.poll()
            assert code is None, f"stint ended at start with {code}:\n{self.output()}"
            assert time.monotonic() < limit, f"stint is not healthy:\n{self.output()}"
            time.sleep(0.005)
        return self

    def fails_to_start(self) -> str:
        """Starts the binary, which must end by itself with an error; returns what it said."""
        with self.stdout_path.open("ab") as out, self.stderr_path.open("ab") as err:
            code = subprocess.run(
                [str(BINARY), "serve", "-c", str(self.config_path)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=self._env,
                timeout=START_LIMIT,
                check=False,
            ).returncode
        assert 0 < code < 128, f"exit status {code}:\n{self.output()}"
        return self.output()

    def _healthy(self) -> bool:
        try:
            return self.ask("GET", "/healthz", timeout=1.0).status == 200
        except OSError:
            return False

    def ask(
        self, method: str, path: str, value: object = None, headers: Headers = (),
        timeout: float = 10.0,
    ) -> Reply:
        """A request to the admin listener; `value` goes as a JSON body."""
        pairs = list(headers)
        if self.token is not None:
            pairs.append(("Authorization", f"Bearer {self.token}"))
        body = None
        if value is not None:
            pairs.append(("Content-Type", "application/json"))
            body = json.dumps(value).encode()
        return fetch(self.admin_port, method, path, pairs, body, timeout=timeout)

    def admin(self, path: str) -> Any:
        """A GET on the admin listener that must succeed, as JSON."""
        reply = self.ask("GET", path)
        assert reply.status == 200, f"{path}: {reply.status} {reply.body!r}"
        return reply.json()

    def operation(self, key: str, provider: str = "pay", query: str = "") -> Tree:
        """The record of one operation."""
        record: Tree = self.admin(f"/v1/operations/{provider}/{quote(key, safe='')}{query}")
        return record

    def operations(self, query: str = "") -> list[Tree]:
        """The operations that match, the first page."""
        found: list[Tree] = self.admin(f"/v1/operations{query}")["operations"]
        return found

    def metrics(self) -> dict[str, float]:
        """All series of /metrics by their text, `name{labels}`."""
        reply = self.ask("GET", "/metrics")
        assert reply.status == 200
        lines = reply.body.decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's series that have the given labels."""
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        return sum(
            value
            for series, value in self.metrics().items()
            if re.split(r"[{ ]", series)[0] == name and all(text in series for text in wanted)
        )

    def send(
        self, method: str = "POST", path: str = "/pay/charge", key: str | None = None,
        body: bytes | None = b'{"amount":1}', headers: Headers = (), timeout: float = 15.0,
    ) -> Reply:
        """One delivery through the front; safe methods carry no body."""
        pairs = list(headers)
        if key is not None:
            pairs.append(("Idempotency-Key", key))
        if method in ("GET", "HEAD", "OPTIONS"):
            body = None
        elif body is not None:
            pairs.append(("Content-Type", "application/json"))
        return fetch(self.port, method, path, pairs, body, timeout=timeout)

    def rows(self, sql: str) -> list[Tree]:
        """Rows of the ledger, read without a lock on it."""
        database = sqlite3.connect(f"file:{self.ledger}?mode=ro", uri=True, timeout=5.0)
        try:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute(sql)]
        finally:
            database.close()

    def output(self) -> str:
        """Everything that the process wrote."""
        texts = [path.read_text(errors="replace") for path in (self.stdout_path, self.stderr_path)
                 if path.exists()]
        return "".join(texts)

    def log_lines(self) -> list[Tree]:
        """The log's JSON lines."""
        lines = [line for line in self.output().splitlines() if line.startswith("{")]
        return [json.loads(line) for line in lines]

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self, timeout: float = STOP_LIMIT) -> int:
        """Waits for the end and returns the exit status."""
        assert self.process is not None
        code = self.process.wait(timeout)
        self.process = None
        return code

    def kill9(self) -> None:
        """Ends the process with no chance to tidy up."""
        self.signal(signal.SIGKILL)
        self.wait()

    def term(self, timeout: float = STOP_LIMIT) -> None:
        """Stops it as an operator does; it must end with 0 and have nothing to report."""
        self.signal(signal.SIGTERM)
        try:
            code = self.wait(timeout)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGABRT)
            self.wait()
            raise AssertionError(f"stint did not stop:\n{self.output()[-4000:]}") from None
        assert code == 0, f"exit status {code} after SIGTERM:\n{self.output()[-4000:]}"

    def restart(self) -> None:
        """Stops it and starts it again on the same ledger."""
        self.term()
        self.start()

    def finish(self) -> None:
        """Ends the process if it still runs, and checks exit status and sanitizer reports."""
        try:
            if self.process is not None:
                code = self.process.poll()
                assert code is None, f"stint died with {code}:\n{self.output()[-4000:]}"
                self.term()
        finally:
            print(f"--- {self.directory.name}\n{self.output()[-8000:]}")
            report = self.stderr_path.read_text(errors="replace") if self.started else ""
            assert not SANITIZER.search(report), f"sanitizer report:\n{report[-8000:]}"

    @property
    def started(self) -> bool:
        """True once a process was started."""
        return self.stderr_path.exists()


def run_cli(*arguments: str, env: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Runs the binary to its end; its exit status and everything it printed."""
    assert BINARY.exists(), f"{BINARY} does not exist: run make first, or set STINT_BIN"
    done = subprocess.run(
        [str(BINARY), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=START_LIMIT,
        env={**SANITIZER_OPTIONS, **os.environ, **(env or {})},
    )
    assert not SANITIZER.search(done.stderr), done.stderr
    return done.returncode, done.stdout + done.stderr


def eventually(
    probe: Callable[[], T], accept: Callable[[T], bool] = bool, timeout: float = 5.0,
) -> T:
    """Polls until `accept` likes what `probe` returns, and returns it."""
    limit = time.monotonic() + timeout
    while True:
        value = probe()
        if accept(value):
            return value
        assert time.monotonic() < limit, f"still {value!r} after {timeout} s"
        time.sleep(0.01)

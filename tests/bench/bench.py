"""Speed and memory of stint beside nginx, in one run: CPU time per request of the proxy process.

Both proxies stand in front of the same nginx upstream, one worker each, keep-alive on both sides.
Figures are ratios: machines are noisy, and only what ran side by side can be compared.

Usage: bench.py [seconds per run]   (STINT_BIN names the binary)
"""

from __future__ import annotations

import json
import os
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STINT = os.environ.get("STINT_BIN", str(ROOT / "build" / "stint"))
SECONDS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
ROUNDS = 3
CONNECTIONS = 64
HELD = 10_000
LIMITS = {"unkeyed GET": 2.2, "keyed POST": 4.5}
HELD_LIMIT_KIB = 16.0

POST_LUA = """
local n = 0
local run = "{run}"
request = function()
  n = n + 1
  return wrk.format("POST", nil, {{["Idempotency-Key"] = run .. "-" .. n,
    ["Content-Type"] = "application/json"}}, string.rep("x", 100))
end
"""


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_port(port: int) -> None:
    for _ in range(400):
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.025)
    raise SystemExit(f"nothing listens on port {port}")


class Nginx:
    """An nginx of our own: one worker process whose CPU time can be read."""

    def __init__(self, home: Path, name: str, http: str) -> None:
        self.home = home / name
        self.home.mkdir()
        self.port = free_port()
        conf = self.home / "nginx.conf"
        conf.write_text(
            f"worker_processes 1; daemon off; pid {self.home}/pid; error_log {self.home}/log;\n"
            "events { worker_connections 20000; }\n"
            f"http {{ access_log off; keepalive_requests 100000000; client_body_temp_path {self.home}/b;\n"
            f"proxy_temp_path {self.home}/p; fastcgi_temp_path {self.home}/f;\n"
            f"uwsgi_temp_path {self.home}/u; scgi_temp_path {self.home}/s;\n"
            + http.replace("PORT", str(self.port)) + "}\n")
        self.process = subprocess.Popen(["nginx", "-p", str(self.home), "-c", str(conf)],
                                        stderr=subprocess.DEVNULL)
        wait_port(self.port)

    def worker(self) -> int:
        out = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True)
        return int(out.stdout.split()[0])

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


class Stint:
    def __init__(self, home: Path, name: str, upstream: int, extra: dict) -> None:
        self.home = home / name
        self.home.mkdir()
        self.port, self.admin = free_port(), free_port()
        provider = {"route": "/api", "upstream": f"http://127.0.0.1:{upstream}"}
        provider.update(extra)
        config = {
            "listen": f"127.0.0.1:{self.port}",
            "admin": {"listen": f"127.0.0.1:{self.admin}"},
            "workers": 1,
            "front": {"connections": HELD + 1000},
            "ledger": {"store": f"sqlite:{self.home}/ledger.db", "durability": "disk"},
            "log": {"level": "warn"},
            "providers": {"api": provider},
        }
        path = self.home / "stint.yaml"
        path.write_text(json.dumps(config, indent=1))
        self.process = subprocess.Popen([STINT, "serve", "-c", str(path)],
                                        stderr=(self.home / "log").open("w"))
        wait_port(self.port)

    def worker(self) -> int:
        return self.process.pid

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_kib(pid: int) -> int:
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text()).group(1))


def load(url: str, script: Path | None) -> int:
    """Runs wrk and returns the number of answered requests; any failed one ends the benchmark."""
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}s"]
    if script is not None:
        command += ["-s", str(script)]
    out = subprocess.run(command + [url], capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in out or re.search(r"Socket errors: .*[1-9]", out):
        raise SystemExit(f"requests failed at {url}:\n{out}")
    return int(re.search(r"(\d+) requests in", out).group(1))


def per_request(target: "Nginx | Stint", path: str, script: Path | None) -> float:
    before = cpu_seconds(target.worker())
    count = load(f"http://127.0.0.1:{target.port}{path}", script)
    return (cpu_seconds(target.worker()) - before) / count * 1e6


def compare(name: str, yardstick: Nginx, stint: Stint, home: Path, keyed: bool) -> bool:
    ratios = []
    for i in range(ROUNDS):
        script = None
        if keyed:
            script = home / f"post-{i}.lua"
            script.write_text(POST_LUA.format(run=f"r{i}"))
        base = per_request(yardstick, "/api/x", script)
        ours = per_request(stint, "/api/x", script)
        ratios.append(ours / base)
        print(f"  {name}, round {i + 1}: nginx {base:.1f} us, stint {ours:.1f} us of CPU a "
              f"request: {ours / base:.2f} times")
    best = sorted(ratios)[len(ratios) // 2]
    good = best <= LIMITS[name]
    print(f"{name}: {best:.2f} times nginx (median; at most {LIMITS[name]}): "
          f"{'good' if good else 'OVER'}")
    return good


def held(home: Path) -> bool:
    """10,000 keyed deliveries that wait for a blocked provider: resident memory over the idle size."""
    blocker = Nginx(home, "blocker", "server { listen 127.0.0.1:PORT; location / { "
                    "add_header Retry-After 600 always; return 429; } }")
    stint = Stint(home, "held", blocker.port, {"hold": "1h", "retry_after": {"max": "600s"}})
    sockets = []

    def post(key: str) -> socket.socket:
        s = socket.create_connection(("127.0.0.1", stint.port))
        s.sendall(b"POST /api/x HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                  b"Idempotency-Key: %s\r\nContent-Length: 100\r\n\r\n" % key.encode() + b"x" * 100)
        return s

    try:
        sockets.append(post("first"))
        time.sleep(1)  # the block is known
        idle = resident_kib(stint.worker())
        for i in range(HELD):
            sockets.append(post(f"held-{i}"))
        deadline = time.time() + 120
        while time.time() < deadline:
            body = subprocess.run(["curl", "-s", f"http://127.0.0.1:{stint.admin}/metrics"],
                                  capture_output=True, text=True).stdout
            ready = sum(int(float(m)) for m in re.findall(
                r'stint_operations\{[^}]*state="ready"[^}]*\} (\S+)', body))
            if ready >= HELD:
                break
            time.sleep(0.5)
        else:
            raise SystemExit("not all deliveries were recorded as ready")
        each = (resident_kib(stint.worker()) - idle) / HELD
        answered = select.select(sockets[:1000], [], [], 0)[0]
        if answered:
            raise SystemExit(f"{len(answered)} of 1000 deliveries were answered instead of held")
    finally:
        for s in sockets:
            s.close()
        stint.stop()
        blocker.stop()
    good = each <= HELD_LIMIT_KIB
    print(f"held deliveries: {each:.1f} KiB each over the idle size, {HELD} of them "
          f"(at most {HELD_LIMIT_KIB:.0f}): {'good' if good else 'OVER'}")
    return good


def main() -> int:
    for tool in ("nginx", "wrk", "curl", "pgrep"):
        if shutil.which(tool) is None:
            raise SystemExit(f"{tool} is missing; `make bench` installs it")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    good = True
    with tempfile.TemporaryDirectory(prefix="stint-bench-") as temp:
        home = Path(temp)
        upstream = Nginx(home, "upstream", 'server { listen 127.0.0.1:PORT; location / '
                         '{ return 200 "ok"; } }')
        yardstick = Nginx(home, "yardstick", f"upstream u {{ server 127.0.0.1:{upstream.port}; "
                          "keepalive 64; keepalive_requests 100000000; }\n"
                          "server { listen 127.0.0.1:PORT; location / { proxy_pass http://u; "
                          'proxy_http_version 1.1; proxy_set_header Connection ""; } }')
        stint = Stint(home, "stint", upstream.port, {})
        try:
            good &= compare("unkeyed GET", yardstick, stint, home, keyed=False)
            good &= compare("keyed POST", yardstick, stint, home, keyed=True)
        finally:
            stint.stop()
            yardstick.stop()
            upstream.stop()
        good &= held(home)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

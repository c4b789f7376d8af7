"""The admin listener: health, metrics, operations, providers, access."""

from __future__ import annotations

import re
import threading
from datetime import datetime
from pathlib import Path

from checks import HONOURS, from_provider
from conftest import StartStint
from provider import Provider
from raw_http import Client, Reply, encode, fetch
from steps import Step, When, json_step
from stint_harness import PORTS, eventually

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(?:Z|\+00:00)")


def admin_problem(reply: Reply, status: int) -> None:
    """The reply is problem+json with this status."""
    assert reply.status == status, f"{reply.status} {reply.body!r}"
    assert (reply.header("Content-Type") or "").startswith("application/problem+json")
    body = reply.json()
    assert body["status"] == status and body["title"] and body["type"]


def test_health_and_readiness(provider: Provider, stint: StartStint) -> None:
    running = stint()
    assert running.ask("GET", "/healthz").status == 200
    assert running.ask("GET", "/readyz").status == 200
    assert running.ask("HEAD", "/healthz").status in (200, 405)


def test_unknown_paths_and_methods(provider: Provider, stint: StartStint) -> None:
    running = stint()
    for path in ("/nothing", "/v1", "/v1/nothing", "/v1/operations/pay/absent",
                 "/v1/operations/nobody/k"):
        admin_problem(running.ask("GET", path), 404)
    for method, path in (("DELETE", "/metrics"), ("PUT", "/v1/operations"), ("POST", "/healthz"),
                         ("DELETE", "/v1/providers")):
        reply = running.ask(method, path)
        admin_problem(reply, 405)
        assert "GET" in (reply.header("Allow") or "")


def test_an_operation_in_full(provider: Provider, stint: StartStint) -> None:
    running = stint(provider={**HONOURS, "remote_id": "json:/id"})
    provider.script(Step(cut_when=When.REQUEST), json_step(503, "{}"),
                    json_step(200, '{"id":"pay_9"}'))
    running.send(path="/pay/charge?token=geheim&x=1", key="invoice:42/charge")
    record = running.operation("invoice:42/charge")
    assert record["provider"] == "pay" and record["key"] == "invoice:42/charge"
    assert record["method"] == "POST" and record["target"].startswith("/charge")
    assert "geheim" not in str(record)
    assert (record["state"], record["class"], record["effect"]) == (
        "succeeded", "success", "definite")
    assert (record["status"], record["attempts"], record["limit"]) == (200, 3, 4)
    assert (record["unresolved"], record["remote_id"]) == (0, "pay_9")
    assert not record.get("disputed") and record["generation"] == 0
    for name in ("created", "updated", "terminal", "deadline"):
        assert TIME.fullmatch(record[name]), f"{name}: {record[name]!r}"
    assert record["created"] <= record["terminal"] <= record["updated"]
    for name in ("fingerprint", "version", "reason"):
        assert record[name], name
    for name in ("owner", "lease_until"):
        assert not record.get(name), name
    history = [entry for entry in record["history"] if entry["kind"] == "attempt"]
    assert [entry["n"] for entry in history] == [1, 2, 3]
    assert [entry["class"] for entry in history] == ["unknown", "unknown", "success"]
    assert [entry["effect"] for entry in history] == ["possible", "possible", "definite"]
    assert history[0]["fault"] and history[1]["status"] == 503 and history[2]["status"] == 200
    for entry in history:
        assert TIME.fullmatch(entry["at"]) and entry["ms"] >= 0 and entry["instance"]
    first = datetime.fromisoformat(history[0]["at"].replace("Z", "+00:00"))
    assert abs(first.timestamp() - provider.requests[0].wall) < 2.0


def test_an_operation_in_flight(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(delay=0.8))
    running = stint()
    caller = threading.Thread(target=running.send, kwargs={"key": "k"})
    caller.start()
    provider.wait_for(1)
    record = running.operation("k")
    assert record["state"] == "attempting" and record["owner"]
    assert TIME.fullmatch(record["lease_until"]) and "terminal" not in record
    caller.join()


def test_the_list_and_its_filters(provider: Provider, stint: StartStint) -> None:
    running = stint(provider={"tenant": "header:X-Tenant"}, top={"providers": {"mail": {
        "route": "/mail", "upstream": f"{provider.url}/mail", "budget": {"attempts": 1}}}})
    plan = {"ok": 200, "bad": 422, "limited": 429, "denied": 401, "odd": 500}
    for tenant in ("a", "b"):
        for name, status in plan.items():
            key = f"{name}-{tenant}"
            provider.script(json_step(status, "{}"), key=key)
            running.send(key=key, headers=[("X-Tenant", tenant)])
    running.send(path="/mail/x", key="mail-1")

    def keys(query: str) -> list[str]:
        return sorted(one["key"] for one in running.operations(query))

    assert len(keys("")) == 11
    assert keys("?state=succeeded&provider=pay") == ["ok-a", "ok-b"]
    assert keys("?state=failed") == ["bad-a", "bad-b"]
    assert keys("?state=exhausted") == ["limited-a", "limited-b"]
    assert keys("?state=held") == ["denied-a", "denied-b"]
    assert keys("?state=unknown") == ["odd-a", "odd-b"]
    assert keys("?provider=mail") == ["mail-1"]
    assert keys("?class=auth") == ["denied-a", "denied-b"]
    assert keys("?tenant=b") == sorted(f"{name}-b" for name in plan)
    assert keys("?tenant=b&state=succeeded&class=success&provider=pay") == ["ok-b"]
    assert keys("?provider=nobody") == []
    for query in ("?state=nonsense", "?class=nonsense", "?limit=0", "?limit=abc"):
        admin_problem(running.ask("GET", f"/v1/operations{query}"), 400)

    seen: list[str] = []
    query = "?limit=4"
    pages = 0
    while True:
        page = running.admin(f"/v1/operations{query}")
        assert len(page["operations"]) <= 4
        seen += [one["key"] for one in page["operations"]]
        pages += 1
        if page["next"] is None:
            break
        query = f"?limit=4&cursor={page['next']}"
    assert sorted(seen) == keys("") and 3 <= pages <= 4


def test_providers(provider: Provider, stint: StartStint) -> None:
    running = stint()
    body = running.admin("/v1/providers")
    (entry,) = body["providers"]
    assert entry["name"] == "pay" and entry["mode"] == "enforce"


def test_metrics(provider: Provider, stint: StartStint) -> None:
    running = stint()
    assert running.metric("stint_build_info") == 1
    assert running.metric("stint_store_up") == 1
    provider.script(json_step(429, "{}"), json_step(200, "{}"))
    running.send(key="secret-key-1", path="/pay/secret-path")
    running.send(key="secret-key-1", path="/pay/secret-path")
    provider.script(json_step(500, "{}"))
    running.send(key="secret-key-2")
    running.send(key="secret-key-2")
    running.send(key="bad key")
    assert running.metric("stint_attempts_total", **{"class": "rate_limited"}) == 1
    assert running.metric("stint_attempts_total", **{"class": "success"}) == 1
    assert running.metric("stint_attempts_total", **{"class": "unknown", "effect": "possible"}) == 1
    assert running.metric("stint_attempts_total", provider="pay") == provider.count()
    assert running.metric("stint_replays_total", provider="pay") == 1
    assert running.metric("stint_refusals_total", provider="pay") >= 1
    assert running.metric("stint_deliveries_total", provider="pay") >= 4
    eventually(lambda: running.metric("stint_unknown_outcomes", provider="pay"),
               lambda count: count == 1)
    eventually(lambda: running.metric("stint_operations", state="succeeded"),
               lambda count: count == 1)
    text = running.ask("GET", "/metrics").body.decode()
    assert "secret" not in text
    types = re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M)
    assert len(types) == len(set(types))
    for name, kind in types:
        assert name.startswith("stint_") and kind in ("counter", "gauge", "histogram")
        assert kind != "counter" or name.endswith("_total"), name


def test_b41_the_series_do_not_grow(provider: Provider, stint: StartStint) -> None:
    running = stint(provider={"backoff": {"first": "1ms", "max": "1ms"}})

    def burst(count: int, base: int) -> None:
        for number in range(base, base + count):
            status = (200, 301, 404, 401, 429, 503, 600, 700 + number % 300)[number % 8]
            provider.script(Step(status=status), key=f"k{number}")
            method = ("POST", f"FOO{number}", "PUT")[number // 8 % 3]
            fetch(running.port, method, f"/pay/p{number}",
                  [("Idempotency-Key", f"k{number}")], b"", timeout=30.0)

    # Each burst runs through the same kinds of status and method, so that the second one can only
    # add what grows with keys, paths and codes.
    burst(60, 1000)
    before = set(running.metrics())
    burst(180, 2000)
    after = set(running.metrics())
    assert after == before
    assert not any("FOO" in series or "/p" in series for series in after)


def test_b48_secrets_stay_out(provider: Provider, stint: StartStint) -> None:
    running = stint()
    secret = "s3cr3t-t0ken"
    provider.script(json_step(429, "{}"), json_step(500, "{}"))
    headers = [("Authorization", f"Bearer {secret}"), ("X-Api-Key", secret),
               ("Cookie", f"session={secret}")]
    running.send(key="k", path=f"/pay/x?token={secret}&key={secret}", headers=headers,
                 body=f'{{"card":"{secret}"}}'.encode())
    later = running.send(key="k", path=f"/pay/x?token={secret}&key={secret}", headers=headers,
                         body=f'{{"card":"{secret}"}}'.encode())
    assert later.status == 424
    refused = running.send(key="bad key", path=f"/pay/x?token={secret}", headers=headers)
    texts = {
        "reply": later.body.decode() + refused.body.decode() + str(later.headers),
        "log": running.output(),
        "metrics": running.ask("GET", "/metrics").body.decode(),
        "record": str(running.operation("k")),
    }
    assert [name for name, text in texts.items() if secret in text] == []
    running.term()
    assert secret not in running.output()
    stored = b"".join(path.read_bytes() for path in running.directory.glob("ledger.db*")
                      if path.is_file())
    assert secret.encode() not in stored


def test_the_log_has_a_line_for_each_delivery_and_attempt(
    provider: Provider, stint: StartStint
) -> None:
    running = stint()
    provider.script(json_step(429, "{}"), json_step(200, "{}"))
    running.send(key="k")
    lines = eventually(running.log_lines, lambda found: len(found) >= 3)
    assert lines and all(isinstance(line, dict) for line in lines)
    assert len([line for line in lines if "rate_limited" in str(line)]) >= 1


def test_off_loopback_a_token_is_needed(
    provider: Provider, stint: StartStint, tmp_path: Path
) -> None:
    bare = stint(start=False)
    bare.config["admin"]["listen"] = f"0.0.0.0:{bare.admin_port}"
    bare.write_config()
    assert "token_file" in bare.fails_to_start()

    token_file = tmp_path / "token"
    token_file.write_text("correct-horse\n")
    token_file.chmod(0o600)
    running = stint(start=False, token="correct-horse")
    running.config["admin"] = {
        "listen": f"0.0.0.0:{running.admin_port}", "token_file": str(token_file)}
    running.write_config()
    running.start()
    assert running.admin("/v1/operations") == {"operations": [], "next": None}
    for headers in ([], [("Authorization", "Bearer wrong")], [("Authorization", "correct-horse")],
                    [("Authorization", "Bearer correct-hors")],
                    [("Authorization", "Bearer correct-horsee")], [("Authorization", "Bearer ")]):
        reply = fetch(running.admin_port, "GET", "/v1/operations", headers)
        admin_problem(reply, 401)
        assert b"correct" not in reply.body
    assert "correct-horse" not in running.output()


def test_changes_need_json_and_no_foreign_origin(provider: Provider, stint: StartStint) -> None:
    running = stint()
    provider.script(json_step(500, "{}"))
    running.send(key="k")
    path = "/v1/operations/pay/k/resolve"
    body = b'{"outcome":"applied","actor":"a","reason":"r"}'
    for headers in ([("Content-Type", "text/plain")],
                    [("Content-Type", "application/json"), ("Origin", "https://evil.example")]):
        reply = fetch(running.admin_port, "POST", path, headers, body)
        assert 400 <= reply.status < 500, reply.status
    assert running.operation("k")["state"] == "unknown"


def test_a_foreign_host_name_is_refused(provider: Provider, stint: StartStint) -> None:
    running = stint()
    for host, status in (("localhost", 200), (f"127.0.0.1:{running.admin_port}", 200),
                         ("rebound.example", 403)):
        with Client(running.admin_port) as client:
            client.send(encode("GET", "/v1/operations", host=host))
            assert client.read_reply().status == status, host


def test_the_admin_listener_is_no_front(provider: Provider, stint: StartStint) -> None:
    running = stint()
    reply = fetch(running.admin_port, "POST", "/pay/x", [("Idempotency-Key", "k")], b"")
    assert reply.status == 404
    assert running.send("GET", "/metrics").status == 404
    assert running.send("GET", "/v1/operations").status == 404
    assert provider.count() == 0


def test_two_providers_two_routes(provider: Provider, stint: StartStint) -> None:
    port = PORTS.take()
    running = stint(top={"providers": {
        "deep": {"route": "/pay/deep", "upstream": f"{provider.url}/d"},
        "own": {"listen": f"127.0.0.1:{port}", "upstream": f"{provider.url}/o"},
        "host": {"host": "mail.internal", "upstream": f"{provider.url}/h"}}})
    from_provider(running.send(key="1", path="/pay/deep/x"), 200)
    from_provider(running.send(key="2", path="/pay/deeper"), 200)
    from_provider(fetch(port, "POST", "/any", [("Idempotency-Key", "3")], b""), 200)
    with Client(running.port) as client:
        client.send(encode("POST", "/mail", [("Idempotency-Key", "4")], b"", host="Mail.internal"))
        from_provider(client.read_reply(), 200)
    assert [request.target for request in provider.requests] == [
        b"/d/x", b"/base/deeper", b"/o/any", b"/h/mail"]
    assert {one["provider"] for one in running.operations()} == {"deep", "pay", "own", "host"}

"""Releasing what is held, by the API and by `stint ops`, and pausing a credential."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from checks import HONOURS, charged, from_provider, problem, retry_after
from conftest import StartStint
from provider import Provider
from raw_http import Reply, fetch, parallel
from steps import Step, When, json_step
from stint_harness import Stint, run_cli

PERSON = {"actor": "ada", "reason": "the key is renewed"}
BAD = [("Authorization", "Bearer expired")]
GOOD = [("Authorization", "Bearer good")]
JSON = ("Content-Type", "application/json")


def seconds(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def path_of(key: str, query: str = "") -> str:
    return f"/v1/operations/pay/{key}/release{query}"


def release(running: Stint, key: str, query: str = "", **members: Any) -> Reply:
    """Releases the operation at its present version, unless `version` says another."""
    if "version" not in members:
        members["version"] = running.operation(key, query=query)["version"]
    return running.ask("POST", path_of(key, query), {**PERSON, **members})


def released(running: Stint, key: str, query: str = "") -> dict[str, Any]:
    reply = release(running, key, query)
    assert reply.status == 200, reply.body
    record: dict[str, Any] = reply.json()
    return record


def refusal(reply: Reply, status: int) -> dict[str, Any]:
    """A problem of the admin API."""
    assert reply.status == status, f"{reply.status} {reply.body!r}"
    assert (reply.header("Content-Type") or "").startswith("application/problem+json")
    members: dict[str, Any] = reply.json()
    assert members["status"] == status and members["title"] and members["detail"]
    return members


# --- release ---------------------------------------------------------------------------------


def test_w14_held_until_a_person_releases(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(401, "{}"), json_step(503, "{}"), Step(body=b"paid"))
    running = stint(provider=HONOURS)
    from_provider(running.send(key="k", headers=BAD), 401)
    for _ in range(3):
        problem(running.send(key="k", headers=BAD), 424, "held", "held")
    held = charged(running, provider, "k", 1)
    assert held["state"] == "held" and held["class"] == "auth"
    time.sleep(1.2)  # the night

    before = time.time()
    record = released(running, "k")
    assert record["state"] == "ready" and record["attempts"] == 1 and record["limit"] == 4
    assert record["version"] != held["version"] and record["created"] == held["created"]
    moved = seconds(record["deadline"]) - seconds(held["deadline"])
    assert 1.1 < moved < time.time() - seconds(held["created"]) + 0.1, moved
    note = record["history"][-1]
    assert (note["kind"], note["action"]) == ("operator", "release")
    assert (note["actor"], note["reason"]) == (PERSON["actor"], PERSON["reason"])
    assert abs(seconds(note["at"]) - before) < 2.0
    assert provider.count("k") == 1, "release sends nothing"
    assert running.operation("k") == record

    reply = running.send(key="k", headers=BAD)
    from_provider(reply, 200, b"paid")
    assert (reply.stint["attempts"], reply.stint["limit"]) == (3, 4)
    record = charged(running, provider, "k", 3)
    assert [one["kind"] for one in record["history"]] == [
        "attempt", "operator", "attempt", "attempt"]


def test_w14_what_is_left_is_all_there_is(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(401, "{}"))
    running = stint(provider={"budget": {"attempts": 2}})
    running.send(key="k", headers=BAD)
    assert released(running, "k")["state"] == "ready"
    running.send(key="k", headers=BAD)
    assert released(running, "k")["state"] == "exhausted"
    problem(running.send(key="k", headers=BAD), 424, "exhausted", "exhausted")
    charged(running, provider, "k", 2)
    refusal(release(running, "k"), 409)


def test_w14_survives_a_restart(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(403, "{}"), Step(body=b"paid"))
    running = stint()
    running.send(key="k", headers=BAD)
    released(running, "k")
    running.kill9()
    running.start()
    assert running.operation("k")["state"] == "ready"
    from_provider(running.send(key="k", headers=BAD), 200, b"paid")
    assert charged(running, provider, "k", 2)["history"][1]["action"] == "release"


def test_w26_release_with_something_unresolved(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(cut_when=When.REQUEST), json_step(401, "{}"), Step(body=b"paid"))
    running = stint(provider=HONOURS)
    reply = running.send(key="k", headers=BAD)
    from_provider(reply, 401)
    assert (reply.stint["state"], reply.stint["unresolved"]) == ("held", 1)
    assert [one["key"] for one in running.operations("?state=unknown")] == ["k"]
    record = released(running, "k")
    assert (record["state"], record["unresolved"]) == ("ready", 1)
    from_provider(running.send(key="k", headers=BAD), 200, b"paid")
    assert charged(running, provider, "k", 3)["unresolved"] == 0
    assert running.operations("?state=unknown") == []


def test_w26_release_where_repeating_is_not_safe(provider: Provider, stint: StartStint) -> None:
    """A POST without a forwarded key never gets that far; a PUT does, and its hold is over then."""
    provider.script(Step(cut_when=When.REQUEST), json_step(401, "{}"))
    running = stint(provider={"hold": "700ms"})
    running.send("PUT", key="k", headers=BAD)
    assert running.operation("k")["state"] == "held"
    time.sleep(0.8)
    record = released(running, "k")
    assert (record["state"], record["unresolved"]) == ("unknown", 1)
    problem(running.send("PUT", key="k", headers=BAD), 424, "unknown", "unknown")
    charged(running, provider, "k", 2)


def test_w36_another_credential_releases_by_itself(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(401, "{}"), Step(body=b"paid"))
    running = stint(provider={"auth": {"pause_after": 5}})
    running.send(key="k", headers=BAD)
    from_provider(running.send(key="k", headers=GOOD), 200, b"paid")
    record = charged(running, provider, "k", 2)
    assert record["history"][1]["action"] == "release" and "actor" not in record["history"][1]


def test_tenant_and_scope_are_part_of_the_name(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(401, "{}"))
    running = stint(provider={"tenant": "header:X-Tenant", "scope": "header:X-Account"})
    for tenant in ("a b", "c"):
        running.send(key="k/1", headers=[("X-Tenant", tenant.replace(" ", "-")),
                                         ("X-Account", "eu")])
    refusal(running.ask("POST", path_of("k%2F1"), {**PERSON, "version": "v"}), 404)
    query = "?tenant=c&scope=eu"
    version = running.operation("k/1", query=query)["version"]
    reply = running.ask("POST", path_of("k%2F1", query), {**PERSON, "version": version})
    assert reply.status == 200
    states = {one["tenant"]: one["state"] for one in running.operations()}
    assert states == {"a-b": "held", "c": "ready"}


def test_versions_are_compared_strictly(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(401, "{}"), json_step(401, "{}"), Step(body=b"paid"))
    running = stint()
    running.send(key="k", headers=BAD)
    first = running.operation("k")["version"]
    refusal(running.ask("POST", path_of("k"), PERSON), 428)
    for stale in ("nonsense", first[:-1], first + "0", f"{'0' * 32}-{first.split('-')[1]}", ""):
        members = refusal(release(running, "k", version=stale), 409)
        assert members["version"] == first and members["state"] == "held"
    assert release(running, "k", version=first).status == 200
    running.send(key="k", headers=BAD)
    assert running.operation("k")["state"] == "held"
    refusal(release(running, "k", version=first), 409)
    charged(running, provider, "k", 2)


def test_one_of_many_at_once(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(401, "{}"))
    running = stint()
    running.send(key="k", headers=BAD)
    version = running.operation("k")["version"]
    replies = parallel(8, lambda _: release(running, "k", version=version))
    assert sorted(reply.status for reply in replies) == [200] + [409] * 7
    history = running.operation("k")["history"]
    assert [one["kind"] for one in history] == ["attempt", "operator"]


def test_only_what_is_held(provider: Provider, stint: StartStint) -> None:
    plan = {"succeeded": 200, "failed": 422, "exhausted": 429, "unknown": 500}
    running = stint(provider={"budget": {"attempts": 1}})
    for state, status in plan.items():
        provider.script(json_step(status, "{}"), key=state)
        running.send(key=state)
        before = running.operation(state)
        assert before["state"] == state
        members = refusal(release(running, state), 409)
        assert members["state"] == state and members["key"] == state
        assert running.operation(state) == before
    refusal(release(running, "absent", version="v"), 404)
    refusal(running.ask("POST", "/v1/operations/nobody/k/release", {**PERSON, "version": "v"}), 404)


@pytest.mark.parametrize("body", [
    b"", b"{", b"[]", b"null", b'{"version":1}', b"\xff",
    b'{"version":"v","actor":"a"}', b'{"version":"v","reason":"r"}',
    b'{"version":"v","actor":"","reason":"r"}', b'{"version":"v","actor":"a","reason":" "}',
    b'{"version":"v","actor":"a","reason":"r","more":1}',
    json.dumps({"version": "v", "actor": "a" * 129, "reason": "r"}).encode(),
    json.dumps({"version": "v", "actor": "a", "reason": "r" * 1001}).encode(),
])
def test_bad_bodies(provider: Provider, stint: StartStint, body: bytes) -> None:
    running = stint()
    refusal(fetch(running.admin_port, "POST", path_of("k"), [JSON], body), 400)


def test_large_bodies(provider: Provider, stint: StartStint) -> None:
    running = stint()
    for size, status in ((65536, 404), (65537, 413), (500_000, 413)):
        body = json.dumps({**PERSON, "version": "v"}).encode().ljust(size)
        refusal(fetch(running.admin_port, "POST", path_of("k"), [JSON], body), status)


# --- who may ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("headers", "status"), [
    ([JSON], 404),
    ([], 415),
    ([("Content-Type", "text/plain")], 415),
    ([JSON, ("Origin", "http://127.0.0.1:{port}")], 404),
    ([JSON, ("Origin", "http://evil.example")], 403),
    ([JSON, ("Origin", "http://127.0.0.1:1")], 403),
    ([JSON, ("Origin", "null")], 403),
    ([("Content-Type", "text/plain"), ("Origin", "http://evil.example")], 403),
])
def test_changes_on_loopback(
    provider: Provider, stint: StartStint, headers: Sequence[tuple[str, str]], status: int,
) -> None:
    running = stint()
    body = json.dumps({**PERSON, "version": "v"}).encode()
    filled = [(name, value.format(port=running.admin_port)) for name, value in headers]
    refusal(fetch(running.admin_port, "POST", path_of("k"), filled, body), status)


def test_changes_elsewhere_need_the_token(
    provider: Provider, stint: StartStint, tmp_path: Path,
) -> None:
    token = tmp_path / "token"
    token.write_text("correct-horse\n")
    provider.script(json_step(401, "{}"), Step(body=b"paid"))
    running = stint(start=False, token="correct-horse")
    running.config["admin"] = {
        "listen": f"0.0.0.0:{running.admin_port}", "token_file": str(token)}
    running.write_config()
    running.start()
    running.send(key="k", headers=BAD)
    version = running.operation("k")["version"]
    body = json.dumps({**PERSON, "version": version}).encode()
    for headers in ([JSON], [JSON, ("Authorization", "Bearer wrong")]):
        refusal(fetch(running.admin_port, "POST", path_of("k"), headers, body), 401)
    assert running.operation("k")["state"] == "held"
    admin = f"http://127.0.0.1:{running.admin_port}"
    command = ("ops", "release", "k", "--provider", "pay", "--actor", "a", "--reason", "r")
    code, text = run_cli(*command, "--admin", admin)
    assert code == 1 and "token" in text and "correct-horse" not in text
    code, text = run_cli(*command, "--admin", admin, "--token-file", str(token))
    assert code == 0, text
    assert running.operation("k")["state"] == "ready"


# --- stint ops -------------------------------------------------------------------------------


def ops(running: Stint, *arguments: str, **env: str) -> tuple[int, str]:
    return run_cli("ops", "release", *arguments, "-c", str(running.config_path), env=env)


def run_cli_into(command: Sequence[str], results: list[tuple[int, str]]) -> None:
    results.append(run_cli(*command))


def test_ops_release(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(401, "{}"), json_step(401, "{}"), Step(body=b"paid"))
    running = stint(provider=HONOURS)
    key = "invoice:42/?&#%25"
    running.send(key=key, headers=BAD)
    code, text = ops(running, key, "--provider", "pay", "--reason", "renewed", USER="grace")
    assert code == 0 and "ready" in text and "1 of 4" in text, text
    note = running.operation(key)["history"][-1]
    assert (note["actor"], note["reason"]) == ("grace", "renewed")
    code, text = ops(running, key, "--provider", "pay", "--reason", "again", "--actor", "a")
    assert code == 1 and "ready" in text and "not held" in text, text
    running.send(key=key, headers=BAD)
    code, text = run_cli("ops", "release", "--json", "--provider", "pay", "--reason", "r",
                         "--actor", "a", "-c", str(running.config_path), "--", key)
    assert code == 0 and json.loads(text)["state"] == "ready", text
    from_provider(running.send(key=key, headers=BAD), 200, b"paid")
    charged(running, provider, key, 3)


def test_ops_release_by_its_whole_name(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(401, "{}"))
    running = stint(provider={"tenant": "header:X-Tenant", "scope": "header:X-Account"})
    running.send(key="../k?", headers=[("X-Tenant", "a&b=c"), ("X-Account", "e+u")])
    person = ("--provider", "pay", "--actor", "a", "--reason", "r")
    code, text = ops(running, "../k?", *person)
    assert code == 1 and "tenant" in text, text
    code, text = ops(running, "../k?", *person, "--tenant", "a&b=c", "--scope", "e+u")
    assert code == 0, text


def test_ops_refused_and_not_answered(
    provider: Provider, stint: StartStint, tmp_path: Path,
) -> None:
    running = stint()
    person = ("--provider", "pay", "--actor", "a", "--reason", "r")
    code, text = ops(running, "absent", *person)
    assert code == 1 and "404" in text
    code, text = run_cli("ops", "release", "k", *person, "--admin", "http://127.0.0.1:1")
    assert code == 1 and "127.0.0.1:1" in text
    running.term()
    code, text = ops(running, "k", *person)
    assert code == 1 and str(running.admin_port) in text


@pytest.mark.parametrize("arguments", [
    (), ("nonsense",), ("release",), ("release", "k"),
    ("release", "k", "--reason", "r", "--actor", "a"),
    ("release", "k", "--provider", "pay", "--actor", "a"),
    ("release", "k", "--provider", "pay", "--reason", "r"),
    ("release", "k", "--provider", "pay", "--reason", "", "--actor", "a"),
    ("release", "k", "l", "--provider", "pay", "--reason", "r", "--actor", "a"),
    ("release", "k", "--provider", "pay", "--reason", "r", "--actor"),
    ("release", "k", "--provider", "pay", "--provider", "pay", "--reason", "r", "--actor", "a"),
    ("release", "k", "--provider", "pay", "--reason", "r", "--actor", "a", "--nonsense", "x"),
    ("release", "k", "--provider", "pay", "--reason", "r", "--actor", "a", "-c", "/absent"),
    ("release", "k", "--provider", "pay", "--reason", "r", "--actor", "a", "--admin", "ftp://h"),
    ("release", "k", "--provider", "pay", "--reason", "r", "--actor", "a", "--admin",
     "http://h/path"),
    ("release", "k", "--provider", "pay", "--reason", "r", "--actor", "a", "--admin",
     "http://127.0.0.1:1", "-c", "/absent"),
    ("release", "k", "--provider", "pay", "--reason", "r", "--actor", "a", "--admin",
     "http://127.0.0.1:1", "--token-file", "/absent"),
])
def test_ops_usage(arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "USER", "")
    code, text = run_cli("ops", *arguments)
    assert code == 2 and text


def test_ops_over_a_unix_socket(provider: Provider, stint: StartStint, tmp_path: Path) -> None:
    provider.script(json_step(401, "{}"))
    running = stint()
    running.send(key="k", headers=BAD)
    path = tmp_path / "admin.sock"
    command = ("ops", "release", "k", "--provider", "pay", "--actor", "a", "--reason", "r",
               "--admin", f"unix:{path}")
    code, text = run_cli(*command)
    assert code == 1 and str(path) in text

    def relay(inner: socket.socket) -> None:
        with inner, socket.create_connection(("127.0.0.1", running.admin_port)) as outer:
            outer.settimeout(5.0)
            while data := inner.recv(65536):
                outer.sendall(data)
                inner.sendall(outer.recv(65536))

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        done = threading.Thread(target=run_cli_into, args=(command, results := []))
        done.start()
        relay(server.accept()[0])
        done.join()
    assert results[0][0] == 0, results
    assert running.operation("k")["state"] == "ready"


# --- pausing a credential --------------------------------------------------------------------


def paused(reply: Reply) -> None:
    problem(reply, 503, "paused")
    assert reply.stint["reason"] == "auth-paused"
    assert retry_after(reply) == 60


def test_off_by_default(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(401, "{}"))
    running = stint()
    for i in range(5):
        from_provider(running.send(key=f"k{i}", headers=BAD), 401)
    assert provider.count() == 5
    assert running.metric("stint_auth_paused", provider="pay") == 0


def test_a_credential_is_paused(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(401, "{}"))
    provider.script(Step(body=b"paid"), key="done")
    running = stint(provider={"auth": {"pause_after": 3}})
    from_provider(running.send(key="done", headers=BAD), 200, b"paid")
    for i in range(3):
        from_provider(running.send(key=f"k{i}", headers=BAD), 401)
    sent = provider.count()
    for method, key in (("POST", "new"), ("POST", None), ("GET", None), ("POST", "new")):
        paused(running.send(method, key=key, headers=BAD))
    assert provider.count() == sent
    record = running.operation("new")
    assert (record["state"], record["attempts"]) == ("ready", 0) and "deadline" not in record
    # What is known is answered as ever, and nobody else is paused.
    reply = running.send(key="done", headers=BAD)
    assert (reply.status, reply.body, reply.stint["replayed"]) == (200, b"paid", True)
    problem(running.send(key="k0", headers=BAD), 424, "held", "held")
    provider.script(Step(body=b"paid"), key="other")
    from_provider(running.send(key="other", headers=GOOD), 200, b"paid")
    from_provider(running.send("GET"), 401)
    assert running.metric("stint_auth_paused", provider="pay") == 1
    ready = running.ask("GET", "/readyz")
    assert ready.status == 200 and ready.json()["detail"]["auth_paused"] == 1
    assert running.metric("stint_refusals_total", reason="paused") == 4
    assert "expired" not in running.output()
    # The one that it refused goes on with another credential.
    provider.script(Step(body=b"paid"), key="new")
    from_provider(running.send(key="new", headers=GOOD), 200, b"paid")


def test_a_release_lifts_the_pause(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(401, "{}"), json_step(403, "{}"), Step(body=b"paid"))
    running = stint(provider={"auth": {"pause_after": 2}})
    for i in range(2):
        running.send(key=f"k{i}", headers=BAD)
    paused(running.send(key="k2", headers=BAD))
    assert released(running, "k1")["state"] == "ready"
    assert running.metric("stint_auth_paused", provider="pay") == 0
    from_provider(running.send(key="k2", headers=BAD), 200, b"paid")
    from_provider(running.send(key="k1", headers=BAD), 200, b"paid")
    assert provider.count() == 4


def test_replies_without_a_key_count(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(401, "{}"), json_step(200, "{}"), json_step(401, "{}"),
                    json_step(500, "{}"), json_step(401, "{}"), Step(body=b"paid"))
    running = stint(provider={"auth": {"pause_after": 2}, "budget": {"attempts": 1}})
    for status, method in ((401, "GET"), (200, "POST"), (401, "POST"), (500, "POST"), (401, "GET")):
        from_provider(running.send(method, headers=BAD), status)
    paused(running.send(headers=BAD))
    paused(running.send("GET", headers=BAD))
    assert provider.count() == 5


def test_a_pause_meets_a_delivery_between_attempts(provider: Provider, stint: StartStint) -> None:
    """It is not sent again with that credential, and the caller gets the provider's last word."""
    provider.script(json_step(503, '{"busy":true}'), key="a")
    provider.script(json_step(401, "{}"), key="b")
    running = stint(provider={**HONOURS, "auth": {"pause_after": 1},
                              "backoff": {"first": "700ms", "max": "700ms", "jitter": "none"}})
    replies: list[Reply] = []
    caller = threading.Thread(target=lambda: replies.append(running.send(key="a", headers=BAD)))
    caller.start()
    provider.wait_for(1)
    from_provider(running.send(key="b", headers=BAD), 401)
    caller.join()
    from_provider(replies[0], 503, b'{"busy":true}')
    assert retry_after(replies[0]) in (59, 60)
    assert replies[0].stint["state"] == "ready"
    charged(running, provider, "a", 1)

"""One key, one effect: duplicates, replays, keys from everywhere, and what a crash leaves."""

from __future__ import annotations

import base64
import contextlib
import threading
import time
from pathlib import Path

import pytest
from checks import HONOURS, charged, from_provider, problem, retry_after, untouched
from conftest import Rig, StartStint
from provider import Provider
from raw_http import Cut, Reply, fetch, parallel
from steps import End, Step, When, json_step
from stint_harness import Stint


def test_b22_fifty_at_once(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(200, '{"id":"pay_1"}', delay=0.3))
    running = stint()
    replies = parallel(50, lambda _: running.send(key="k"))
    for reply in replies:
        from_provider(reply, 200, b'{"id":"pay_1"}')
    charged(running, provider, "k", 1)


def test_b22_fifty_at_once_refused(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(200, '{"id":"pay_1"}', delay=0.5))
    running = stint(provider={"key": {"in_flight": "refuse"}})
    replies = parallel(50, lambda _: running.send(key="k"))
    assert sum(reply.status == 200 for reply in replies) >= 1
    for reply in replies:
        if reply.status != 200:
            problem(reply, 409, "in-progress")
            retry_after(reply)
    charged(running, provider, "k", 1)


def test_b22_fifty_at_once_over_two_instances(
    provider: Provider, stint: StartStint, tmp_path: Path
) -> None:
    provider.script(json_step(200, '{"id":"pay_1"}', delay=0.3))
    pair = [stint(ledger=tmp_path / "shared.db") for _ in range(2)]
    replies = parallel(50, lambda index: pair[index % 2].send(key="k"))
    for reply in replies:
        from_provider(reply, 200, b'{"id":"pay_1"}')
    charged(pair[0], provider, "k", 1)
    charged(pair[1], provider, "k", 1)


def test_joiners_share_a_failure_too(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(cut_when=When.REQUEST, end=End.RESET, delay=0.3))
    running = stint()
    replies = parallel(10, lambda _: running.send(key="k"))
    for reply in replies:
        assert reply.status in (424, 502), reply.status
        assert reply.stint["state"] == "unknown"
    charged(running, provider, "k", 1)


def test_a_delivery_never_gets_the_reply_of_another(provider: Provider, stint: StartStint) -> None:
    provider.script(lambda request: Step(body=(request.key or "").encode(), delay=0.02))
    running = stint()
    replies = parallel(60, lambda index: running.send(key=f"k{index % 20}"))
    for index, reply in enumerate(replies):
        from_provider(reply, 200, f"k{index % 20}".encode())
    assert all(provider.count(f"k{index}") == 1 for index in range(20))


@pytest.mark.parametrize("status", [503, 500])
def test_b24_a_transient_failure_is_not_the_answer(
    provider: Provider, stint: StartStint, status: int
) -> None:
    provider.script(*[Step(status=status)] * 3, Step(body=b"healthy"))
    running = stint(provider={**HONOURS, "budget": {"attempts": 3}})
    reply = running.send(key="k")
    from_provider(reply, status)
    assert (reply.stint["state"], reply.stint["unresolved"]) == ("unknown", 3)
    later = running.send(key="k")
    problem(later, 424, "unknown", "unknown")
    assert later.stint["replayed"] is False
    charged(running, provider, "k", 3)


@pytest.mark.parametrize("status", [408, 429])
def test_b24_a_failure_without_effect_is_not_the_answer(
    provider: Provider, stint: StartStint, status: int
) -> None:
    provider.script(*[Step(status=status)] * 3, Step(body=b"healthy"))
    running = stint(provider={"budget": {"attempts": 3}})
    from_provider(running.send(key="k"), status)
    later = running.send(key="k")
    problem(later, 424, "exhausted", "exhausted")
    assert later.stint["replayed"] is False
    charged(running, provider, "k", 3)


def test_b24_a_permanent_error_is_the_answer(shared: Rig) -> None:
    shared.provider.script(json_step(422, '{"field":"amount"}'), Step(), key="invalid")
    for replayed in (False, True):
        reply = shared.stint.send(key="invalid")
        from_provider(reply, 422, b'{"field":"amount"}')
        assert reply.stint["replayed"] is replayed and reply.stint["state"] == "failed"
    charged(shared.stint, shared.provider, "invalid", 1)


def crash_in_flight(running: Stint, provider: Provider, key: str) -> None:
    """Kills stint 100 ms after the provider has the request."""

    def deliver() -> None:
        with contextlib.suppress(OSError, Cut):  # the caller is cut off
            running.send(key=key)

    caller = threading.Thread(target=deliver)
    caller.start()
    provider.wait_for(1, key)
    time.sleep(0.1)
    running.kill9()
    caller.join()


def test_b25_crash_without_provider_idempotency(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(delay=5.0), Step(body=b"second"))
    running = stint()
    crash_in_flight(running, provider, "k")
    running.start()
    started = time.monotonic()
    reply = running.send(key="k")
    assert time.monotonic() - started < 3.0, "the lease of a dead instance ends at once"
    problem(reply, 424, "unknown", "unknown")
    record = charged(running, provider, "k", 1)
    assert (record["state"], record["unresolved"]) == ("unknown", 1)
    assert [one["key"] for one in running.operations("?state=unknown")] == ["k"]


def test_b25_crash_with_provider_idempotency(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(delay=5.0), *[Step(status=429)] * 9)
    running = stint(provider=HONOURS)
    crash_in_flight(running, provider, "k")
    running.start()
    reply = running.send(key="k")
    from_provider(reply, 429)
    assert (reply.stint["attempts"], reply.stint["limit"]) == (4, 4)
    assert reply.stint["unresolved"] == 1 and reply.stint["state"] == "unknown"
    charged(running, provider, "k", 4)


def test_b25_crash_then_success(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(delay=5.0), Step(body=b"second"))
    running = stint(provider=HONOURS)
    crash_in_flight(running, provider, "k")
    running.start()
    reply = running.send(key="k")
    from_provider(reply, 200, b"second")
    assert reply.stint["attempts"] == 2
    assert charged(running, provider, "k", 2)["unresolved"] == 0
    assert [one.header("Idempotency-Key") for one in provider.requests] == ["k", "k"]


def test_b25_crash_and_another_instance(
    provider: Provider, stint: StartStint, tmp_path: Path
) -> None:
    provider.script(Step(delay=5.0), Step(body=b"second"))
    pair = [stint(ledger=tmp_path / "shared.db") for _ in range(2)]
    crash_in_flight(pair[0], provider, "k")
    started = time.monotonic()
    reply = pair[1].send(key="k")
    assert time.monotonic() - started < 3.0
    problem(reply, 424, "unknown", "unknown")
    charged(pair[1], provider, "k", 1)


def test_what_was_answered_survives_a_crash(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(body=b"paid"))
    running = stint()
    from_provider(running.send(key="k"), 200, b"paid")
    running.kill9()
    running.start()
    reply = running.send(key="k")
    from_provider(reply, 200, b"paid")
    assert reply.stint["replayed"] is True
    charged(running, provider, "k", 1)


def test_b25_a_short_lease_is_renewed(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(delay=2.5, body=b"slow"))
    running = stint(provider={"lease": "1s", "attempt": {"timeout": "4s"}})
    replies = parallel(2, lambda index: (time.sleep(index * 1.5), running.send(key="k"))[1])
    for reply in replies:
        from_provider(reply, 200, b"slow")
    charged(running, provider, "k", 1)


BAD_KEYS = {
    "empty": [("Idempotency-Key", "")],
    "256 characters": [("Idempotency-Key", "x" * 256)],
    "control character": [("Idempotency-Key", "a\x01b")],
    "blank inside": [("Idempotency-Key", "a b")],
    "emoji": [("Idempotency-Key", "pay-\U0001f600".encode().decode("latin-1"))],
    "two lines": [("Idempotency-Key", "a"), ("Idempotency-Key", "b")],
    "two equal lines": [("Idempotency-Key", "a"), ("idempotency-key", "a")],
    "empty string": [("Idempotency-Key", '""')],
    "open string": [("Idempotency-Key", '"abc')],
}


@pytest.mark.parametrize("name", BAD_KEYS)
def test_b46_malformed_keys(shared: Rig, name: str) -> None:
    seen = shared.provider.count()
    records = len(shared.stint.operations("?limit=1000"))
    for _ in range(2):
        reply = shared.stint.send(headers=BAD_KEYS[name])
        # A control character is refused in any header, before the key is looked at.
        problem(reply, 400, "bad-request" if name == "control character" else "key-invalid")
    assert shared.provider.count() == seen
    assert len(shared.stint.operations("?limit=1000")) == records
    assert b"x" * 256 not in shared.stint.ask("GET", "/metrics").body


def test_b46_keys_that_are_fine(shared: Rig) -> None:
    for key in ("a:b", "x" * 255, "!~%2F", "invoice/42"):
        from_provider(shared.stint.send(key=key), 200)
        charged(shared.stint, shared.provider, key, 1)


def test_a_structured_string_names_the_bare_key(shared: Rig) -> None:
    from_provider(shared.stint.send(key='"quoted-1"'), 200)
    reply = shared.stint.send(key="quoted-1")
    assert reply.stint["replayed"] is True
    assert shared.provider.count('"quoted-1"') == 1, "the header's bytes go out as they came"
    assert shared.provider.count("quoted-1") == 0


def test_a_key_from_the_body_survives_another_job_id(
    provider: Provider, stint: StartStint
) -> None:
    running = stint(provider={"key": {
        "from": ["template:invoice:{json:/invoice_id}:charge"],
        "fingerprint": {"json-except": ["/job"]},
    }, "body": {"over": "refuse"}})
    first = running.send(body=b'{"invoice_id": 42, "job": "a"}')
    second = running.send(body=b'{"job":"b","invoice_id":42}')
    from_provider(first, 200)
    assert second.stint["replayed"] is True
    problem(running.send(body=b'{"invoice_id":42,"amount":9}'), 422, "key-reuse")
    assert running.operation("invoice:42:charge")["attempts"] == 1
    assert provider.count() == 1


def test_other_sources_of_a_key(provider: Provider, stint: StartStint) -> None:
    running = stint(provider={"key": {"from": [
        "header:X-Trace;part=2;sep=,", "json:/id", "form:op"]}, "body": {"over": "refuse"}})
    running.send(headers=[("X-Trace", "job,order-7,3")])
    running.send(body=b'{"id":"from-json"}')
    form = [("Content-Type", "application/x-www-form-urlencoded")]
    fetch(running.port, "POST", "/pay/x", form, b"op=from%2Dform")
    keys = {one["key"] for one in running.operations()}
    assert keys == {"order-7", "from-json", "from-form"}


def test_tenant_and_scope_are_part_of_the_name(provider: Provider, stint: StartStint) -> None:
    running = stint(provider={
        "tenant": "header:X-Tenant", "scope": "header:X-Account", **HONOURS})
    for tenant in ("a", "b"):
        for account in ("1", "2"):
            headers = [("X-Tenant", tenant), ("X-Account", account)]
            assert running.send(key="k", headers=headers).stint["replayed"] is False
    assert running.send(key="k", headers=headers).stint["replayed"] is True
    assert provider.count() == 4
    sent = {request.header("Idempotency-Key") for request in provider.requests}
    assert len(sent) == 4, "each operation has an upstream key of its own"
    for key in sent:
        assert key is not None and len(base64.urlsafe_b64decode(key + "=")) == 32
    assert running.operation("k", query="?tenant=a&scope=1")["attempts"] == 1


def test_w14_w36_credentials(provider: Provider, stint: StartStint) -> None:
    def answer(request: object) -> Step:
        good = request.header("Authorization") == "Bearer good"  # type: ignore[attr-defined]
        return Step(body=b"paid") if good else json_step(401, '{"error":"credentials"}')

    provider.script(answer)
    running = stint()
    wrong, right = [("Authorization", "Bearer wrong")], [("Authorization", "Bearer good")]
    from_provider(running.send(key="k", headers=wrong), 401)
    assert running.operation("k")["state"] == "held"
    problem(running.send(key="k", headers=wrong), 424, "held", "held")
    reply = running.send(key="k", headers=right)
    from_provider(reply, 200, b"paid")
    assert reply.stint["attempts"] == 2
    charged(running, provider, "k", 2)


def test_w26_auth_after_a_possible_effect(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(cut_when=When.REQUEST), json_step(401, "{}"), Step(body=b"paid"))
    running = stint(provider=HONOURS)
    reply = running.send(key="k", headers=[("Authorization", "old")])
    from_provider(reply, 401)
    assert (reply.stint["state"], reply.stint["unresolved"]) == ("held", 1)
    assert [one["key"] for one in running.operations("?state=unknown")] == ["k"]
    reply = running.send(key="k", headers=[("Authorization", "new")])
    from_provider(reply, 200, b"paid")
    assert charged(running, provider, "k", 3)["unresolved"] == 0


def test_w27_a_400_proves_nothing_about_the_first(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(cut_when=When.REQUEST), json_step(400, "{}"))
    running = stint(provider=HONOURS)
    reply = running.send(key="k")
    from_provider(reply, 400)
    assert (reply.stint["state"], reply.stint["unresolved"]) == ("unknown", 1)
    problem(running.send(key="k"), 424, "unknown", "unknown")
    charged(running, provider, "k", 2)


def test_delete_that_is_already_gone(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(cut_when=When.REQUEST), json_step(404, "{}"))
    running = stint()
    reply = running.send("DELETE", key="k", body=None)
    from_provider(reply, 404)
    assert (reply.stint["state"], reply.stint["reason"]) == ("succeeded", "already-gone")
    charged(running, provider, "k", 2)


def test_w28_an_old_put_does_not_undo_a_newer_one(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(silent=True), Step(body=b"new"))
    running = stint(provider={"attempt": {"timeout": "600ms"}, "hold": "300ms"})
    reply = running.send("PUT", key="v1", body=b"1")
    problem(reply, 504, "unknown-outcome")
    from_provider(running.send("PUT", key="v2", body=b"2"), 200, b"new")
    reply = running.send("PUT", key="v1", body=b"1")
    problem(reply, 424, "unknown", "unknown")
    charged(running, provider, "v1", 1)


def test_put_is_repeated_within_the_hold(provider: Provider, stint: StartStint) -> None:
    provider.script(Step(cut_when=When.REQUEST), Step(status=503), Step(body=b"done"))
    running = stint()
    reply = running.send("PUT", key="k")
    from_provider(reply, 200, b"done")
    assert charged(running, provider, "k", 3)["unresolved"] == 0


def test_w23_a_corrected_input(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(422, "{}"), key="old")
    running = stint()
    from_provider(running.send(key="old"), 422)
    reply = running.send(key="new", body=b'{"amount":2}', headers=[("Stint-Corrects", "old")])
    from_provider(reply, 200)
    assert "old" in str(running.operation("new")) and "new" in str(running.operation("old"))
    assert provider.of("new")[0].header("Stint-Corrects") is None


def test_the_remote_id_is_kept(provider: Provider, stint: StartStint) -> None:
    provider.script(json_step(200, '{"id":"pay_77"}'))
    running = stint(provider={"remote_id": "json:/id"})
    running.send(key="k")
    assert running.operation("k")["remote_id"] == "pay_77"


def test_without_a_key_only_a_provable_failure_is_repeated(
    provider: Provider, stint: StartStint
) -> None:
    provider.script(Step(status=429), Step(status=408), Step(status=503, body=b"maybe"), Step())
    running = stint()
    from_provider(running.send(), 503, b"maybe")
    assert provider.count() == 3
    (record,) = running.operations("?state=unknown")
    assert record["unresolved"] == 1 and record["key"]


def test_without_a_key_a_success_leaves_no_record(provider: Provider, stint: StartStint) -> None:
    running = stint()
    reply: Reply = running.send()
    from_provider(reply, 200)
    assert running.send().status == 200
    untouched(running, provider, requests=2)

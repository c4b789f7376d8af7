"""TLS on both sides: the provider's certificate is verified, and a listener speaks it."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from checks import from_provider, problem
from conftest import StartStint
from provider import Provider, self_signed
from stint_harness import eventually


@pytest.fixture
def secure() -> Iterator[tuple[Provider, Path]]:
    """A provider that speaks TLS with a certificate that nobody has signed."""
    with self_signed() as (context, certificate), Provider(tls=context) as provider:
        yield provider, certificate


def test_an_unknown_certificate_is_not_sent_to(
    secure: tuple[Provider, Path], stint: StartStint
) -> None:
    provider, _ = secure
    running = stint(upstream=provider.url, provider={"budget": {"attempts": 2}})
    problem(running.send(key="k"), 502, "not-sent", "exhausted")
    assert provider.count() == 0
    record = running.operation("k")
    assert (record["unresolved"], record["attempts"]) == (0, 2)
    assert {entry["fault"] for entry in record["history"]} == {"tls"}


@pytest.mark.parametrize("name, reaches", [("127.0.0.1", True), ("localhost", True),
                                           ("127.0.0.2", False)])
def test_a_known_certificate_must_name_the_host(
    secure: tuple[Provider, Path], stint: StartStint, name: str, reaches: bool
) -> None:
    provider, certificate = secure
    running = stint(
        upstream=f"https://{name}:{provider.port}",
        provider={"budget": {"attempts": 1}, "tls": {"ca": str(certificate)}})
    reply = running.send(key="k")
    if reaches:
        from_provider(reply, 200)
    else:
        problem(reply, 502, "not-sent")
    assert provider.count() == (1 if reaches else 0)


def test_verification_can_be_switched_off(
    secure: tuple[Provider, Path], stint: StartStint
) -> None:
    provider, _ = secure
    running = stint(upstream=provider.url, provider={"tls": {"verify": False}})
    from_provider(running.send(key="k"), 200)


def test_a_listener_speaks_tls(provider: Provider, stint: StartStint, tmp_path: Path) -> None:
    with self_signed() as (_, certificate):
        running = stint(top={"tls": {"cert": str(certificate),
                                     "key": str(certificate.with_name("key.pem"))}})
        trust = ssl.create_default_context(cafile=str(certificate))
        caller = http.client.HTTPSConnection("localhost", running.port, context=trust, timeout=10)
        for key, replayed in (("a", False), ("b", False), ("a", True)):
            caller.request("POST", "/pay/x", b"{}", {"Idempotency-Key": key})
            reply = caller.getresponse()
            reply.read()
            assert reply.status == 200
            assert ("replayed=?0" in reply.headers["Stint"]) is not replayed
        caller.close()
    assert eventually(provider.count, lambda count: count == 2) == 2

"""What several end-to-end tests assert in the same words."""

from __future__ import annotations

from typing import Any

from provider import Provider
from raw_http import Reply
from stint_harness import Stint

HONOURS = {"idempotency": {"header": "Idempotency-Key", "retention": "24h"}}


def problem(reply: Reply, status: int, name: str, state: str | None = None) -> dict[str, Any]:
    """The reply is stint's own, of this status and problem type; returns the problem's members."""
    assert (reply.status, reply.problem) == (status, name), f"{reply.status} {reply.body!r}"
    assert reply.clean
    assert reply.stint.get("made") is True, reply.headers
    members: dict[str, Any] = reply.json()
    assert members["title"] and members["detail"]
    if state is not None:
        assert members["state"] == state and reply.stint["state"] == state, members
        for name in ("provider", "key", "attempts", "limit"):
            assert name in members, f"{name} is missing in {members}"
    return members


def from_provider(reply: Reply, status: int, body: bytes | None = None) -> None:
    """The reply is the provider's, byte for byte, and whole."""
    assert reply.status == status, f"{reply.status} {reply.headers} {reply.body!r}"
    assert reply.clean
    assert "made" not in reply.stint
    if body is not None:
        assert reply.body == body


def retry_after(reply: Reply) -> int:
    """The Retry-After of a reply, which must be whole seconds and positive."""
    value = reply.header("Retry-After")
    assert value is not None and value.isdigit() and int(value) >= 1, reply.headers
    return int(value)


def charged(stint: Stint, provider: Provider, key: str, attempts: int) -> dict[str, Any]:
    """The provider saw exactly as many requests as the record says; returns the record."""
    record = stint.operation(key)
    assert provider.count(key) == attempts, f"provider saw {provider.count(key)}: {record}"
    assert record["attempts"] == attempts, record
    assert record["attempts"] <= record["limit"]
    return record


def untouched(stint: Stint, provider: Provider, requests: int = 0) -> None:
    """Nothing reached the provider beyond `requests`, and there is no record of an operation."""
    assert provider.count() == requests
    assert stint.operations() == []

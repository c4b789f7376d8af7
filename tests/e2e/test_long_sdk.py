"""Real SDKs with stint in front: whatever they do of their own, the provider sees one budget.

The SDKs come from npm in the versions of tests/sdk/package-lock.json, into build/sdk. Each of the
scripts of tests/sdk makes one call and prints what the application gets from it; what reached the
provider is counted there.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import StartStint
from provider import Provider
from steps import End, Framing, Step, When, json_step
from stint_harness import ROOT, Stint

SOURCE = ROOT / "tests" / "sdk"
INSTALLED = ROOT / "build" / "sdk"
BUDGET = 4  # the harness's attempts
LIMIT = 60.0  # for one call; the longest sleeps a few seconds of its own
CARD = '{"error":{"type":"card_error","code":"card_declined","message":"declined"}}'
ERROR = '{"error":{"type":"x","code":"x","message":"said by the provider"}}'


@pytest.fixture(scope="session")
def sdks() -> Path:
    """The directory with the scripts and their packages; installed once for each lock file."""
    INSTALLED.mkdir(parents=True, exist_ok=True)
    with (INSTALLED / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for file in SOURCE.iterdir():
            shutil.copy(file, INSTALLED)
        wanted = hashlib.sha256((SOURCE / "package-lock.json").read_bytes()).hexdigest()
        stamp = INSTALLED / "installed"
        if not stamp.exists() or stamp.read_text() != wanted:
            stamp.unlink(missing_ok=True)
            done = subprocess.run(
                ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=INSTALLED,
                capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            stamp.write_text(wanted)
    return INSTALLED


class App:
    """An application with one SDK, and stint with the provider's preset in front of it."""

    def __init__(self, sdks: Path, provider: Provider, stint: StartStint, name: str) -> None:
        self.sdks = sdks
        self.provider = provider
        self.name = name
        # stripe-node knows a host and no path.
        route = {"route": "/"} if name == "stripe" else {"route": f"/{name}"}
        self.stint: Stint = stint(
            upstream=provider.url, provider={"preset": name, "hold": "20s", **route})

    def call(self, **options: Any) -> dict[str, Any]:
        """One call of the SDK; what the application gets."""
        done = subprocess.run(
            ["node", f"{self.name}.mjs", self.stint.url, json.dumps(options)], cwd=self.sdks,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT, check=False)
        assert done.returncode == 0 and done.stdout, done.stderr
        told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return told

    def succeeds(self, **options: Any) -> Any:
        """The result of a call that the application sees succeed."""
        told = self.call(**options)
        assert told["ok"], told
        return told["result"]

    def fails(self, kind: str, status: int | None = None, **options: Any) -> dict[str, Any]:
        """What the application gets of a call that fails with the SDK's own error."""
        told = self.call(**options)
        assert not told["ok"], told
        assert told["type"] == kind, told
        assert status is None or told["status"] == status, told
        return told

    def saw(self, requests: int, deliveries: int = 1) -> None:
        """What reached the provider, and how often the SDK tried."""
        assert self.provider.count() == requests <= BUDGET
        assert self.stint.metric("stint_deliveries_total") == deliveries


@pytest.fixture
def app(sdks: Path, provider: Provider, stint: StartStint) -> Callable[[str], App]:
    """Makes the application of an SDK by name."""
    return lambda name: App(sdks, provider, stint, name)


# What each provider answers to the call of its script, the result that the application gets of it,
# the SDK's error for a permanent refusal, and whether the call carries a key of the application's.
SDKS: dict[str, dict[str, Any]] = {
    "stripe": {"good": '{"id":"pi_1","object":"payment_intent"}', "result": "pi_1",
               "bad": (402, CARD), "error": "StripeCardError"},
    "openai": {"good": '{"id":"chat_1","object":"chat.completion","choices":[]}',
               "result": "chat_1", "bad": (422, ERROR), "error": "UnprocessableEntityError"},
    "anthropic": {"good": '{"id":"msg_1","type":"message","content":[]}', "result": "msg_1",
                  "bad": (422, ERROR), "error": "UnprocessableEntityError"},
    "slack": {"good": '{"ok":true,"ts":"1.2"}', "result": "1.2",
              "bad": (200, '{"ok":false,"error":"channel_not_found"}'),
              "error": "WebAPIPlatformError"},
    "github": {"good": '{"number":7}', "result": 7, "bad": (422, '{"message":"Invalid"}'),
               "error": "RequestError"},
    "twilio": {"good": '{"sid":"SM1"}', "result": "SM1",
               "bad": (400, '{"code":21211,"message":"Invalid To"}'), "error": "RestException"},
    "square": {"good": '{"payment":{"id":"pay_1"}}', "result": "pay_1", "key": "k",
               "bad": (422, '{"errors":[{"category":"INVALID_REQUEST_ERROR","code":"x"}]}'),
               "error": "SquareError"},
}
EVERY = pytest.mark.parametrize("name", list(SDKS))


def options_of(name: str) -> dict[str, str]:
    """What the call of a script needs."""
    return {"key": SDKS[name]["key"]} if "key" in SDKS[name] else {}


@EVERY
def test_a_success_comes_through(app: Callable[[str], App], provider: Provider, name: str) -> None:
    provider.script(json_step(200, SDKS[name]["good"]))
    one = app(name)
    assert one.succeeds(**options_of(name)) == SDKS[name]["result"]
    one.saw(1)


@EVERY
def test_a_permanent_refusal_is_one_request(
    app: Callable[[str], App], provider: Provider, name: str
) -> None:
    provider.script(json_step(*SDKS[name]["bad"]))
    one = app(name)
    one.fails(SDKS[name]["error"], **options_of(name))
    one.saw(1)


@EVERY
def test_a_rate_limit_that_passes_is_not_seen(
    app: Callable[[str], App], provider: Provider, name: str
) -> None:
    limited = json_step(429, '{"message":"later"}', [("Retry-After", "1")])
    provider.script(limited, json_step(200, SDKS[name]["good"]))
    one = app(name)
    assert one.succeeds(**options_of(name)) == SDKS[name]["result"]
    one.saw(2)


def test_stripe_503_twice_is_one_call(app: Callable[[str], App], provider: Provider) -> None:
    down = json_step(503, ERROR)
    provider.script(down, down, json_step(200, SDKS["stripe"]["good"]))
    one = app("stripe")
    assert one.succeeds() == "pi_1"
    one.saw(3)
    keys = {request.header("Idempotency-Key") for request in provider.requests}
    assert len(keys) == 1 and None not in keys


# What the SDKs that heed a stop header make of a failure, and of a rate limit.
STOPPED = {"stripe": ("StripeAPIError", "StripeRateLimitError"),
           "openai": ("InternalServerError", "RateLimitError"),
           "anthropic": ("InternalServerError", "RateLimitError")}


@pytest.mark.parametrize("name", list(STOPPED))
@pytest.mark.parametrize(("step", "status"), [
    (json_step(500, ERROR), 500),
    (json_step(429, ERROR), 429),
    (Step(cut_when=When.REQUEST, end=End.RESET), 502),
], ids=["unknown", "exhausted", "no-answer"])
def test_no_sdk_goes_on_where_nothing_more_is_admitted(
    app: Callable[[str], App], provider: Provider, name: str, step: Step, status: int
) -> None:
    provider.script(step)
    one = app(name)
    told = one.fails(STOPPED[name][status == 429], status)
    # stripe honours its keys, the others have none
    one.saw(BUDGET if name == "stripe" or status == 429 else 1)
    if name == "stripe" and status == 502:
        assert told["code"] == "unknown-outcome"


def test_stripe_takes_no_refusal_for_a_charge(app: Callable[[str], App]) -> None:
    one = app("stripe")
    assert one.fails("StripeInvalidRequestError", 400, key="k" * 256)["code"] == "key-invalid"
    one.saw(0)


def test_openai_spent_quota(app: Callable[[str], App], provider: Provider) -> None:
    provider.script(json_step(429, '{"error":{"code":"insufficient_quota","message":"spent"}}'))
    one = app("openai")
    told = one.fails("RateLimitError", 429)
    assert told["code"] == "insufficient_quota"
    one.saw(1)


def test_openai_own_timeout_is_met_before_it_fires(
    app: Callable[[str], App], provider: Provider
) -> None:
    provider.script(Step(silent=True))
    one = app("openai")
    told = one.fails("InternalServerError", 504, timeout=2000)
    assert 1.2 < told["seconds"] < 2.0, "the SDK would have sent it again at 2 s"
    one.saw(1)


def test_anthropic_overloaded(app: Callable[[str], App], provider: Provider) -> None:
    body = '{"type":"error","error":{"type":"overloaded_error","message":"busy"}}'
    provider.script(json_step(529, body))
    one = app("anthropic")
    one.fails("OverloadedError", 529)
    one.saw(BUDGET)


def test_anthropic_streams(app: Callable[[str], App], provider: Provider) -> None:
    kinds = ["message_start", "message_delta", "message_stop"]
    events = "".join(f'event: {kind}\ndata: {{"type":"{kind}"}}\n\n' for kind in kinds)
    busy = json_step(529, '{"type":"error","error":{"type":"overloaded_error"}}')
    provider.script(busy, Step(
        headers=[("Content-Type", "text/event-stream")], body=events.encode(),
        framing=Framing.CHUNKED, piece=20, piece_delay=0.01))
    one = app("anthropic")
    assert one.succeeds(stream=True) == kinds
    one.saw(2)


@pytest.mark.parametrize("code", ["internal_error", "channel_not_found"])
def test_slack_error_in_a_200(app: Callable[[str], App], provider: Provider, code: str) -> None:
    provider.script(json_step(200, json.dumps({"ok": False, "error": code})))
    one = app("slack")
    assert code in one.fails("WebAPIPlatformError")["message"]
    one.saw(1)


def test_slack_is_refused_in_its_own_words(app: Callable[[str], App], provider: Provider) -> None:
    provider.script(Step(cut_when=When.REQUEST, end=End.RESET))
    one = app("slack")
    assert "unknown-outcome" in one.fails("WebAPIPlatformError")["message"]
    one.saw(1)


def test_slack_retries_a_500_and_is_refused(app: Callable[[str], App], provider: Provider) -> None:
    provider.script(Step(status=500))
    one = app("slack")
    assert "unknown" in one.fails("WebAPIPlatformError", key="k")["message"]
    one.saw(1, deliveries=2)


def test_github_retries_are_refused(app: Callable[[str], App], provider: Provider) -> None:
    provider.script(json_step(500, '{"message":"oops"}'))
    one = app("github")
    one.fails("RequestError", 424, key="k")
    one.saw(1, deliveries=4)


def test_twilio_retries_are_refused(app: Callable[[str], App], provider: Provider) -> None:
    provider.script(json_step(429, '{"code":20429,"message":"Too Many Requests"}'))
    one = app("twilio")
    one.fails("RestException", 424, key="k")
    one.saw(BUDGET, deliveries=2)


def test_square_key_in_the_body(app: Callable[[str], App], provider: Provider) -> None:
    provider.script(json_step(503, '{"errors":[{"category":"API_ERROR","code":"x"}]}'))
    one = app("square")
    one.fails("SquareError", 424, key="k")
    one.saw(1, deliveries=2)
    assert one.stint.operation("k")["state"] == "unknown"

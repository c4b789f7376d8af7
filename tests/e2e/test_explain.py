"""`stint explain`: what it says on its own, what it refuses, and that the proxy does the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from checks import HONOURS, retry_after
from conftest import StartStint
from provider import Provider
from raw_http import parallel
from steps import Step, json_step
from stint_harness import ROOT, run_cli

CONFIG = """\
listen: 127.0.0.1:8380
ledger: {store: "sqlite:/nowhere/ledger.db"}
providers:
  pay:
    route: /pay
    upstream: http://127.0.0.1:9000
    budget: {attempts: 4, window: 1h}
    backoff: {first: 2s, factor: 3, max: 30s, jitter: full}
    hold: 5s
    retry_after: {max: 60s}
    idempotency: {header: Idempotency-Key, retention: 24h}
    stop: {header: X-Stop, value: "yes"}
    rules:
      - {name: no-credit, when: {status: 429, json: {/error/code: no_credit}}, class: quota}
      - {name: nap, when: {status: 409, path: /v1}, class: deferred, wait: 15m}
      - {name: dead, when: {status: 503, header: {X-Dead: "1"}}, class: transient, retry: never}
    advice: [{json: /error/wait, unit: s}]
  note:
    route: /note
    upstream: http://127.0.0.1:9000
    budget: {attempts: 2}
    breaker: {failures: 0}
    retry_after: {max: 60s, beyond: stop}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The file that most tests explain."""
    path = tmp_path / "stint.yaml"
    path.write_text(CONFIG)
    return path


def explain(config: Path, *words: str, provider: str = "pay") -> Any:
    code, output = run_cli("explain", "-c", str(config), "--provider", provider, "--json", *words)
    assert code == 0, output
    return json.loads(output)


def test_a_rate_limit(config: Path) -> None:
    said = explain(config, "--status", "429", "--header", "Retry-After: 7", "--attempts", "2")
    assert (said["class"], said["effect"], said["reason"]) == ("rate_limited", "none", "status-429")
    assert said["decided_by"] == {"table": "429"}
    assert said["advice"] == {"from": "Retry-After", "value": "7", "invalid": False,
                              "wait": 7.0, "used": 7.0, "capped": False}
    assert said["repeat"] == {"will": True, "after": pytest.approx(7, abs=0),
                              "jitter": 6.0, "only_if_safe": False, "by": "next-delivery"}
    assert said["block"] == {"for": 7.0, "then_probe": False}
    assert said["operation"] == {"state": "ready", "attempts": 2, "limit": 4, "unresolved": 0}
    answer = said["answer"]
    assert (answer["status"], answer["retry_after"], answer["held"]) == (429, "7", False)
    assert "stop" not in answer and "problem" not in answer
    assert "state=ready" in answer["stint"] and "advice=7.0" in answer["stint"]


def test_the_attempt_counts_in_the_backoff(config: Path) -> None:
    waits = []
    for attempt in ("1", "2", "3"):
        repeat = explain(config, "--status", "408", "--attempts", attempt)["repeat"]
        assert repeat["after"] == repeat["jitter"], "full jitter"
        waits.append((repeat["after"], repeat["by"]))
    assert waits == [(2.0, "this-delivery"), (6.0, "next-delivery"), (18.0, "next-delivery")]
    last = explain(config, "--status", "408", "--attempts", "4")
    assert last["repeat"] == {"will": False, "why_not": "attempts-spent"}
    assert last["operation"]["state"] == "exhausted"
    assert last["answer"]["stop"] == {"name": "X-Stop", "value": "yes"}


def test_rules(config: Path) -> None:
    body = '{"error": {"code": "no_credit", "wait": 9}}'
    said = explain(config, "--status", "429", "--body", body)
    assert said["decided_by"] == {"rule": "no-credit", "number": 1}
    assert (said["class"], said["operation"]["state"]) == ("quota", "held")
    assert said["repeat"] == {"will": False, "why_not": "needs-person"}
    assert "block" not in said and "advice" not in said
    said = explain(config, "--status", "409", "--path", "/v1/charges")
    assert (said["class"], said["rule_wait"]) == ("deferred", 900.0)
    assert said["repeat"]["after"] == 900.0
    said = explain(config, "--status", "409", "--path", "/v2")
    assert (said["class"], said["repeat"]["why_not"]) == ("invalid", "same-input-fails")
    said = explain(config, "--status", "503", "--header", "X-Dead: 1")
    assert said["repeat"]["why_not"] == "retry-never"


def test_a_lost_answer(config: Path) -> None:
    said = explain(config, "--fault", "timeout")
    assert (said["class"], said["effect"], said["fault"]) == ("unknown", "possible", "timeout")
    assert said["decided_by"] == {"table": "sent and no definite answer"}
    assert said["repeat"]["only_if_safe"] is True and said["repeat"]["by"] == "this-delivery"
    assert said["safety"]["rule"] == "retention"
    assert 23 * 3600 < said["safety"]["for"] < 24 * 3600
    assert said["breaker_failure"] is True
    assert said["operation"]["unresolved"] == 1
    assert (said["answer"]["status"], said["answer"]["problem"]) == (504, "unknown-outcome")
    again = explain(config, "--fault", "timeout", "--attempts", "3")
    assert again["repeat"]["only_if_safe"] is True, "earlier attempts keep the retention"
    assert again["safety"]["for"] == said["safety"]["for"]

    said = explain(config, "--fault", "timeout", provider="note")
    assert said["repeat"] == {"will": False, "why_not": "not-safe"}
    assert said["safety"] == {"rule": "never"}
    assert said["operation"]["state"] == "unknown" and said["breaker_failure"] is False
    said = explain(config, "--fault", "timeout", "--method", "PUT", provider="note")
    assert said["safety"]["rule"] == "within-hold" and said["repeat"]["only_if_safe"] is True


def test_not_sent(config: Path) -> None:
    for words in (["--fault", "connect"], ["--fault", "timeout", "--not-sent"]):
        said = explain(config, *words, provider="note")
        assert (said["class"], said["effect"], said["sent"]) == ("transient", "none", False)
        assert said["decided_by"] == {"table": "not sent"}
        assert said["repeat"]["will"] is True and said["repeat"]["only_if_safe"] is False
        assert said["answer"]["problem"] == "not-sent"


def test_a_safe_method(config: Path) -> None:
    said = explain(config, "--fault", "reset", "--method", "GET", provider="note")
    assert said["safety"] == {"rule": "always"} and said["repeat"]["will"] is True
    assert "operation" not in said


def test_advice_of_all_kinds(config: Path) -> None:
    said = explain(config, "--status", "503", "--body", '{"error": {"wait": 3.5}}')
    assert said["advice"]["from"] == "/error/wait" and said["advice"]["used"] == 3.5
    assert said["block"]["for"] == 3.5
    said = explain(config, "--status", "429", "--header", "Retry-After: 3600")
    assert said["advice"]["capped"] is True and said["advice"]["used"] == 60.0
    assert said["block"] == {"for": 60.0, "then_probe": True}
    said = explain(config, "--status", "429", "--header", "Retry-After: 3600", provider="note")
    assert said["reason"] == "advice-beyond-cap"
    assert said["repeat"] == {"will": False, "why_not": "retry-never"}
    assert said["answer"]["retry_after"] == "3600", "the provider's own passes"
    said = explain(config, "--status", "429", "--header", "Retry-After: 999999999", provider="note")
    assert said["answer"]["retry_after"] == "86400"
    said = explain(config, "--status", "429", "--header", "Retry-After: inf")
    assert said["advice"]["invalid"] is True and "wait" not in said["advice"]
    assert "block" not in said


def test_a_raw_reply(config: Path, tmp_path: Path) -> None:
    raw = (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
           b"HTTP/2 429\r\nretry-after:  4 \r\nX-Odd: \xff\r\n\r\n"
           b'{"error": {"code": "no_credit"}}')
    path = tmp_path / "reply"
    path.write_bytes(raw)
    said = explain(config, "--reply", str(path))
    assert said["decided_by"]["rule"] == "no-credit"
    path.write_bytes(raw.replace(b"no_credit", b"other").replace(b"\r\n", b"\n"))
    said = explain(config, "--reply", str(path))
    assert (said["status"], said["class"], said["advice"]["wait"]) == (429, "rate_limited", 4.0)


def test_a_body_over_the_bound(config: Path, tmp_path: Path) -> None:
    path = tmp_path / "body"
    path.write_text('{"error": {"code": "no_credit"}' + " " * 20000 + "}")
    words = ["explain", "-c", str(config), "--provider", "pay", "--status", "429",
             "--body-file", str(path)]
    code, output = run_cli(*words)
    assert code == 0 and "not looked into" in output and "rate_limited" in output


def test_a_body_that_is_not_kept(config: Path, tmp_path: Path) -> None:
    path = tmp_path / "body"
    path.write_bytes(b"x" * 70000)
    said = explain(config, "--status", "408", "--body-file", str(path))
    assert said["answer"]["held"] is True
    assert (said["answer"]["status"], said["answer"]["problem"]) == (408, "response-not-retained")
    said = explain(config, "--status", "400", "--body-file", str(path))
    assert "problem" not in said["answer"], "a final reply streams"


def test_text_holds_what_json_holds(config: Path) -> None:
    code, output = run_cli("explain", "-c", str(config), "--provider", "pay", "--status", "429",
                           "--header", "Retry-After: 4\x1b[2J")
    assert code == 0 and "\x1b" not in output
    code, last = run_cli("explain", "-c", str(config), "--provider", "pay", "--status", "400",
                         "--header", "Retry-After: \x1b[2J")
    assert code == 0 and "\x1b" not in last and "Retry-After: ?[2J" in last
    for word in ("rate_limited", "none", "status-429", "the default table: 429", "unreadable",
                 "after 2s, jitter up to 2s", "not blocked", "ready, attempt 1 of 4"):
        assert word in output, output


def test_presets() -> None:
    for path in sorted((ROOT / "deploy" / "presets").glob("*.yaml")):
        code, output = run_cli("explain", "--preset", path.stem, "--status", "429", "--json")
        said = json.loads(output)
        assert code == 0 and said["preset"] == path.stem
    code, output = run_cli(
        "explain", "--preset", "google", "--status", "429", "--body",
        '{"error": {"details": [{}, {"retryDelay": "3.5s"}]}}', "--json")
    assert code == 0 and json.loads(output)["advice"]["used"] == 3.5


@pytest.mark.parametrize(("words", "said"), [
    (["--preset", "none"], "say what came back"),
    (["--status", "429", "--preset", "none"], 'no preset "none"; there are adyen'),
    (["--status", "429", "--preset", "openai", "--provider", "x"], "leave --provider out"),
    (["--status", "99"], '--status is "99": write 200 to 999'),
    (["--status", "4x"], '--status is "4x"'),
    (["--status"], "something must follow --status"),
    (["--statuses", "4"], 'does not take "--statuses"'),
    (["--status", "429", "--header", "none"], '"none" is no header'),
    (["--status", "429", "--header", "a b: c"], "is no header"),
    (["--status", "429", "--header", "a: b\r\nc: d"], "is no header"),
    (["--fault", "tired"], 'no fault "tired"; there are resolve'),
    (["--fault", "guard"], 'no fault "guard"'),
    (["--fault", "none"], 'no fault "none"'),
    (["--fault", "connect", "--status", "200"], "leave --status out"),
    (["--fault", "reset", "--header", "a: b"], "a header comes with a status"),
    (["--fault", "reset", "--body", "x"], "a body comes with a status"),
    (["--status", "429", "--not-sent"], "--not-sent goes with --fault"),
    (["--status", "429", "--body", "a", "--body-file", "b"], "leave one out"),
    (["--status", "429", "--body-file", "/nowhere/x"], "/nowhere/x: No such file"),
    (["--status", "429", "--body-file", "/"], "/: this is no file"),
    (["--reply", "/dev/null"], "does not begin with a status line"),
    (["--reply", "/dev/null", "--status", "200"], "leave --status out"),
    (["--status", "429", "--method", "post"], "in upper case"),
    (["--status", "429", "--path", "x"], "what follows the route"),
    (["--status", "429", "--attempts", "0"], "write 1 to 100"),
    (["--status", "429", "-c", "/nowhere/stint.yaml"], "/nowhere/stint.yaml"),
])
def test_bad_input(words: list[str], said: str) -> None:
    code, output = run_cli("explain", *words)
    assert code == 2, output
    assert said in output


def test_bad_provider(config: Path) -> None:
    for words, said in (([], "write --provider NAME"), (["--provider", "x"], 'no provider "x"'),
                        (["--provider", "pay", "--attempts", "5"], "the budget of pay is 4")):
        code, output = run_cli("explain", "-c", str(config), "--status", "429", *words)
        assert code == 2 and said in output, output
    config.write_text("providers: {}\n")
    code, output = run_cli("explain", "-c", str(config), "--provider", "a", "--status", "429")
    assert code == 2 and str(config) in output


ALIKE: list[tuple[Step, list[str]]] = [
    (Step(status=201, body=b"{}"), ["--status", "201", "--body", "{}"]),
    (json_step(400, "{}"), ["--status", "400", "--body", "{}"]),
    (json_step(401, "{}"), ["--status", "401", "--body", "{}"]),
    (json_step(429, "{}", [("Retry-After", "9")]),
     ["--status", "429", "--header", "Retry-After: 9", "--body", "{}"]),
    (json_step(503, '{"wait": 8}'), ["--status", "503", "--body", '{"wait": 8}']),
    # the head waits for the rest of such a body
    (Step(status=503, body=b'{"wait": 8}', piece=5, piece_delay=0.2),
     ["--status", "503", "--body", '{"wait": 8}']),
    (json_step(500, "{}", [("Idempotent-Replayed", "true")]),
     ["--status", "500", "--header", "Idempotent-Replayed: true", "--body", "{}"]),
    (json_step(429, '{"code": "spent"}'), ["--status", "429", "--body", '{"code": "spent"}']),
    (json_step(429, "{}", [("Retry-After", "3600")]),
     ["--status", "429", "--header", "Retry-After: 3600", "--body", "{}"]),
]


def test_the_proxy_does_the_same(provider: Provider, stint: StartStint) -> None:
    """One delivery to a provider of its own for each reply; explain reads the same file."""
    policy = {
        "route": None, "upstream": f"{provider.url}/base", **HONOURS, "hold": "1s",
        "budget": {"attempts": 4, "window": "1h"},
        "backoff": {"first": "5s", "max": "5s", "jitter": "none"},
        "retry_after": {"max": "60s"}, "stop": {"header": "X-Stop", "value": "yes"},
        "advice": [{"json": "/wait", "unit": "s"}],
        "rules": [{"name": "spent", "when": {"status": 429, "json": {"/code": "spent"}},
                   "class": "quota"}],
    }
    running = stint(top={"providers": {
        "pay": None, **{f"p{n}": {**policy, "route": f"/p{n}"} for n in range(len(ALIKE))}}})
    for index, (one, _) in enumerate(ALIKE):
        provider.script(one, key=f"p{index}")

    replies = parallel(
        len(ALIKE), lambda index: running.send(path=f"/p{index}/x", key=f"p{index}"))
    for index, (reply, (_, words)) in enumerate(zip(replies, ALIKE)):
        said = explain(running.config_path, *words, provider=f"p{index}")
        answer = said["answer"]
        assert answer["held"] is False, words
        assert answer["status"] == reply.status, words
        assert ("retry_after" in answer) == (reply.header("Retry-After") is not None), words
        assert ("stop" in answer) == (reply.header("X-Stop") == "yes"), words
        assert said["operation"]["state"] == reply.stint["state"], words
        written = reply.header("Stint")
        if "next" in reply.stint:  # the proxy's clock went on between the settle and the answer
            assert 0 <= float(said["repeat"]["after"]) - float(reply.stint["next"]) < 1
            assert 0 <= int(answer["retry_after"]) - retry_after(reply) <= 1
            written = written.replace(f"next={reply.stint['next']}",
                                      f"next={said['repeat']['after']}")
        assert answer["stint"] == written, words

"""`stint check`, `--help` and `version`: each problem at its place, all of them in one go."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import StartStint
from provider import Provider
from stint_harness import ROOT, run_cli

GOOD = """\
listen: 127.0.0.1:8380
ledger:
  store: sqlite:{ledger}
providers:
  pay:
    route: /pay
    upstream: http://127.0.0.1:9000/base
    budget: {{attempts: 4, window: 1h}}
"""


def good(directory: Path) -> str:
    """A small configuration without a fault."""
    return GOOD.format(ledger=directory / "ledger.db")


def check(directory: Path, text: str, **env: str) -> tuple[int, str, Path]:
    """Runs `stint check` over a text."""
    path = directory / "stint.yaml"
    path.write_text(text)
    code, output = run_cli("check", "-c", str(path), env=env)
    return code, output, path


def at(output: str, path: Path, line: int) -> str:
    """The message that is reported at this line of the file."""
    for text in output.splitlines():
        match = re.match(rf"{re.escape(str(path))}:(\d+):(\d+): (.*)", text)
        if match and int(match[1]) == line:
            assert int(match[2]) >= 1
            return match[3]
    raise AssertionError(f"nothing at line {line}:\n{output}")


def test_a_good_file(tmp_path: Path) -> None:
    code, output, _ = check(tmp_path, good(tmp_path))
    assert code == 0, output


def test_the_sample_file_is_good() -> None:
    sample = ROOT / "deploy" / "stint.yaml"
    if not sample.exists():
        pytest.skip("deploy/stint.yaml is not there")
    code, output = run_cli("check", "-c", str(sample))
    assert code == 0, output


BAD = {
    "unknown key": ("    bugdet: {}\n", r"bugdet"),
    "unknown nested key": ("    attempt: {timeot: 3s}\n", r"timeot"),
    "wrong unit": ("    hold: 20x\n", r"20x|hold|duration"),
    "no unit": ("    hold: 20\n", r"hold|unit|20"),
    "negative duration": ("    hold: -1s\n", r"hold|-1s"),
    "wrong size": ("    retain: {body: 64KX}\n", r"64KX|size"),
    "wrong word": ("    mode: enforced\n", r"enforced|enforce"),
    "not a list or word": ("    mode: {a: b}\n", r"mode"),
    "retries": ("    retries: 3\n", r"attempts: 4"),
    "bad key source": ("    key: {from: [\"head:X\"]}\n", r"head:X|header:"),
    "bad boolean": ("    tls: {verify: perhaps}\n", r"perhaps|true|verify"),
    "attempt timeout of zero": ("    attempt: {timeout: 0s}\n", r"timeout|positive"),
    "backoff of zero": ("    backoff: {first: 0s}\n", r"first|backoff|positive"),
    "concurrency of zero": ("    concurrency: {limit: 0}\n", r"limit"),
    "missing variable": ("    scope: \"header:${env:STINT_TEST_ABSENT}\"\n",
                         r"STINT_TEST_ABSENT"),
}


@pytest.mark.parametrize("name", BAD)
def test_each_problem_at_its_place(tmp_path: Path, name: str) -> None:
    line, message = BAD[name]
    text = good(tmp_path) + line
    code, output, path = check(tmp_path, text)
    assert code != 0
    assert re.search(message, at(output, path, len(text.splitlines()))), output


@pytest.mark.parametrize("attempts", ["0", "-1", "abc", '""', '"4 "', "2147483648", "1e3", "101",
                                      "1.5", "[4]", "null"])
def test_b19_attempts_that_are_no_budget(tmp_path: Path, attempts: str) -> None:
    text = good(tmp_path).replace("attempts: 4", f"attempts: {attempts}")
    code, output, path = check(tmp_path, text)
    assert code != 0
    assert "attempts" in at(output, path, 8)


@pytest.mark.parametrize("attempts", ["1", "100"])
def test_attempts_at_the_bounds(tmp_path: Path, attempts: str) -> None:
    text = good(tmp_path).replace("attempts: 4", f"attempts: {attempts}")
    code, output, _ = check(tmp_path, text)
    assert code == 0, output


NOT_YET = {
    "top": "notify: {url: \"http://127.0.0.1:1/\", on: [unknown]}\n",
    "keep": "    keep: {invoice: json:/invoice_id}\n",
    "rate": "    rate: {limit: 100/s, burst: 20}\n",
    "reconcile": "    reconcile: {after: 30s}\n",
    "priority": "    priority: header:X-Priority\n",
    "observe": "    mode: observe\n",
}


@pytest.mark.parametrize("name", NOT_YET)
def test_a_key_that_is_not_built_is_refused_as_such(tmp_path: Path, name: str) -> None:
    text = good(tmp_path) + NOT_YET[name]
    code, output, path = check(tmp_path, text)
    assert code != 0
    assert re.search(r"not (?:yet )?(?:built|implemented|supported|available)|not .*yet",
                     at(output, path, len(text.splitlines()))), output


def test_presets_are_listed_and_printed(tmp_path: Path) -> None:
    code, output = run_cli("check", "--preset", "list")
    names = output.split()
    assert code == 0 and names == sorted(names) and "stripe" in names and "generic" in names
    for name in names:
        code, output = run_cli("check", "--preset", name)
        assert code == 0 and output == Path(f"deploy/presets/{name}.yaml").read_text()
    code, output = run_cli("check", "--preset", "stripo")
    assert code != 0 and "stripe" in output and "generic" in output


def test_a_preset_in_a_file(tmp_path: Path) -> None:
    text = good(tmp_path) + "  stripe:\n    preset: stripe\n    route: /stripe\n"
    code, output, _ = check(tmp_path, text)
    assert code == 0, output
    code, output, path = check(tmp_path, text.replace("preset: stripe", "preset: stripo"))
    assert code != 0 and "stripe" in at(output, path, len(text.splitlines()) - 1)


def test_a_rule_that_can_never_match(tmp_path: Path) -> None:
    text = good(tmp_path) + (
        "    rules:\n"
        "      - {name: wide, when: {status: 5xx}, class: unknown}\n"
        "      - {name: narrow, when: {status: 503}, class: transient}\n")
    code, output, path = check(tmp_path, text)
    assert code != 0
    assert re.search("narrow.*wide", at(output, path, len(text.splitlines())))


def test_redis_is_not_built(tmp_path: Path) -> None:
    text = re.sub(r"store: \S+", "store: redis://127.0.0.1:6379/0", good(tmp_path))
    code, output, path = check(tmp_path, text)
    assert code != 0
    assert "redis" in at(output, path, 3).lower()


def test_a_route_twice(tmp_path: Path) -> None:
    text = good(tmp_path) + (
        "  mail:\n    route: /pay\n    upstream: http://127.0.0.1:9001\n")
    code, output, path = check(tmp_path, text)
    assert code != 0
    assert "/pay" in at(output, path, 10)


def test_a_key_twice(tmp_path: Path) -> None:
    text = good(tmp_path) + "    route: /again\n"
    code, output, path = check(tmp_path, text)
    assert code != 0
    assert "route" in at(output, path, 9)


@pytest.mark.parametrize("removed", ["    upstream", "    route"])
def test_what_a_provider_needs(tmp_path: Path, removed: str) -> None:
    lines = [line for line in good(tmp_path).splitlines() if not line.startswith(removed)]
    code, output, path = check(tmp_path, "\n".join(lines) + "\n")
    assert code != 0
    assert re.search(rf"{re.escape(str(path))}:\d+:\d+: .*{removed.strip()}", output), output


@pytest.mark.parametrize("upstream", ["ftp://x/", "127.0.0.1:9000", "http://", "http://u:p@h/",
                                      "http://h:99999/", "http://h/?q=1"])
def test_bad_upstreams(tmp_path: Path, upstream: str) -> None:
    text = good(tmp_path).replace("http://127.0.0.1:9000/base", upstream)
    code, output, path = check(tmp_path, text)
    assert code != 0
    assert "upstream" in at(output, path, 7)


def test_variables(tmp_path: Path) -> None:
    text = good(tmp_path).replace("attempts: 4", 'attempts: "${env:STINT_TEST_N}"')
    assert check(tmp_path, text, STINT_TEST_N="4")[0] == 0
    code, output, path = check(tmp_path, text, STINT_TEST_N="0")
    assert code != 0 and at(output, path, 8)
    assert check(tmp_path, text.replace("_N}", "_M:-4}"))[0] == 0
    code, output, path = check(tmp_path, text.replace("_N}", "_M}"))
    assert code != 0 and "STINT_TEST_M" in at(output, path, 8)


def test_a_variable_cannot_add_structure(tmp_path: Path) -> None:
    text = good(tmp_path) + '    scope: "${env:STINT_TEST_SCOPE}"\n'
    code, output, path = check(tmp_path, text, STINT_TEST_SCOPE="none\n    mode: off")
    assert code != 0 and at(output, path, 9)


def test_all_problems_in_one_go(tmp_path: Path) -> None:
    text = good(tmp_path).replace("attempts: 4", "attempts: 0") + (
        "    hold: 20x\n    bugdet: {}\n    retries: 3\nwurkers: 2\n")
    code, output, path = check(tmp_path, text)
    assert code != 0
    for line, word in ((8, "attempts"), (9, "hold|20x|duration"), (10, "bugdet"),
                       (11, "attempts: 4"), (12, "wurkers")):
        assert re.search(word, at(output, path, line)), output
    places = [int(found) for found in re.findall(rf"{re.escape(str(path))}:(\d+):", output)]
    assert places == sorted(places)


@pytest.mark.parametrize("text", ["listen: [\n", "\tlisten: x\n", "- a\n- b\n", "", "just words\n",
                                  "a: &x [*x]\n", "a: \xff\n"])
def test_files_that_are_no_configuration(tmp_path: Path, text: str) -> None:
    path = tmp_path / "stint.yaml"
    path.write_bytes(text.encode("latin-1"))
    code, output = run_cli("check", "-c", str(path))
    assert code != 0 and str(path) in output


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "absent.yaml"
    for command in ("check", "serve"):
        code, output = run_cli(command, "-c", str(path))
        assert code != 0 and str(path) in output


def test_a_short_schedule(tmp_path: Path) -> None:
    schedule = "    backoff: {schedule: [60s, 300s], jitter: none}\n"
    text = good(tmp_path).replace("    budget: {attempts: 4, window: 1h}\n", "") + schedule
    assert check(tmp_path, text)[0] == 0, "it sets the attempts"
    code, output, _ = check(tmp_path, good(tmp_path) + schedule)
    assert code != 0 and "schedule" in output, "four attempts do not fit in two waits"
    code, output, _ = check(
        tmp_path, text.replace("60s, 300s", "60s, 3h") + "    budget: {window: 1h}\n")
    assert code != 0 and "window" in output


def test_a_key_from_a_body_needs_a_bounded_body(tmp_path: Path) -> None:
    text = good(tmp_path) + "    key: {from: [\"json:/id\"]}\n"
    code, output, _ = check(tmp_path, text)
    assert code != 0 and "over" in output
    assert check(tmp_path, text + "    body: {over: refuse}\n")[0] == 0


def test_serve_refuses_what_check_refuses(provider: Provider, stint: StartStint) -> None:
    bad = stint(start=False, provider={"budget": {"attempts": 0}})
    output = bad.fails_to_start()
    assert re.search(rf"{re.escape(str(bad.config_path))}:\d+:\d+: .*attempts", output)


def test_help() -> None:
    code, output = run_cli("--help")
    assert code == 0
    for word in ("serve", "check", "version"):
        assert word in output


def test_version() -> None:
    code, output = run_cli("version")
    assert code == 0 and re.search(r"\d+\.\d+\.\d+", output)


def test_wrong_usage() -> None:
    for arguments in (["nonsense"], ["serve", "--nonsense"], ["check", "-c"], []):
        code, output = run_cli(*arguments)
        assert code != 0 and output, arguments

"""A disk that is full, and has room again: keyed unsafe work is refused, nothing is sent, and it goes
on without a restart."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from checks import from_provider
from conftest import StartStint
from provider import Provider
from stint_harness import eventually
from steps import Step

SIZE = 4 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    mount = tmp_path / "disk"
    mount.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(mount)], capture_output=True)
    if made.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {made.stderr.decode().strip()}")
    yield mount
    subprocess.run(["umount", "-l", str(mount)], check=True)


def fill(ballast: Path) -> None:
    """Takes all the room there is, to the last block."""
    with ballast.open("wb", buffering=0) as file:
        piece = 65536
        while piece:
            try:
                file.write(b"x" * piece)
            except OSError:
                piece //= 2


def test_a_full_disk_and_room_again(provider: Provider, stint: StartStint, disk: Path) -> None:
    running = stint(ledger=disk / "ledger.db")
    from_provider(running.send(key="before"), 200)
    ballast = disk / "ballast"
    fill(ballast)
    seen = provider.count()

    def refused() -> bool:
        nonlocal seen
        reply = running.send(key=f"full-{seen}", body=b"y" * 60000)
        if reply.status == 200:  # the log of the ledger still had room of its own
            seen += 1
            return False
        assert (reply.status, reply.problem) == (503, "ledger-away")
        assert reply.header("Retry-After") is not None
        return True

    provider.script(Step(body=60000))
    eventually(refused, bool)
    assert provider.count() == seen, "nothing is sent without a charge on the disk"
    from_provider(running.send("GET"), 200)
    assert running.admin("/readyz")["ready"] is True

    ballast.unlink()
    after = eventually(lambda: running.send(key="after"), lambda reply: reply.status == 200)
    assert after.stint["attempts"] == 1
    assert running.operation("after")["state"] == "succeeded"

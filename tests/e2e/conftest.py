"""Fixtures of the end-to-end tests: a scripted provider and the real binary.

`provider` and `stint` belong to one test. `shared` is a provider with a stint in front of it, in
the default configuration, for all tests of one file; its tests keep apart by their keys.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "provider"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

pytest.register_assert_rewrite("checks")

from provider import Provider  # noqa: E402
from stint_harness import Stint  # noqa: E402

StartStint = Callable[..., Stint]


@dataclass(frozen=True)
class Rig:
    """A provider and the stint in front of it."""

    provider: Provider
    stint: Stint


@contextlib.contextmanager
def starting(provider: Provider, directory: Path) -> Iterator[StartStint]:
    """A function that starts stint in front of the provider; see `Stint` for its arguments.

    `start=False` leaves the start to the caller. All that it started is stopped and checked when
    the context ends.
    """
    made: list[Stint] = []

    def make(*, start: bool = True, **arguments: Any) -> Stint:
        arguments.setdefault("upstream", f"{provider.url}/base")
        one = Stint(directory / f"stint{len(made)}", **arguments)
        made.append(one)
        return one.start() if start else one

    faults: list[AssertionError] = []
    try:
        yield make
    finally:
        for one in made:
            try:
                one.finish()
            except AssertionError as fault:
                faults.append(fault)
    if faults:
        raise faults[0]


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A scripted provider that answers 200 until told otherwise."""
    with Provider() as running:
        yield running


@pytest.fixture
def stint(provider: Provider, tmp_path: Path) -> Iterator[StartStint]:
    """Starts stint in front of `provider`: `stint(provider={...}, top={...})`."""
    with starting(provider, tmp_path) as make:
        yield make


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """One provider and one stint in the default configuration, for a whole file."""
    with Provider() as running, starting(running, tmp_path_factory.mktemp("shared")) as make:
        yield Rig(running, make())

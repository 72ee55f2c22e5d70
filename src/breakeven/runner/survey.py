"""What is on this machine: each runtime's availability, asked in a process of its own.

Knows nothing about studies. Asking a framework for its devices initialises them, which must never happen in
the process that later forks attempts; so every question is put to a child that ends at once.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from breakeven import runtimes
from breakeven.records.canonical import to_json
from breakeven.records.lines import Fingerprint
from breakeven.runtimes import Availability, Place

ANSWER_S = 120.0
"""Seconds a runtime may take to say what it finds; a cold disk and a first CUDA start take a few."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Survey:
    """What every asked runtime answered, and how many cores and GPUs there are to offer.

    `identical`: how many of the cores are of one kind, the fastest.
    """

    runtimes: Mapping[str, Availability]
    cores: int
    gpus: int
    identical: int

    @property
    def versions(self) -> dict[str, str]:
        """Library versions of all runtimes that are here."""
        return {name: text for found in self.runtimes.values() for name, text in found.versions.items()}


@lru_cache(maxsize=8)
def survey(names: tuple[str, ...]) -> Survey:
    """Asks each named runtime what is here."""
    from breakeven.timing.cpu import identical_cores, offered_cores

    found = {name: _ask(name) for name in names}
    places = [place for answer in found.values() if answer.reason is None for place in answer.places]
    gpus = {place.label for place in places if place.label.startswith("cuda:")}
    return Survey(runtimes=found, cores=offered_cores().threads, gpus=len(gpus), identical=identical_cores())


def fingerprint_of(found: Survey) -> Fingerprint:
    """The fingerprint line of this machine with the library versions that the runtimes named."""
    from breakeven.timing.machine import fingerprint

    return fingerprint(found.versions)


def _ask(name: str) -> Availability:
    runtimes.load(name)  # an unknown name is the user's error, not a failed answer
    command = [sys.executable, "-m", "breakeven.runner.survey", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_S, check=False)
    except OSError as error:
        return Availability(reason=f"{name} cannot be asked: {sys.executable}: {error.strerror}")
    except subprocess.TimeoutExpired:
        return Availability(reason=f"{name} did not answer within {ANSWER_S:.0f} s")
    lines = done.stdout.splitlines()
    try:
        value: dict[str, Any] = json.loads(lines[-1])
    except (IndexError, ValueError):
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return Availability(reason=f"{name} failed to start: {last[:200]}")
    places = tuple(Place(**place) for place in value.pop("places"))
    return Availability(places=places, **value)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(to_json(runtimes.load(sys.argv[1]).availability())) + "\n")

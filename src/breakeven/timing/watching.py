"""What a probe is, and how several of them are started and stopped around a stretch of work.

Knows nothing about what a probe observes.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol


class Probe(Protocol):
    """Observes a stretch of work from outside: started before its first step, stopped after its last."""

    def start(self) -> None:
        """Begins to observe; called outside timed blocks."""

    def stop(self) -> Mapping[str, Any]:
        """Ends it and says what was seen. Called even where a step failed."""


class Metered:
    """A device's own meter as a probe."""

    def __init__(self, begin: Callable[[], Callable[[], Mapping[str, Any]]]) -> None:
        self._begin = begin
        self._read: Callable[[], Mapping[str, Any]] | None = None

    def start(self) -> None:
        self._read = self._begin()

    def stop(self) -> Mapping[str, Any]:
        return self._read() if self._read else {}


@contextmanager
def watching(probes: Mapping[str, Probe]) -> Iterator[dict[str, Mapping[str, Any]]]:
    """Starts the probes in order and stops those that started in reverse, whatever happens between.

    Yields a dict that holds what each has seen once the block is left.
    """
    seen: dict[str, Mapping[str, Any]] = {}

    def stop(name: str, probe: Probe) -> None:
        seen[name] = probe.stop()

    with ExitStack() as stack:
        for name, probe in probes.items():
            probe.start()
            stack.callback(stop, name, probe)
        yield seen

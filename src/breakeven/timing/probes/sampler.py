"""One background thread that reads slow sensors while a window is timed.

Knows nothing about what is read. Ten readings a second by default: many more would take the interpreter's
lock from the loop that is timed.
"""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

PERIOD_S = 0.1


class Sampler(Generic[T]):
    """Calls `read` every `period_s` seconds between the first start() and the last stop() of its users.

    It also reads at every start() and stop(), in the caller's thread: the samples cover each user's window.
    """

    def __init__(self, read: Callable[[], T], *, period_s: float = PERIOD_S) -> None:
        self._read = read
        self._period_s = period_s
        self._users = 0
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._samples: list[tuple[int, T]] = []

    def start(self) -> None:
        if self._users == 0:
            self._samples = []
            self._end = threading.Event()
            self._thread = threading.Thread(target=self._run, name="breakeven-sampler", daemon=True)
            self._take()
            self._thread.start()
        else:
            self._take()
        self._users += 1

    def stop(self) -> tuple[tuple[int, T], ...]:
        """All samples so far as (perf_counter_ns, reading), in time order."""
        self._take()
        self._users -= 1
        if self._users <= 0 and self._thread is not None:
            self._end.set()
            self._thread.join()
            self._thread = None
            self._users = 0
        # Two threads append: a reading that took long may land after a later one.
        return tuple(sorted(self._samples, key=lambda sample: sample[0]))

    def _run(self) -> None:
        while not self._end.wait(self._period_s):
            self._take()

    def _take(self) -> None:
        before = time.perf_counter_ns()
        reading = self._read()
        # The middle of the call: a reading may take a millisecond.
        self._samples.append(((before + time.perf_counter_ns()) // 2, reading))

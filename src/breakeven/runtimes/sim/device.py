"""A device that works in virtual time: a host that enqueues, a queue that runs, a loader that runs ahead.

Knows nothing about models or faults: it is told what a step costs.
"""

import math
import random
import time
from dataclasses import dataclass, field

from breakeven.runtimes.sim.truth import Truth


@dataclass(kw_only=True, slots=True)
class VirtualDevice:
    """Host and device on one time line, in nanoseconds.

    A step's parts return when the host has launched; the work ends at `busy_until`, and only `sync` waits for
    it: a loop that does not synchronise measures launches, as on a real accelerator. `factor` slows this
    process, `scale` this step. `real`: the host's time passes really as well. `worked_ns`: time that the
    device has worked.
    """

    truth: Truth
    rng: random.Random
    noise: float = 0.0
    factor: float = 1.0
    prefetch: int = 0
    real: bool = False
    now: float = 0.0
    busy_until: float = 0.0
    scale: float = 1.0
    worked_ns: float = 0.0
    batch_ready: float = field(init=False)

    def __post_init__(self) -> None:
        self.batch_ready = self.truth.first_batch_ns

    def clock(self) -> int:
        """Virtual nanoseconds. A reading takes one, so that the clock is seen to move, as real ones are."""
        self.now += 1
        return int(self.now)

    def fetch(self, slower: float = 1.0) -> None:
        """Begins a step, `slower` times as long as usual: the host gets a batch."""
        self.scale = self.factor * slower
        if self.noise:
            self.scale *= math.exp(self.rng.gauss(0.0, self.noise))
        self._fetch(self.scale)

    def copy(self) -> None:
        """The batch goes to the device, after all that is enqueued."""
        ns = self.truth.copy_ns * self.scale
        if not self.truth.copy_waits:
            self.busy_until = max(self.busy_until, self.now) + ns
        elif ns:
            self.sync()
            self._pass(ns)

    def compute(self, share: float, extra_ns: float = 0.0) -> None:
        """Enqueues a share of the step's work, `extra_ns` more on the device."""
        start = max(self.busy_until, self.now)
        self._pass(self.truth.launch_ns * share * self.scale)
        # The first kernel starts while the host launches the others, and none ends before it is launched.
        work_ns = self.truth.device_ns * share * self.scale + extra_ns
        self.worked_ns += work_ns
        self.busy_until = max(start + work_ns, self.now)

    def finish(self) -> None:
        """Ends a step: the loss is waited for, or not."""
        if self.truth.waits:
            self.sync()

    def run(self, ns: float) -> None:
        """Synchronous device work of so many nanoseconds, noise apart."""
        self.sync()
        self.worked_ns += ns * self.factor
        self.busy_until = self.now + ns * self.factor
        self.sync()

    def sync(self) -> None:
        """Waits for everything enqueued."""
        self._pass(self.busy_until - self.now)

    def boundary(self) -> None:
        """The change of epochs: host work, and a loader that starts again with nothing prefetched."""
        self._pass(self.truth.boundary_ns * self.factor)
        self.batch_ready = self.now + self.truth.first_batch_ns * self.factor

    def _fetch(self, scale: float) -> None:
        """The host makes the batch; or waits for one of the workers', who are at most `prefetch` ahead."""
        each = self.truth.input_ns * scale
        if not self.truth.workers:
            self._pass(each)
            return
        self._pass(self.batch_ready - self.now)
        self.batch_ready = max(self.batch_ready, self.now - self.prefetch * each) + each

    def _pass(self, ns: float) -> None:
        if ns > 0:
            self.now += ns
            if self.real:
                time.sleep(ns / 1e9)

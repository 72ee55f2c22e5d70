"""Timed blocks one after the other: how a block is timed, how many steps it has, where an epoch ends.

Knows nothing about when to stop: `loop` decides that, this module only keeps the record.
"""

from dataclasses import dataclass, field

from breakeven.errors import Mismatch
from breakeven.records.lines import Block
from breakeven.runtimes import Prepared
from breakeven.timing.clocks import Clock, timed_ns

RESOLUTIONS = 1000
"""A block lasts at least this many resolutions of its clock: 0.1 % of quantisation."""
OVERLAPS = 100
"""... and at least this many times what the synchronisation at its edges keeps from overlapping: 1 %."""
MAX_STEPS = 2**20
STILL_STEPS, STILL_NS = 2**16, 10
"""No Python call is faster than this: a block of so many steps in less time means the clock stands still."""
MAX_BOUNDARY_STEPS = 8
"""Steps timed together with an epoch's start: the first batches of a cold loader arrive within these."""
RESERVE = 3
"""Records kept free for the epoch boundaries that are measured after the steady blocks."""


@dataclass(kw_only=True, slots=True)
class Course:
    """The record of one sampling and the size of its next block.

    A block never runs over the end of an epoch: the change of epochs is timed as a block of its own
    (`boundary`). Where an epoch is too short for that (one step, or under 1000 resolutions of the clock),
    `wraps` is set and blocks run on; then each holds its share of the changes. `limit_ns` bounds a block, so
    that enough of them fit into the budget; the other lengths give way to it.

    `overlap_ns` bounds by how much the last block's edges lengthened it: in a long run the host works on one
    step while the device works on another, and synchronising stops that once a block. It is no more than the
    host's time of one step, nor than the time that the device was still busy when the host had finished.
    """

    prepared: Prepared
    clock: Clock
    resolution: int | None
    min_block_ns: int
    limit_ns: int
    max_blocks: int
    epochs: bool = True
    n_steps: int = 1
    position: int = 0
    warmup: bool = True
    wraps: bool = False
    overlap_ns: float = 0.0
    blocks: list[Block] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.wraps = not self.epochs or self.prepared.steps_per_epoch < 2

    @property
    def slots(self) -> int:
        """Blocks that may still be recorded."""
        return self.max_blocks - RESERVE - len(self.blocks)

    @property
    def fine_ns(self) -> int:
        """Shortest block that the clock can tell to 0.1 %; at least 1."""
        return max(1, RESOLUTIONS * (self.resolution or 0))

    @property
    def most_steps(self) -> int:
        """Steps of an epoch that can be one block: those after its boundary."""
        return self.prepared.steps_per_epoch - self._most_boundary_steps()

    def cold(self) -> int:
        """The first step, alone between two synchronisations; it is not recorded as a block."""
        self.position += 1
        return timed_ns(self.clock, self.prepared.sync, self.prepared.step)

    def block(self) -> Block:
        """One block of `n_steps` steps, after an epoch's boundary where this epoch has too few left."""
        left = self.prepared.steps_per_epoch - self.position
        if not self.wraps and self.n_steps > left:
            self.boundary()
        self.position += self.n_steps
        return self._record(self.n_steps, boundary=False)

    def boundary(self) -> Block:
        """The change to the next epoch and the steps right after it, as one block."""
        n = self._boundary_steps()
        self.position = n
        return self._record(n, boundary=True)

    def begin_unrecorded(self, n: int) -> None:
        """Takes `n` steps of the epoch that the caller times; another one begins where too few are left.

        The change of epochs and the steps right after it pass untimed.
        """
        if not self.wraps and n > self.prepared.steps_per_epoch - self.position:
            self.prepared.next_epoch()
            self.position = self._most_boundary_steps()
            for _ in range(self.position):
                self.prepared.step()
        self.position += n

    def resize(self, last: Block, time_left_ns: float) -> bool:
        """Sets the size of the next block from the last one; whether it changed.

        A block should be long enough for its clock, for its edges, and for the records left to fill the time
        left: hence steps get doubled when the record would end before the time does. A block four times too
        long is cut, so that a device that has become slow cannot eat the budget.
        """
        fill_ns = time_left_ns / max(1, self.slots)
        wanted = max(self.fine_ns, self.min_block_ns, OVERLAPS * self.overlap_ns, fill_ns)
        wanted = max(1.0, min(wanted, self.limit_ns))
        n = last.n_steps
        if last.ns < wanted:
            n = min(2 * n, MAX_STEPS)
        elif last.ns > 4 * wanted:
            n = max(1, int(n * wanted / last.ns))
        most = self.most_steps
        if not self.wraps and n > most:
            self.wraps = last.ns * most < min(self.fine_ns, self.limit_ns) * last.n_steps
            n = n if self.wraps else most
        changed = n != self.n_steps
        self.n_steps = n
        return changed

    def _most_boundary_steps(self) -> int:
        """At most a quarter of an epoch."""
        return max(1, min(MAX_BOUNDARY_STEPS, self.prepared.steps_per_epoch // 4))

    def _boundary_steps(self) -> int:
        """No more than fit into one block's share of the budget."""
        most = self._most_boundary_steps()
        last = self.blocks[-1] if self.blocks else None
        return max(1, min(most, self.limit_ns * last.n_steps // last.ns)) if last and last.ns else most

    def _record(self, n: int, *, boundary: bool) -> Block:
        prepared, step, clock = self.prepared, self.prepared.step, self.clock
        prepared.sync()
        start = clock()
        if boundary:
            prepared.next_epoch()
        for _ in range(n):
            step()
        returned = clock()
        prepared.sync()
        end = clock()
        ns = end - start
        if n >= STILL_STEPS and ns < STILL_NS * n:
            raise Mismatch("invalid", f"the clock stands still: {n} steps took {ns} ns by it")
        block = Block(
            n_steps=n, samples=n * prepared.samples_per_step, ns=ns, warmup=self.warmup, boundary=boundary
        )
        self.blocks.append(block)
        self.overlap_ns = min((returned - start) / n, end - returned)
        return block

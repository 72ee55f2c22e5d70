"""Timed blocks: one record each, and many of them as columns.

Knows nothing about files. A file of a large study holds millions: as objects of their own they would take
130 bytes each and a microsecond a visit, as columns 24 bytes and nothing.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

NUMBERS = ("n_steps", "ns", "samples")
"""The fields of a block that are numbers, in the order of the file, whose keys are sorted."""
Columns = NDArray[np.int64]
Mask = NDArray[np.bool_]
Indices = NDArray[np.intp]
FLAGS = b'{"boundary":%b,"n_steps":,"ns":,"samples":,"warmup":%b}'
"""A block as the file has it, less its numbers."""
WORDS = (b"false", b"true")
KINDS = {b"%d" % (2 * b + w): FLAGS % (WORDS[b], WORDS[w]) for b in (0, 1) for w in (0, 1)}
"""A digit for each kind of block: which of its two flags are set."""
DIGITS = b"0123456789"
# What stands around a number becomes a space, so that a digit in any other place is a number too many.
SPACED = bytes.maketrans(b",:", b"  ")
NOT_NUMBERS = bytes(sorted(set(range(256)) - set(b"0123456789,:")))
KNOWN: deque[tuple[bytes, "Marks | None"]] = deque(maxlen=64)
"""Forms of lists, the latest: those of one study differ in how many blocks warmed up, and in little else."""
MOST = 10**15
"""Nanoseconds and counts above (eleven days) are read one by one: far below what 64 bits or a float hold."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """One timed block: `n_steps` steps that worked on `samples` samples took `ns` nanoseconds.

    Synchronised at both edges. `warmup`: before the steady state. `boundary`: the block begins with the
    change from one epoch to the next, so it holds that cost besides its steps.
    """

    n_steps: int
    samples: int
    ns: int
    warmup: bool = False
    boundary: bool = False

    def __post_init__(self) -> None:
        if self.n_steps < 1 or self.samples < 0 or self.ns < 0:
            raise ValueError(f"no block of steps: {self.n_steps} steps, {self.samples} samples, {self.ns} ns")


@dataclass(frozen=True, kw_only=True, slots=True)
class Steady:
    """The blocks of the steady state that hold steps only: neither warm-up nor the change of an epoch.

    `median_ns`, `longest_ns`: nanoseconds a step over the blocks; `ns`, `n_steps`, `samples`: their sums.
    """

    median_ns: float
    longest_ns: float
    ns: int
    n_steps: int
    samples: int


class Marks(NamedTuple):
    """Which blocks begin with the change of an epoch, which are warm-up, and which are neither: steady.

    `steady` is a slice where these lie in one piece, as a rule: nothing is copied to look at them.
    """

    boundary: Mask
    warmup: Mask
    steady: slice | Indices


def marks_of(boundary: Mask, warmup: Mask) -> Marks:
    """The marks of as many blocks as the masks are long."""
    kept = np.flatnonzero(~(boundary | warmup))
    one_piece = kept.size > 0 and kept[-1] - kept[0] + 1 == kept.size
    steady = slice(int(kept[0]), int(kept[-1]) + 1) if one_piece else kept
    return Marks(boundary=boundary, warmup=warmup, steady=steady)


class Blocks(Sequence[Block]):
    """Blocks as columns: a sequence of `Block` that equals the tuple of them. Never changed."""

    __slots__ = ("_marks", "_numbers", "_steady")

    def __init__(self, numbers: Columns, marks: Marks) -> None:
        """`numbers`: shape (blocks, 3), columns as NUMBERS. The caller has checked what a Block checks."""
        self._numbers = numbers
        self._marks = marks
        self._steady: Steady | None = None

    @property
    def n_steps(self) -> Columns:
        return self._numbers[:, 0]

    @property
    def ns(self) -> Columns:
        return self._numbers[:, 1]

    @property
    def samples(self) -> Columns:
        return self._numbers[:, 2]

    @property
    def warmup(self) -> Mask:
        return self._marks.warmup

    @property
    def boundary(self) -> Mask:
        return self._marks.boundary

    def where(self, kept: Mask | slice) -> "Blocks":
        """The blocks that the mask keeps, or the slice."""
        return Blocks(self._numbers[kept], marks_of(self.boundary[kept], self.warmup[kept]))

    @property
    def crossing(self) -> "Blocks":
        """The blocks after warm-up that begin with the change of an epoch."""
        return self.where(self.boundary & ~self.warmup) if self.boundary.any() else NO_BLOCKS

    @property
    def steady(self) -> "Steady | None":
        """The steady blocks taken together, worked out once; None if there is none."""
        if self._steady is None:
            rows = self._numbers[self._marks.steady]
            if len(rows):
                # Their sums: a product with ones takes half the time of sums along an axis.
                n_steps, ns, samples = (np.ones(len(rows), np.int64) @ rows).tolist()
                steps = rows[:, 1] / rows[:, 0]
                steps.sort()
                middle = float(steps[(len(rows) - 1) // 2]), float(steps[len(rows) // 2])
                self._steady = Steady(
                    median_ns=sum(middle) / 2,
                    longest_ns=float(steps[-1]),
                    ns=ns,
                    n_steps=n_steps,
                    samples=samples,
                )
        return self._steady

    @property
    def steady_steps(self) -> list[float]:
        """Nanoseconds a step of each steady block, in the order timed."""
        rows = self._numbers[self._marks.steady]
        steps: list[float] = (rows[:, 1] / rows[:, 0]).tolist()
        return steps

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> Block: ...
    @overload
    def __getitem__(self, index: slice) -> "Blocks": ...
    def __getitem__(self, index: int | slice) -> "Block | Blocks":
        if isinstance(index, slice):
            return self.where(index)
        return _block(self._numbers[index].tolist(), bool(self.warmup[index]), bool(self.boundary[index]))

    def __iter__(self) -> Iterator[Block]:
        return map(_block, self._numbers.tolist(), self.warmup.tolist(), self.boundary.tolist())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Blocks):
            return self._bytes() == other._bytes()
        return tuple(self) == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        # Sets and dictionaries of attempts from files only: a tuple of blocks would hash otherwise.
        return hash(self._bytes())

    def _bytes(self) -> tuple[bytes, bytes, bytes]:
        return self._numbers.tobytes(), self.warmup.tobytes(), self.boundary.tobytes()

    def __repr__(self) -> str:
        return repr(tuple(self))


NO_BLOCKS = Blocks(
    np.empty((0, len(NUMBERS)), np.int64), marks_of(np.empty(0, np.bool_), np.empty(0, np.bool_))
)


def _block(numbers: Sequence[int], warmup: bool, boundary: bool) -> Block:
    n_steps, ns, samples = numbers
    return Block(n_steps=n_steps, samples=samples, ns=ns, warmup=warmup, boundary=boundary)


def as_columns(blocks: Sequence[Block]) -> Blocks:
    """The same blocks as columns."""
    if isinstance(blocks, Blocks):
        return blocks
    numbers = np.array([[b.n_steps, b.ns, b.samples] for b in blocks], dtype=np.int64)
    marks = np.array([[b.boundary, b.warmup] for b in blocks], dtype=np.bool_).reshape(-1, 2)
    return Blocks(numbers.reshape(-1, len(NUMBERS)), marks_of(marks[:, 0], marks[:, 1]))


def parse(text: bytes) -> Blocks | None:
    """The inside of a JSON list of blocks, written as this package writes them; None if it is anything else.

    Whoever gets None reads it with a parser of JSON, which says what is wrong with it.
    """
    marks = _marks(text.translate(None, DIGITS))
    if marks is None:
        return None
    numbers = text.translate(SPACED, NOT_NUMBERS)
    values = np.fromstring(numbers.decode("ascii"), dtype=np.int64, sep=" ")
    if values.size != len(NUMBERS) * len(marks.warmup):
        return None
    # As they were parsed: a copy to where each column lies in one piece takes longer than it saves.
    rows = values.reshape(-1, len(NUMBERS))
    return Blocks(rows, marks) if values.max() < MOST and rows[:, 0].min() >= 1 else None


def _marks(form: bytes) -> Marks | None:
    """The marks of a list less its digits; None for any other text."""
    # Not a dictionary: to hash a text takes ten times as long as to compare it with another of its length.
    for known, marks in KNOWN:
        if known == form:
            return marks
    marks = _read(form)
    KNOWN.append((form, marks))
    return marks


def _read(form: bytes) -> Marks | None:
    for kind, block in KINDS.items():
        form = form.replace(block, kind)
    # Of a list of blocks a digit for each is left, and the commas between them.
    kinds, commas = form[::2], form[1::2]
    if len(kinds) != len(commas) + 1 or kinds.strip(b"".join(KINDS)) or commas.strip(b","):
        return None
    flags = np.frombuffer(kinds, np.uint8)
    return marks_of(flags & 2 != 0, flags & 1 != 0)

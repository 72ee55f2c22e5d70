"""Timed blocks: one record each, and many of them as columns.

Knows nothing about files. A file of a large study holds millions: as objects of their own they would take
130 bytes each and a microsecond a visit, as columns 26 bytes and nothing.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

COLUMNS = ("boundary", "n_steps", "ns", "samples", "warmup")
"""The fields of a block in the order of the file, whose keys are sorted."""
Columns = NDArray[np.int64]
Mask = NDArray[np.bool_]
FLAGS = b'{"boundary":%b,"n_steps":,"ns":,"samples":,"warmup":%b}'
"""A block as the file has it, less its numbers."""
DIGITS = b"0123456789"
# What stands around a number becomes a space, so that a digit in any other place is a number too many.
SPACED = bytes.maketrans(b",:", b"  ")
NOT_NUMBERS = bytes(sorted(set(range(256)) - set(b"0123456789,:")))
KNOWN_FORMS = 64
"""Forms of lists kept: those of one study differ in how many blocks warmed up, and in little else."""
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


class Blocks(Sequence[Block]):
    """Blocks as columns: a sequence of `Block` that equals the tuple of them. Never changed."""

    __slots__ = ("_columns", "_steady")

    def __init__(self, columns: Columns) -> None:
        """`columns`: shape (5, blocks), rows as COLUMNS. The caller has checked what a Block checks."""
        self._columns: Columns = columns
        self._steady: Steady | None = None

    @property
    def n_steps(self) -> Columns:
        return self._row(1)

    @property
    def ns(self) -> Columns:
        return self._row(2)

    @property
    def samples(self) -> Columns:
        return self._row(3)

    @property
    def warmup(self) -> Mask:
        return self._row(4).astype(np.bool_)

    @property
    def boundary(self) -> Mask:
        return self._row(0).astype(np.bool_)

    def _row(self, index: int) -> Columns:
        row: Columns = self._columns[index]
        return row

    def where(self, kept: Mask) -> "Blocks":
        """The blocks that the mask keeps."""
        return self if kept.all() else Blocks(self._columns[:, kept])

    @property
    def crossing(self) -> "Blocks":
        """The blocks after warm-up that begin with the change of an epoch."""
        boundary = self._columns[0]
        # Most lists have none, and a mask of them takes four times as long as to see that.
        return self[:0] if not boundary.any() else self.where(boundary > self._columns[4])

    @property
    def steady(self) -> "Steady | None":
        """The steady blocks taken together, worked out once; None if there is none."""
        if self._steady is None:
            kept = np.flatnonzero((self._columns[0] | self._columns[4]) == 0)
            if kept.size:
                first, last = int(kept[0]), int(kept[-1])
                # Warm-up comes first as a rule: what lies in one piece is not copied.
                one_piece = last - first + 1 == kept.size
                rows = self._columns[1:4, first : last + 1] if one_piece else self._columns[1:4, kept]
                n_steps, ns, samples = rows.sum(axis=1).tolist()
                steps = rows[1] / rows[0]
                steps.sort()
                middle = float(steps[(kept.size - 1) // 2]), float(steps[kept.size // 2])
                self._steady = Steady(
                    median_ns=sum(middle) / 2,
                    longest_ns=float(steps[-1]),
                    ns=ns,
                    n_steps=n_steps,
                    samples=samples,
                )
        return self._steady

    def __len__(self) -> int:
        return int(self._columns.shape[1])

    @overload
    def __getitem__(self, index: int) -> Block: ...
    @overload
    def __getitem__(self, index: slice) -> "Blocks": ...
    def __getitem__(self, index: int | slice) -> "Block | Blocks":
        if isinstance(index, slice):
            return Blocks(self._columns[:, index])
        return _block(self._columns[:, index].tolist())

    def __iter__(self) -> Iterator[Block]:
        return map(_block, self._columns.T.tolist())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Blocks):
            return np.array_equal(self._columns, other._columns)
        return tuple(self) == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        # Sets and dictionaries of attempts from files only: a tuple of blocks would hash otherwise.
        return hash(self._columns.tobytes())

    def __repr__(self) -> str:
        return repr(tuple(self))


def _block(row: Sequence[Any]) -> Block:
    boundary, n_steps, ns, samples, warmup = row
    return Block(n_steps=n_steps, samples=samples, ns=ns, warmup=bool(warmup), boundary=bool(boundary))


def as_columns(blocks: Sequence[Block]) -> Blocks:
    """The same blocks as columns."""
    if isinstance(blocks, Blocks):
        return blocks
    rows = [[b.boundary, b.n_steps, b.ns, b.samples, b.warmup] for b in blocks]
    return Blocks(np.array(rows, dtype=np.int64).reshape(len(rows), len(COLUMNS)).T)


def parse(text: bytes) -> Blocks | None:
    """The inside of a JSON list of blocks, written as this package writes them; None if it is anything else.

    Whoever gets None reads it with a parser of JSON, which says what is wrong with it.
    """
    flags = _flags(text.translate(None, DIGITS))
    if flags is None:
        return None
    numbers = text.translate(SPACED, NOT_NUMBERS)
    values = np.fromstring(numbers.decode("ascii"), dtype=np.int64, sep=" ")
    count = flags.shape[1]
    if values.size != 3 * count:
        return None
    columns = np.empty((len(COLUMNS), count), dtype=np.int64)
    columns[[0, 4]] = flags
    columns[1:4] = values.reshape(count, 3).T
    sound = columns.max() < MOST and columns[1].min() >= 1
    return Blocks(columns) if sound else None


@lru_cache(maxsize=KNOWN_FORMS)
def _flags(form: bytes) -> Columns | None:
    """Rows `boundary` and `warmup`, shape (2, blocks), of a list less its digits; None for any other text."""
    no, yes = b"false", b"true"
    rows = [
        [value == yes for value in found.groups()]
        for found in re.finditer(FLAGS % ((b"(false|true)",) * 2), form)
    ]
    written = b",".join(FLAGS % (yes if boundary else no, yes if warmup else no) for boundary, warmup in rows)
    return np.array(rows, dtype=np.int64).T if rows and written == form else None

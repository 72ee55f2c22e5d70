"""What a forecast learns from: rows of work, board and seconds, published ones and the user's own.

Knows nothing about how they are fitted. A row has everything that the model needs, or is no row: what a
source leaves out is not filled in, but for a batch that the source left to whoever measured (see FREE_BATCH).
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import numpy as np

from breakeven.catalog.gpus import Gpu, gpus
from breakeven.catalog.published import PublishedRow, published
from breakeven.errors import UserError
from breakeven.records.case import Case
from breakeven.workloads import costs, layers, models
from breakeven.workloads.roofline import ADAM_BYTES, runs, work_of

Launch = Literal["eager", "graph", "compiled", "engine", "captured"]
LAUNCHES: tuple[Launch, ...] = ("eager", "graph", "compiled", "engine", "captured")
"""Who launches a layer's kernels: Python one by one, a framework's graph, a compiler's code, an inference
engine, or the device itself from a captured graph."""
Fusion = Literal["none", "compiler", "engine"]
FUSIONS: tuple[Fusion, ...] = ("none", "compiler", "engine")
KINDS = ("fp32", "tf32", "half", "int8")
"""Kinds of arithmetic: FP16, BF16 and autocast to either are `half`."""
HALF = ("amp", "amp-bf16", "fp16", "bf16")
BYTES = {"fp32": 4, "tf32": 4, "half": 2, "int8": 1}
TF32_PROCESS_NM = 8
BINS = 12
"""Layers fall into bins of like arithmetic intensity, a factor of two wide: within one, the sum of the
layers' rooflines is the roofline of their sum."""
FREE_BATCH = 256
"""The batch of rows whose source lets whoever measures choose it for the highest rate (MLPerf's offline
scenario, NVIDIA's training tables): that of NVIDIA's tables at their end, where the rate no longer grows."""
PUBLISHED_LAUNCH: Mapping[str | None, tuple[Launch, Fusion]] = {
    "eager": ("eager", "none"),
    "graph": ("graph", "none"),
    "xla": ("graph", "none"),
    "compiled": ("compiled", "compiler"),
    "tensorrt": ("engine", "engine"),
    None: ("eager", "none"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Effort:
    """What a step asks of a device: FLOPs and bytes by bin of intensity, and kernels to launch."""

    flops: tuple[float, ...]
    bytes: tuple[float, ...]
    launches: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One step on one board. `seconds` None: to be forecast. `peak` in FLOP/s at the row's arithmetic.

    `source` is the published collection, or `yours`; `case_id` the user's case.
    """

    model: str
    task: Literal["train", "infer"]
    batch: int
    kind: str
    launch: Launch
    fusion: Fusion
    channels_last: bool
    board: Gpu
    peak: float
    effort: Effort
    source: str
    seconds: float | None = None
    p99_s: float | None = None
    case_id: str = ""

    @property
    def product(self) -> str:
        return product(self.board.name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Left:
    """Published rows that teach nothing here, by reason."""

    counts: Mapping[str, int] = field(default_factory=dict)


@lru_cache(maxsize=1024)
def product(name: str) -> str:
    """A board's name without its form and memory: boards of one product are left out together."""
    return re.split(r" (?:SXM|PCIe|NVL|\d+ GB)", name)[0]


def kind_of(precision: str) -> str:
    return "half" if precision in HALF else precision


def precision_on(board: Gpu, precision: str) -> str:
    """What `default` comes to: torch lets convolutions run as TF32 where the board has it."""
    if precision != "default":
        return precision
    return "tf32" if "tf32" in board.rates else "fp32"


def lacks_tf32(board: Gpu) -> bool:
    """Whether a board has TF32 but no source tells its rate: `default` then counts as FP32, a slower one.

    NVIDIA's boards have it since Ampere, the first at 8 nm and less; Turing and older are of 12 nm and up.
    """
    new = board.process_nm is not None and board.process_nm <= TF32_PROCESS_NM
    return board.vendor == "NVIDIA" and new and "tf32" not in board.rates


def unknown_of(board: Gpu, precision: str) -> str | None:
    """The fact that a row on this board would need and that no source tells; None where all are known."""
    if peak_of(board, precision) is None:
        return f"what {board.name} does in {precision}"
    if board.board_w is None:
        return f"the board power of {board.name}"
    return f"how many FP32 lanes {board.name} has" if board.fp32_lanes is None else None


def peak_of(board: Gpu, precision: str) -> float | None:
    """Dense operations a second in a precision; None where no source says."""
    if precision in ("fp16", "amp"):
        rate = board.fp16_products
    else:
        rate = board.rates.get({"amp-bf16": "bf16"}.get(precision, precision))
    return None if rate is None else rate * 1e12


def launch_of(case: Case) -> tuple[Launch, Fusion] | str:
    """How a case of the user's drives its device, or why no row tells of that."""
    tuning = case.tuning
    if tuning.runtime == "onnxruntime":
        return ("engine", "engine") if tuning.execution == "session:tensorrt" else ("graph", "compiler")
    if tuning.runtime != "torch":
        return f"no row of a GPU was run by {tuning.runtime}"
    if case.work.task == "train" and tuning.residency != "device":
        return "its batches are made on the host, whose speed is not the board's"
    if tuning.captured:
        return "captured", "compiler" if tuning.compile_mode or tuning.fused else "none"
    return ("compiled", "compiler") if tuning.compile_mode else ("eager", "none")


@lru_cache(maxsize=1024)
def effort_of(net: layers.Model, batch: int, kind: str, task: str) -> Effort:
    """The layers' FLOPs and bytes by bin; forward, and in training backward and Adam as well."""
    flops, moved, launches = np.zeros(BINS), np.zeros(BINS), 0
    for one, cost, back in runs(net, BYTES[kind], task == "train"):
        work, traffic = work_of(one, cost, batch, back)
        place = _bin(work, traffic * 4 / BYTES[kind])
        launches += one.times
        flops[place] += one.times * work
        moved[place] += one.times * traffic
    if task == "train":
        moved[0] += ADAM_BYTES * costs.trained_parameter_count(net)
    return Effort(flops=tuple(flops), bytes=tuple(moved), launches=launches)


def _bin(work: float, traffic: float) -> int:
    """0: no arithmetic; else by FLOPs a byte, as if in FP32, so that all precisions share the bins."""
    if work == 0:
        return 0
    return min(max(round(math.log2(work / traffic)) + 1, 1), BINS - 1)


@lru_cache(maxsize=256)
def net_of(model: str, input_shape: tuple[int, int, int], num_classes: int) -> layers.Model | None:
    """The declared layers; None for a model that is not declared."""
    try:
        return models.model(model, num_classes=num_classes, input_shape=input_shape)
    except UserError:
        return None


def published_rows() -> tuple[tuple[Row, ...], Left]:
    """The rows of the catalog that say all that is needed, and how many others there are by reason."""
    made: list[Row] = []
    left: dict[str, int] = {}
    boards = {gpu.name: gpu for gpu in gpus()}
    tails = _tails(published())
    for row in published():
        if row.metric not in ("rate", "step"):
            continue
        found = _published(row, boards, tails)
        if isinstance(found, Row):
            made.append(found)
        else:
            left[found] = left.get(found, 0) + 1
    return tuple(made), Left(counts=left)


def _published(row: PublishedRow, boards: Mapping[str, Gpu], tails: Mapping[object, float]) -> Row | str:
    board = boards.get(row.processor or "")
    if board is None or row.count != 1:
        return "not one GPU of the catalog"
    if row.precision is None or row.input_shape is None or row.task is None:
        return "precision or input size not said"
    net = net_of(row.model, row.input_shape, 1000 if row.input_shape[1] >= 224 else 10)
    if net is None:
        return "a model whose layers are not declared"
    peak, kind = peak_of(board, row.precision), kind_of(row.precision)
    if peak is None or board.board_w is None or board.fp32_lanes is None:
        return "a rate of the board is not known"
    batch = row.batch or FREE_BATCH
    launch, fusion = PUBLISHED_LAUNCH[row.execution]
    words = row.conditions.casefold()
    return Row(
        model=row.model,
        task=row.task,
        batch=batch,
        kind=kind,
        launch=launch,
        fusion=fusion,
        channels_last="nhwc" in words or "channels-last" in words,
        board=board,
        peak=peak,
        effort=effort_of(net, batch, kind, row.task),
        source=row.collection,
        seconds=batch / row.value if row.metric == "rate" else row.value / 1e3,
        p99_s=tails.get(_condition(row)),
    )


def _condition(row: PublishedRow) -> tuple[object, ...]:
    return (row.collection, row.model, row.processor, row.precision, row.batch, row.execution, row.framework)


def _tails(rows: Iterable[PublishedRow]) -> dict[object, float]:
    """99th percentiles of a call in seconds by the conditions that a rate was printed for as well."""
    return {_condition(row): row.value / 1e3 for row in rows if row.metric == "latency_p99"}

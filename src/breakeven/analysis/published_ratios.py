"""What published rows say when their own numbers are divided: ratios, scaling, what hardware allows.

Knows nothing about the user's results.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from breakeven.catalog.cpus import Cpu, cpu_named
from breakeven.catalog.gpus import Gpu, gpu_named
from breakeven.catalog.published import PublishedRow, published
from breakeven.workloads.costs import forward_flops
from breakeven.workloads.models import model

LI_IMAGES = 10 * 50_000
"""Ten epochs of CIFAR-10's training set."""
TRAINING_FORWARDS = 3
"""A training step costs about three forward passes: forward, and backward by inputs and by weights."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Quotient:
    """How many times as long the base took as the candidate: both rows, seconds a unit of equal work."""

    base: PublishedRow
    candidate: PublishedRow

    @property
    def ratio(self) -> float:
        return self.base.value / self.candidate.value


@dataclass(frozen=True, kw_only=True, slots=True)
class Scaling:
    """Time to one accuracy on `count` devices: `efficiency` against the fewest of the same benchmark."""

    count: int
    seconds: float
    efficiency: float


@dataclass(frozen=True, kw_only=True, slots=True)
class HardwareBound:
    """What two datasheets allow a ratio to be: by arithmetic and by memory bandwidth, GPU over CPU.

    The CPU's peak counts its fast cores at `clock_mhz` only, so `arithmetic` is generous.
    """

    ratio: float
    arithmetic: float
    bandwidth: float
    clock_mhz: float

    @property
    def beyond(self) -> float:
        """The ratio as a multiple of the larger bound: above 1 the hardware does not explain it."""
        return self.ratio / max(self.arithmetic, self.bandwidth)


@dataclass(frozen=True, kw_only=True, slots=True)
class Achieved:
    """What a total time comes to: TFLOP/s, nominal training FLOPs over seconds."""

    model: str
    device: str
    seconds: float
    tflop_per_s: float


def quotient(base: str, candidate: str, *, collection: str = "dawnbench", metric: str = "epoch") -> Quotient:
    """The ratio of two rows of one collection and metric, each named by the end of its place.

    KeyError where a name does not lead to one row.
    """
    return Quotient(base=_one(collection, metric, base), candidate=_one(collection, metric, candidate))


def scaling(rows: Sequence[PublishedRow]) -> tuple[Scaling, ...]:
    """Strong-scaling efficiency of times to one accuracy, against the row with the fewest devices."""
    ranked = sorted(rows, key=lambda row: row.count)
    first = ranked[0]
    work = first.value * first.count
    return tuple(
        Scaling(count=row.count, seconds=row.value, efficiency=work / (row.value * row.count))
        for row in ranked
    )


def mlperf_training() -> tuple[Scaling, ...]:
    """ResNet-50 of MLPerf Training v3.0 on 8 to 3,584 H100."""
    return scaling([row for row in published() if row.collection == "mlperf-training"])


def hardware_bound(ratio: float, gpu: Gpu, cpu: Cpu) -> HardwareBound:
    """What the hardware allows at the precision a framework takes for FP32 (TF32 where the GPU has it).

    ValueError where a peak or bandwidth is not in the catalog.
    """
    peak, clock = cpu.fp32_tflop_per_s(cpu.base_mhz), cpu.base_mhz
    if peak is None or clock is None or cpu.bandwidth_gb_per_s is None or "fp32" not in gpu.rates:
        raise ValueError(f"the peaks of {gpu.name} and {cpu.name} are not known")
    fastest = max(gpu.rates["fp32"], gpu.rates.get("tf32", 0.0))
    return HardwareBound(
        ratio=ratio,
        arithmetic=fastest / peak,
        bandwidth=gpu.bandwidth_gb_per_s / cpu.bandwidth_gb_per_s,
        clock_mhz=clock,
    )


def li_bound() -> HardwareBound:
    """Li et al.'s ResNet50 ratio against the fastest board that is called RTX 3050, and an i9-14900K."""
    cpu, gpu = cpu_named("Core i9-14900K"), gpu_named("GeForce RTX 3050 8 GB")
    if cpu is None or gpu is None:
        raise ValueError("the catalog lacks the devices of Li et al.")
    return hardware_bound(_li("resnet50", "i9-14900K").value / _li("resnet50", "RTX 3050").value, gpu, cpu)


def li_achieved() -> tuple[Achieved, ...]:
    """What Li et al.'s six totals come to, model by model on both devices."""
    return tuple(
        Achieved(
            model=row.model,
            device=row.device,
            seconds=row.value,
            tflop_per_s=TRAINING_FORWARDS * forward_flops(model(row.model)) * LI_IMAGES / row.value / 1e12,
        )
        for row in published()
        if row.collection == "li-2026"
    )


def sentences() -> tuple[str, ...]:
    """The arithmetic in words."""
    k80 = quotient("164_b_16vCPUs-gc_pytorch.json", "164_b_1k80-ec2_pytorch.json").ratio
    p100 = quotient("164_b_16vCPUs-gc_pytorch.json", "164_b_1p100-dawn_pytorch.json").ratio
    scaled = {one.count: one.efficiency for one in mlperf_training()}
    kept = ", ".join(f"{100 * scaled[count]:.0f} % on {count:,}" for count in (64, 512, 3584))
    bound, achieved = li_bound(), {(one.model, one.device): one for one in li_achieved()}
    grew = [
        achieved["resnet50", device].seconds / achieved["resnet18", device].seconds
        for device in ("RTX 3050", "i9-14900K")
    ]
    cpu = [achieved[model, "i9-14900K"].tflop_per_s for model in ("resnet18", "resnet50")]
    return (
        f"DAWNBench, ResNet-164 on CIFAR-10, PyTorch 0.1.12: an epoch takes 16 virtual cores {k80:.1f} times "
        f"as long as a K80 and {p100:.1f} times as long as a P100.",
        f"MLPerf Training v3.0, ResNet-50 on H100: of the speed-up over 8 boards there remain {kept}.",
        f"Li et al.: their {bound.ratio:.1f}x for ResNet50 is {bound.beyond:.1f} times what an RTX 3050 and "
        f"an i9-14900K allow ({bound.arithmetic:.1f}x by FP32 and TF32 peaks, its fast cores at base clock "
        f"only; {bound.bandwidth:.1f}x by bandwidth): it does not fit. From ResNet18 to ResNet50 the GPU "
        f"takes {grew[0]:.1f} times as long, the CPU {grew[1]:.1f} times: it falls from "
        f"{1e3 * cpu[0]:.0f} to {1e3 * cpu[1]:.0f} GFLOP/s.",
    )


def _one(collection: str, metric: str, end: str) -> PublishedRow:
    rows = [
        row
        for row in published()
        if row.collection == collection and row.metric == metric and row.place.endswith(end)
    ]
    if len(rows) != 1:
        raise KeyError(f"{len(rows)} rows of {collection} with {metric} end in {end!r}")
    return rows[0]


def _li(model: str, device: str) -> PublishedRow:
    return next(
        row
        for row in published()
        if row.collection == "li-2026" and row.model == model and row.device == device
    )

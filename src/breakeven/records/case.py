"""What a case is: Work (what is computed) x Tuning (how it is driven) x Device (where).

Knows nothing about frameworks, machines or files: an id never depends on the machine it was made on.
"""

import dataclasses
from dataclasses import dataclass
from typing import Literal

from breakeven.errors import UserError
from breakeven.records.canonical import digest

Task = Literal["train", "infer"]
PRECISIONS = ("default", "fp32", "tf32", "fp16", "bf16", "int8")
"""`default` is what the framework does when nothing is set (TF32 convolutions on Ampere and later)."""
DEVICE_KINDS = ("cpu", "cuda", "sim")


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """How a model is trained, every constant of the formulas included.

    Adam as Kingma and Ba 2015, algorithm 1, with epsilon outside the square root of the corrected second
    moment: w -= lr * mhat / (sqrt(vhat) + eps). StepLR multiplies the rate by `gamma` every `step_size`
    epochs; `linear` holds it for half of the epochs and then lets it fall to 0 (`workloads.schedule`).
    With the loss `cyclegan` generators and discriminators take turns as `workloads.cyclegan` says: `cycle` is
    the weight of the cycle loss, `identity` that of the identity loss in units of it, `pool` the images made
    before that a discriminator is also shown (0: none). They are None with any other loss.
    """

    optimizer: Literal["adam"] = "adam"
    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    schedule: Literal["step", "constant", "linear"] = "step"
    step_size: int = 5
    gamma: float = 0.1
    augment: Literal["crop-flip", "none"] = "crop-flip"
    epochs: int = 10
    accumulation: int = 1
    loss: Literal["cross-entropy", "cyclegan"] = "cross-entropy"
    cycle: float | None = None
    identity: float | None = None
    pool: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """What is computed: equal work is what makes two cases comparable.

    `input_shape` is (channels, height, width) of one sample; `batch` is samples a step; `data_hash` names the
    bytes of the data: `sha256:` of the prepared images and labels, or `md5:` of the published archive.
    `weights`: None, drawn from the seed; else `sha256:` of the canonical weights that inference begins with.
    """

    task: Task
    model: str
    num_classes: int = 10
    input_shape: tuple[int, int, int] = (3, 32, 32)
    input_dtype: Literal["float32"] = "float32"
    data: str
    data_version: str
    data_hash: str
    batch: int
    drop_last: bool = True
    recipe: Recipe | None = None
    seed: int = 0
    weights: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Tuning:
    """How the work is driven. None: the setting does not apply here (see `applicable`).

    `execution` is `eager`, `cuda-graph`, `compile:MODE` or `cuda-graph+compile:MODE` (compiled, then
    captured), `fused` or `cuda-graph+fused` (batch norms folded, sums and ReLUs inside cuDNN's
    convolutions); of a runtime that is given a whole net, `session`, or `session:PROVIDER`; of tensorflow
    `tf.function`, `xla` or `eager`. Inference has
    `residency` `device` (batches lie where the net runs, and its output stays there) or `host` (a call copies
    its batch in and the output back). `calibration` is of int8: `RULE/IMAGES/ORIGIN`, such as
    `minmax/256/train` (the data's training split) or `minmax/256/sha256:...` (images of the user's).
    """

    runtime: str = "torch"
    execution: str = "eager"
    precision: str = "default"
    calibration: str | None = None
    layout: Literal["channels-first", "channels-last"] = "channels-first"
    autotune: bool = False
    workers: int | None = 0
    pinned: bool | None = False
    prefetch: int | None = None
    residency: Literal["host", "device"] = "host"
    augment_on: Literal["host", "device"] | None = "host"
    loss_sync: Literal["every-step", "epoch"] | None = "every-step"
    optimizer_impl: str | None = "auto"
    threads: int | Literal["auto"] = "auto"
    env: tuple[tuple[str, str], ...] = ()

    @property
    def captured(self) -> bool:
        """Whether whole steps are captured once and replayed (a CUDA graph)."""
        return self.execution.split("+")[0] == "cuda-graph"

    @property
    def compile_mode(self) -> str | None:
        """The compiler's mode; None where nothing is compiled."""
        last = self.execution.split("+")[-1]
        return last.removeprefix("compile:") if last.startswith("compile:") else None

    @property
    def fused(self) -> bool:
        """Whether convolutions do what follows them, without a compiler."""
        return self.execution.split("+")[-1] == "fused"


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """Where a case runs. `threads` is the number of cores offered (affinity); None offers all of them.

    `name` and `options` exist for simulated devices only: they are the planted truth, so part of the id.
    """

    kind: Literal["cpu", "cuda", "sim"]
    index: int = 0
    threads: int | None = None
    world_size: int = 1
    name: str | None = None
    options: tuple[tuple[str, str], ...] = ()

    @property
    def label(self) -> str:
        """The text that names this device: `cpu:threads=4`, `cuda:0`, `sim:gpu:noise=0.1`."""
        if self.kind == "sim":
            return ":".join(["sim", self.name or "", *(f"{key}={value}" for key, value in self.options)])
        if self.kind == "cuda":
            return f"cuda:{self.index}" + (f":threads={self.threads}" if self.threads else "")
        return "cpu" + (f":threads={self.threads}" if self.threads else "")


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One point of a study: work, tuning and device, with the ids that name them."""

    work: Work
    tuning: Tuning
    device: Device

    @property
    def work_id(self) -> str:
        return digest("work", self.work)

    @property
    def tuning_id(self) -> str:
        return digest("tuning", self.tuning)

    @property
    def case_id(self) -> str:
        return digest("case", self)

    @property
    def pool_id(self) -> str:
        """Id of the work but for its seed: cases that parity may pool."""
        return digest("work", dataclasses.replace(self.work, seed=0))


def applicable(case: Case) -> Case:
    """The same case with settings that do not apply set to None, so that they cannot split an id.

    Data on the device has no loader; a loader without workers has no prefetch; page-locked memory exists for
    an accelerator only; inference has no loss, no optimizer, no augmentation and no loader.
    """
    t = case.tuning
    changes: dict[str, object] = {}
    if t.residency == "device":
        changes |= {"workers": None, "pinned": None, "prefetch": None}
        if t.augment_on is not None:
            changes["augment_on"] = "device"
    else:
        changes["prefetch"] = (t.prefetch or 2) if t.workers else None
        if case.device.kind == "cpu":
            changes["pinned"] = None
    if case.work.task == "infer":
        changes |= {"augment_on": None, "loss_sync": None, "optimizer_impl": None}
        changes |= {"workers": None, "prefetch": None}
    elif case.work.recipe is not None and case.work.recipe.augment == "none":
        changes["augment_on"] = None
    if t.precision != "int8":
        changes["calibration"] = None
    return dataclasses.replace(case, tuning=dataclasses.replace(t, **changes))  # type: ignore[arg-type]


def parse_device(text: str) -> Device:
    """Reads `cpu`, `cpu:threads=4`, `cuda`, `cuda:1`, `sim:NAME`, `sim:NAME:key=value:...`.

    Raises UserError, one line, for anything else.
    """
    kind, _, rest = text.strip().partition(":")
    parts = [part for part in rest.split(":") if part] if rest else []
    if kind == "sim":
        return _parse_sim(text, parts)
    if kind not in ("cpu", "cuda"):
        raise UserError(f"unknown device {text!r}: use cpu, cpu:threads=N, cuda:N or sim:NAME")
    index, threads = 0, None
    for part in parts:
        key, equals, value = part.partition("=")
        if equals and key == "threads" and value.isdecimal() and int(value) > 0:
            threads = int(value)
        elif not equals and kind == "cuda" and part.isdecimal():
            index = int(part)
        else:
            raise UserError(f"unknown device {text!r}: use cpu, cpu:threads=N, cuda:N or sim:NAME")
    return Device(kind="cpu" if kind == "cpu" else "cuda", index=index, threads=threads)


def _parse_sim(text: str, parts: list[str]) -> Device:
    if not parts or "=" in parts[0]:
        raise UserError(
            f"device {text!r} names no simulated device: use sim:cpu or sim:gpu (see list devices)"
        )
    pairs = [part.partition("=") for part in parts[1:]]
    for key, equals, value in pairs:
        if not (equals and key and value):
            raise UserError(f"device {text!r}: write each option as key=value")
    return Device(kind="sim", name=parts[0], options=tuple(sorted((key, value) for key, _, value in pairs)))

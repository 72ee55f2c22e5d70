"""What a case truly costs on a simulated device, and how well it learns: the numbers a measurement must find.

Knows nothing about noise or about how time is measured.
"""

import hashlib
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from breakeven.errors import UserError
from breakeven.records.case import Case, Work
from breakeven.runtimes.sim.profile import Profile
from breakeven.workloads import costs, data, layers, models, roofline

COLD_MEMORY = 1.25
"""Peak of a cold run over that of a steady one: a search for algorithms needs workspace."""
BATCHES = 4
"""Batches of an inference that take turns."""
BYTES = {"fp16": 2, "bf16": 2, "int8": 1}
"""Of a number; the other precisions have four."""
ADAM_BYTES = 16
"""Bytes per parameter: weight, gradient and two moments, four bytes each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Truth:
    """Costs of one case without noise.

    `input_ns` is the time between batches of the loader; without `workers` the host makes them in the step.
    `waits`: the host waits for the loss of every step. `tail_samples` fill no batch and are left out.
    `launch_ns` and `device_ns` are those of forward, backward and optimizer, which have the shares `split` of
    either. `copy_waits`: the host waits for the copy, which comes after all that is enqueued (memory that is
    not page-locked); else the copy is enqueued as well.
    """

    launch_ns: float
    device_ns: float
    split: tuple[float, float, float]
    copy_ns: float
    copy_waits: bool
    input_ns: float
    first_batch_ns: float
    workers: int
    waits: bool
    cold_ns: float
    boundary_ns: float
    eval_batch_ns: float
    memory_mib: float
    parameters: int
    steps_per_epoch: int
    tail_samples: int
    test_samples: int
    accuracy: float

    @property
    def step_ns(self) -> float:
        """Steady time of a step in a long pipeline, which is what a sampling should find."""
        host = self.copy_ns if self.copy_waits else 0.0
        device = self.device_ns + self.copy_ns - host
        if self.workers:
            return max(self.input_ns, host + max(self.launch_ns, device))
        if self.waits:
            return self.input_ns + host + max(self.launch_ns, device)
        return host + max(self.input_ns + self.launch_ns, device)


def truth_of(case: Case, profile: Profile) -> Truth:
    """The planted truth of a case. Raises UserError for an unknown model or data set, or an empty epoch."""
    work, tuning = case.work, case.tuning
    model = models.model(work.model, num_classes=work.num_classes, input_shape=work.input_shape)
    each = costs.layer_costs(model)
    samples = profile.train_samples or data.entry(work.data).n_train
    steps = samples // work.batch if work.drop_last else -(-samples // work.batch)
    if not steps:
        raise UserError(
            f"batch {work.batch} is larger than the {samples} training samples; use a smaller one"
        )
    parts_ns = _device_ns(case, profile, model)
    device_ns = sum(parts_ns)
    launches = len(each) if tuning.execution == "eager" else 1
    workers = (tuning.workers or 0) if tuning.residency == "host" else 0
    input_ns = 1e6 * profile.input_ms if tuning.residency == "host" else 0.0
    parameters = costs.parameter_count(model)
    activations = work.batch * sum(cost.bytes_written for cost in each)
    return Truth(
        launch_ns=1e3 * profile.launch_us * launches,
        device_ns=device_ns,
        split=(parts_ns[0] / device_ns, parts_ns[1] / device_ns, parts_ns[2] / device_ns),
        copy_ns=1e6 * profile.copy_ms if tuning.residency == "host" else 0.0,
        copy_waits=not tuning.pinned,
        input_ns=input_ns / max(1, workers),
        first_batch_ns=input_ns,
        workers=workers,
        waits=tuning.loss_sync == "every-step",
        cold_ns=1e6 * profile.cold_ms,
        boundary_ns=1e6 * profile.boundary_ms,
        eval_batch_ns=device_ns / 3 if profile.eval_ms is None else 1e6 * profile.eval_ms,
        memory_mib=(parameters * ADAM_BYTES + activations) / 2**20
        if profile.mem_mib is None
        else profile.mem_mib,
        parameters=parameters,
        steps_per_epoch=steps,
        tail_samples=samples % work.batch if work.drop_last else 0,
        test_samples=profile.test_samples or data.entry(work.data).n_test,
        accuracy=_final_accuracy(work, profile),
    )


def _device_ns(case: Case, profile: Profile, model: layers.Model) -> tuple[float, float, float]:
    """Nanoseconds of forward, backward and optimizer on the device.

    With a bandwidth each layer takes what its arithmetic or its traffic needs, else arithmetic is all.
    """
    work = case.work
    half = case.tuning.precision in ("bf16", "fp16")
    faster, others = factors(case, profile, case.tuning.precision)
    if profile.gb_per_s is not None and profile.step_ms is None:
        floor = roofline.floor(
            model,
            work.batch,
            flop_per_s=1e9 * profile.gflops * faster,
            byte_per_s=1e9 * profile.gb_per_s,
            dtype_bytes=2 if half else 4,
        )
        seconds = (floor.forward_s, floor.backward_s, floor.optimizer_s)
        return (1e9 * seconds[0] / others, 1e9 * seconds[1] / others, 1e9 * seconds[2] / others)
    flops = costs.training_flops(model, work.batch)
    full_ns = 1e6 * profile.step_ms if profile.step_ms is not None else flops / profile.gflops
    forward_ns = full_ns * work.batch * costs.forward_flops(model) / flops
    return (forward_ns / faster / others, (full_ns - forward_ns) / faster / others, 0.0)


def factors(case: Case, profile: Profile, precision: str) -> tuple[float, float]:
    """What divides the device's time: the factor of the precision that runs, and of all other settings."""
    tuning = case.tuning
    of_precision = {"bf16": profile.bf16, "fp16": profile.bf16, "fp32": profile.fp32, "int8": profile.int8}
    others = profile.channels_last if tuning.layout == "channels-last" else 1.0
    if tuning.compile_mode is not None:
        others *= profile.compile
    if tuning.execution.startswith("session"):
        others *= profile.session
    return of_precision.get(precision, 1.0), others / _on_cores(profile)


def inference_truth(case: Case, profile: Profile, precision: str) -> Truth:
    """The planted truth of calls at the precision that really runs: t = max(launches, c + B / X).

    Raises UserError for an unknown model or data set.
    """
    work, tuning = case.work, case.tuning
    model = models.model(work.model, num_classes=work.num_classes, input_shape=work.input_shape)
    each = costs.layer_costs(model)
    faster, others = factors(case, profile, precision)
    per_image_ns = (
        costs.forward_flops(model) / profile.gflops
        if profile.images_per_s is None
        else 1e9 / profile.images_per_s
    )
    images_ns = work.batch * per_image_ns if profile.step_ms is None else 1e6 * profile.step_ms
    device_ns = 1e3 * profile.call_us + images_ns / faster / others
    parameters = costs.parameter_count(model)
    # Weights, the batch, and the largest output of a layer twice: read by one and written by the next.
    width = BYTES.get(precision, 4)
    held = parameters * width + work.batch * (
        4 * math.prod(work.input_shape) + 2 * _widest(each) * width // 4
    )
    return Truth(
        launch_ns=1e3 * profile.launch_us * (len(each) if tuning.execution == "eager" else 1),
        device_ns=device_ns,
        split=(1.0, 0.0, 0.0),
        copy_ns=1e6 * profile.copy_ms if tuning.residency == "host" else 0.0,
        copy_waits=not tuning.pinned,
        input_ns=0.0,
        first_batch_ns=0.0,
        workers=0,
        waits=False,
        cold_ns=1e6 * profile.cold_ms,
        boundary_ns=0.0,
        eval_batch_ns=device_ns if profile.eval_ms is None else 1e6 * profile.eval_ms,
        memory_mib=held / 2**20 if profile.mem_mib is None else profile.mem_mib,
        parameters=parameters,
        steps_per_epoch=BATCHES,
        tail_samples=0,
        test_samples=profile.test_samples or data.entry(work.data).n_test,
        accuracy=_final_accuracy(work, profile) if work.weights else 1.0 / work.num_classes,
    )


def _widest(each: Sequence[costs.LayerCost]) -> int:
    return max(cost.bytes_written for cost in each)


def _on_cores(profile: Profile) -> float:
    """What is left of the time on one core (Amdahl), and what the cores cost each other."""
    if profile.threads is None:
        return 1.0
    n = profile.threads
    return profile.serial + (1.0 - profile.serial) / n + profile.overhead * (n - 1)


def _final_accuracy(work: Work, profile: Profile) -> float:
    """The planted mean plus what this seed gives: the same on every device, as for a real pair of runs."""
    luck = stream(f"accuracy/{work.model}/{work.data}/{work.seed}").gauss(0.0, profile.acc_sd)
    return min(1.0, max(0.0, profile.accuracy + luck))


def accuracy_after(truth: Truth, work: Work, epochs: float) -> float:
    """Accuracy after so many epochs: from chance to the planted one, which the last epoch reaches."""
    chance = 1.0 / work.num_classes
    return chance + (truth.accuracy - chance) * _learnt(work, epochs)


def loss_after(work: Work, epochs: float) -> float:
    """Mean cross-entropy: from that of chance down to a tenth of it."""
    return math.log(max(2, work.num_classes)) * (1.0 - 0.9 * _learnt(work, epochs))


def _learnt(work: Work, epochs: float) -> float:
    total = work.recipe.epochs if work.recipe else 1
    return min(1.0, (1.0 - math.exp(-3.0 * epochs / total)) / (1.0 - math.exp(-3.0)))


def stream(name: str) -> random.Random:
    """Random numbers that depend on the name only, on every machine and Python alike."""
    return random.Random(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big"))

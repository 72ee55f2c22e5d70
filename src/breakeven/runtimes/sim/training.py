"""Training of a case on a simulated device, behind the protocol that every runtime has.

Knows nothing about who times it. All randomness follows from the case and BREAKEVEN_SIM_SEED, which the
runner sets for each attempt to ORDER_SEED/CASE/REPLICATE/ATTEMPT.
"""

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from breakeven.errors import Mismatch, Unsupported
from breakeven.records.case import Case
from breakeven.runtimes import Evaluation, Prepared
from breakeven.runtimes.sim.device import VirtualDevice
from breakeven.runtimes.sim.faults import strike
from breakeven.runtimes.sim.profile import Profile, profile_of
from breakeven.runtimes.sim.truth import COLD_MEMORY, Truth, accuracy_after, loss_after, stream, truth_of

SLOW = 10.0
"""By how much `fault=slow` slows every step from its step on."""
STATE = "sim.json"
ONE_PIECE = "a captured step is one piece"


@dataclass(kw_only=True, slots=True)
class Training:
    """The state of one training: how many steps were done, and where in which epoch it stands."""

    case: Case
    profile: Profile
    truth: Truth
    device: VirtualDevice
    fault: str | None
    steps: int = 0
    epoch: int = 0
    position: int = 0
    pending: list[float] = field(default_factory=list)
    memory_factor: float = COLD_MEMORY

    def step(self) -> None:
        self.fetch()
        self.device.copy()
        self.forward()
        self.backward()
        self.optimize()
        self.finish()

    def fetch(self) -> None:
        index = self.steps
        if self.profile.oom_batch is not None and self.case.work.batch >= self.profile.oom_batch:
            raise MemoryError(f"simulated out of memory at batch {self.case.work.batch}")
        if self.fault and index == self.profile.fault_step:
            strike(self.fault)
        if self.position == self.truth.steps_per_epoch:
            self.next_epoch()
        slow = self.fault == "slow" and index >= self.profile.fault_step
        self.device.fetch(slower=self._drift(index) * (SLOW if slow else 1.0))

    def forward(self) -> None:
        extra_ns = 0.0 if self.steps else self.truth.cold_ns * self.device.factor
        self.device.compute(self.truth.split[0], extra_ns)

    def backward(self) -> None:
        self.device.compute(self.truth.split[1])

    def optimize(self) -> None:
        self.device.compute(self.truth.split[2])

    def finish(self) -> None:
        self.device.finish()
        self.steps += 1
        self.position += 1
        self.pending.append(loss_after(self.case.work, self.epochs_done))

    def parts(self) -> Mapping[str, Callable[[], None]] | None:
        """The step's parts in order; None where it is launched as one."""
        if self.case.tuning.captured:
            return None
        return {
            "data_wait": self.fetch,
            "copy" if self.case.tuning.residency == "host" else "cut": self.device.copy,
            "forward": self.forward,
            "backward": self.backward,
            "optimizer": self.optimize,
            "loss_read": self.finish,
        }

    @property
    def epochs_done(self) -> float:
        return self.epoch + self.position / self.truth.steps_per_epoch

    def build(self) -> Mapping[str, Any]:
        self.device.run(1e6 * self.profile.build_ms)
        compiled = self.case.tuning.compile_mode is not None
        return {"captured": self.case.tuning.captured, "cache_state": "cold" if compiled else None}

    def next_epoch(self) -> None:
        self.device.boundary()
        self.epoch += 1
        self.position = 0

    def evaluate(self, batches: int | None) -> Evaluation:
        batch, total = self.case.work.batch, self.truth.test_samples
        steps = -(-total // batch) if batches is None else min(batches, -(-total // batch))
        samples = min(total, steps * batch)
        self.device.run(steps * self.truth.eval_batch_ns)
        right = round(samples * accuracy_after(self.truth, self.case.work, self.epochs_done))
        loss = loss_after(self.case.work, self.epochs_done)
        return Evaluation(steps=steps, samples=samples, accuracy=right / samples, loss=loss)

    def losses(self) -> tuple[float, ...]:
        self.device.sync()
        found, self.pending = tuple(self.pending), []
        return found

    def checks(self) -> Mapping[str, Any]:
        asked = self.case.device.label
        if self.fault == "mismatch":
            raise Mismatch("device_mismatch", f"asked for {asked}, runs on {self.observed()['device']}")
        return {"device": {"asked": asked, "found": asked, "ok": True, "note": "simulated"}}

    def observed(self) -> Mapping[str, Any]:
        precision = self.case.tuning.precision
        return {
            "device": "sim:elsewhere" if self.fault == "mismatch" else self.case.device.label,
            "conv_precision": precision,
            "matmul_precision": precision,
            "tail_dropped_samples": self.truth.tail_samples,
        }

    def counters(self) -> Mapping[str, int]:
        at = self.profile.recompile_step
        return {"recompiles": int(at is not None and self.steps > at)}

    def memory(self) -> Mapping[str, float]:
        return {"sim_allocated_peak_mib": self.truth.memory_mib * self.memory_factor}

    def reset_memory(self) -> None:
        self.memory_factor = 1.0

    def save(self, folder: Path) -> None:
        state = {"steps": self.steps, "epoch": self.epoch, "position": self.position}
        (folder / STATE).write_text(json.dumps(state), encoding="utf-8")

    def restore(self, folder: Path) -> None:
        state = json.loads((folder / STATE).read_text(encoding="utf-8"))
        self.steps, self.epoch, self.position = state["steps"], state["epoch"], state["position"]

    def _drift(self, index: int) -> float:
        span = self.profile.drift_steps
        return 1.0 + (self.profile.drift - 1.0) * max(0.0, 1.0 - index / span) if span else 1.0


def prepare(case: Case) -> Prepared:
    """A simulated case, ready to be timed. Raises Unsupported, or UserError for a bad device or workload."""
    if reason := supports(case):
        raise Unsupported(reason)
    training = _training(case)
    device = training.device
    return Prepared(
        step=training.step,
        sync=device.sync,
        samples_per_step=case.work.batch,
        steps_per_epoch=training.truth.steps_per_epoch,
        next_epoch=training.next_epoch,
        evaluate=training.evaluate,
        losses=training.losses,
        checks=training.checks,
        observed=training.observed,
        counters=training.counters,
        memory=training.memory,
        reset_memory=training.reset_memory,
        save=training.save,
        restore=training.restore,
        close=lambda: None,
        hashes=_hashes(case, training.profile),
        parameters=training.truth.parameters,
        eval_samples=training.truth.test_samples,
        clock=None if device.real else device.clock,
        parts=training.parts(),
        simulated=True,
        nulls={"phases": ONE_PIECE} if case.tuning.captured else {},
        build=None if case.tuning.execution == "eager" else training.build,
    )


def supports(case: Case) -> str | None:
    """None if this case can be simulated, else why not. Raises UserError for a bad name, option or value."""
    if case.device.kind != "sim":
        return "the runtime sim computes on simulated devices only: use --device sim:cpu or sim:gpu"
    profile_of(case.device)
    if case.work.task != "train":
        return "inference is not simulated"
    if case.tuning.precision == "int8":
        return "int8 is for inference, which is not simulated"
    if case.work.recipe is not None and case.work.recipe.accumulation != 1:
        return "gradient accumulation is not simulated"
    if case.device.world_size != 1:
        return "several devices are not simulated"
    return None


def _training(case: Case) -> Training:
    profile = profile_of(case.device)
    truth = truth_of(case, profile)
    seed = os.environ.get("BREAKEVEN_SIM_SEED", "0")
    luck = stream(f"process/{seed}/{case.case_id}").gauss(0.0, 1.0)
    device = VirtualDevice(
        truth=truth,
        rng=stream(f"noise/{seed}/{case.case_id}"),
        noise=profile.noise,
        factor=math.exp(profile.process * luck),
        prefetch=truth.workers * (case.tuning.prefetch or 2),
        real=bool(profile.real),
    )
    fault = profile.fault if _is_struck(profile, seed) else None
    return Training(case=case, profile=profile, truth=truth, device=device, fault=fault)


def _is_struck(profile: Profile, seed: str) -> bool:
    """Whether the fault is meant for this replicate and attempt."""
    replicate, attempt = [*seed.split("/")[2:4], "0", "0"][:2] if seed.count("/") >= 3 else ("0", "0")
    wanted = ((profile.fault_replicate, replicate), (profile.fault_attempt, attempt))
    return all(want is None or str(want) == here for want, here in wanted)


def _hashes(case: Case, profile: Profile) -> dict[str, str]:
    """Functions of the work alone, so that devices agree."""
    work = case.work
    names = {
        "weights": f"{work.model}/{work.num_classes}/{work.input_shape}/{work.seed}",
        "order": f"{work.data}/{work.seed}",
        "augment": f"{work.recipe.augment if work.recipe else None}/{work.seed}",
    }
    if profile.hash == "bad":
        names["weights"] += "/planted"
    return {key: hashlib.sha256(f"sim/{key}/{name}".encode()).hexdigest() for key, name in names.items()}

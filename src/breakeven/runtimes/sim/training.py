"""Training of a case on a simulated device, behind the protocol that every runtime has.

Knows nothing about who times it.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from breakeven.errors import Mismatch
from breakeven.records.case import Case
from breakeven.runtimes import Evaluation
from breakeven.runtimes.sim import process
from breakeven.runtimes.sim.device import VirtualDevice
from breakeven.runtimes.sim.profile import Profile, profile_of
from breakeven.runtimes.sim.truth import COLD_MEMORY, Truth, accuracy_after, loss_after, truth_of

STATE = "sim.json"


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
        process.befall(self.case, self.profile, self.fault, index)
        if self.position == self.truth.steps_per_epoch:
            self.next_epoch()
        self.device.fetch(slower=process.slowed(self.profile, self.fault, index))

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


def training(case: Case) -> Training:
    """The training of a simulated case, before its first step."""
    profile = profile_of(case.device)
    truth = truth_of(case, profile)
    device = process.device_of(case, profile, truth)
    return Training(case=case, profile=profile, truth=truth, device=device, fault=process.fault_of(profile))

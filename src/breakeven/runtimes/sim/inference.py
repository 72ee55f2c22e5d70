"""Inference of a case on a simulated device, behind the protocol that every runtime has.

Knows nothing about who times it.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from breakeven.errors import Mismatch
from breakeven.records.case import Case
from breakeven.runtimes import Evaluation
from breakeven.runtimes.sim import process
from breakeven.runtimes.sim.device import VirtualDevice
from breakeven.runtimes.sim.profile import Profile, profile_of
from breakeven.runtimes.sim.truth import COLD_MEMORY, Truth, inference_truth, stream
from breakeven.workloads import data

TOLERANCE = {"default": 1e-3, "fp32": 1e-5, "tf32": 1e-3, "fp16": 1e-2, "bf16": 5e-2, "int8": 0.2}
"""Relative L2 error of the logits that is this precision's own; a sound one is planted at half of it."""
LEAST_AGREEMENT = 0.9
"""Share of top-1 answers that int8 must have in common with fp32."""
ASKED_IMAGES = 1024


@dataclass(kw_only=True, slots=True)
class Inference:
    """The state of one process: how many calls were made. `runs`: the precision that really computes."""

    case: Case
    profile: Profile
    truth: Truth
    device: VirtualDevice
    fault: str | None
    runs: str
    tails: random.Random
    calls: int = 0
    memory_factor: float = COLD_MEMORY

    def step(self) -> None:
        index, limit = self.calls, self.profile.memory_mib
        if limit is not None and self.truth.memory_mib > limit:
            batch, needed = self.case.work.batch, self.truth.memory_mib
            raise MemoryError(f"simulated out of memory: batch {batch} needs {needed:.0f} of {limit:.0f} MiB")
        process.befall(self.case, self.profile, self.fault, index)
        rare = self.profile.tail > 0 and self.tails.random() < self.profile.tail
        slower = process.slowed(self.profile, self.fault, index)
        self.device.fetch(slower=slower * (self.profile.tail_factor if rare else 1.0))
        self.device.copy()
        self.device.compute(1.0, 0.0 if index else self.truth.cold_ns * self.device.factor)
        self.calls += 1

    def build(self) -> Mapping[str, Any]:
        self.device.run(1e6 * self.profile.build_ms)
        compiled = self.case.tuning.compile_mode is not None
        return {"captured": self.case.tuning.captured, "cache_state": "cold" if compiled else None}

    def evaluate(self, batches: int | None) -> Evaluation:
        batch, total = self.case.work.batch, self.truth.test_samples
        steps = -(-total // batch) if batches is None else min(batches, -(-total // batch))
        samples = min(total, steps * batch)
        self.device.run(steps * self.truth.eval_batch_ns)
        return Evaluation(steps=steps, samples=samples, accuracy=self.accuracy(samples))

    def accuracy(self, samples: int) -> float | None:
        """Share right of so many; None where the data has no labels."""
        if not data.entry(self.case.work.data).labelled:
            return None
        kept = self.truth.accuracy * (self.profile.agreement if self.runs == "int8" else 1.0)
        return round(samples * kept) / samples

    def checks(self) -> Mapping[str, Any]:
        asked, precision = self.case.device.label, self.case.tuning.precision
        if self.fault == "mismatch":
            raise Mismatch("device_mismatch", f"asked for {asked}, runs on {self.observed()['device']}")
        if self.runs != precision:
            raise Mismatch("precision_mismatch", f"asked for {precision}, {self.runs} runs")
        agreement = self.profile.agreement if precision == "int8" else 1.0
        sound = agreement >= LEAST_AGREEMENT
        limit = TOLERANCE[precision]
        error = limit / 2 if sound else 1.0
        weights = "trained weights" if self.case.work.weights else "random weights"
        images = min(ASKED_IMAGES, self.truth.test_samples)
        found = {
            "device": _check(asked, asked, True, "simulated"),
            "precision": _check(precision, self.runs, True, "simulated"),
            "output": _check(limit, error, error <= limit, "relative L2 error, simulated"),
            "output_error": _check(limit, error, error <= limit, "relative L2 error, simulated"),
            "agreement": _check(
                LEAST_AGREEMENT,
                agreement,
                sound,
                f"same top-1 as fp32, {images} images, {weights}, simulated",
            ),
        }
        if (accuracy := self.accuracy(self.truth.test_samples)) is not None:
            fp32 = self.truth.accuracy
            found["accuracy"] = _check(fp32, accuracy, None, f"asked is of fp32, {weights}, simulated")
        return found

    def observed(self) -> Mapping[str, Any]:
        return {
            "device": "sim:elsewhere" if self.fault == "mismatch" else self.case.device.label,
            "conv_precision": self.runs,
            "matmul_precision": self.runs,
        }

    def counters(self) -> Mapping[str, int]:
        at = self.profile.recompile_step
        return {"recompiles": int(at is not None and self.calls > at)}

    def memory(self) -> Mapping[str, float]:
        return {"sim_allocated_peak_mib": self.truth.memory_mib * self.memory_factor}

    def reset_memory(self) -> None:
        self.memory_factor = 1.0

    def meter(self) -> Callable[[], Mapping[str, Any]]:
        """The planted power: `watts` while the device works, `idle_w` all the time else."""
        device, watts, idle_w = self.device, self.profile.watts or 0.0, self.profile.idle_w
        start_ns, worked_ns = device.now, device.worked_ns

        def read() -> Mapping[str, Any]:
            window_ns, at_work_ns = device.now - start_ns, device.worked_ns - worked_ns
            joules = (idle_w * window_ns + (watts - idle_w) * min(at_work_ns, window_ns)) / 1e9
            seen = {"gross_j": joules, "window_ns": round(window_ns), "idle_w": idle_w}
            return {"scope": "simulated device", **seen}

        return read


def inference(case: Case) -> Inference:
    """The inference of a simulated case, before its first call."""
    profile = profile_of(case.device)
    asked = case.tuning.precision
    lower = asked in ("tf32", "fp16", "bf16", "int8")
    runs = profile.fallback if profile.fallback is not None and lower else asked
    truth = inference_truth(case, profile, runs)
    return Inference(
        case=case,
        profile=profile,
        truth=truth,
        device=process.device_of(case, profile, truth),
        fault=process.fault_of(profile),
        runs=runs,
        tails=stream(f"tails/{process.seed()}/{case.case_id}"),
    )


def _check(asked: Any, found: Any, ok: bool | None, note: str) -> dict[str, Any]:
    return {"asked": asked, "found": found, "ok": ok, "note": note}

"""Simulated devices: what is planted in them, by name and by the options of `sim:NAME:key=value`.

Knows nothing about models, steps or time passing.
"""

import dataclasses
import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from breakeven.errors import UserError
from breakeven.records.case import PRECISIONS, Device

FAULTS = (
    *("hang", "stubborn", "kill", "error", "garbage", "forge", "silent", "oom", "eat", "flood"),
    *("slow", "mismatch"),
)
HASHES = ("ok", "bad")


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """The truth planted in a simulated device. None: off, or taken from the model.

    Step time
        gflops            effective GFLOP/s of a training step in default precision
        launch_us         host time per layer of the model, microseconds; only once a step unless eager
        step_ms           the whole step instead of the two above; the input is then free unless set as well
        input_ms          host time for one batch, milliseconds, without loader workers; divided by their
                          number, and then beside the step, not before it; none with data on the device
        copy_ms           time for one batch's way to the device, milliseconds; none with data on the device.
                          Pinned, it is enqueued; else the host waits for it and for all before it
        gb_per_s          memory bandwidth: each layer's time is then the longer of its arithmetic's and its
                          traffic's, and the device shows its ceilings; without effect beside step_ms
        bf16              factor by which bf16 and fp16 divide the device's time
        fp32, int8        the same for IEEE fp32 (below 1: slower than default) and int8
        channels_last     the same for the channels-last layout
        compile           the same for compile:MODE
        session           the same for a session (onnxruntime, tensorrt, openvino)
    Inference
        images_per_s      rate X of the device at large batches, before the factors; None: by gflops. A call
                          of B images takes max(launches, call_us + B / X), or step_ms
        call_us           device time of a call besides its images, microseconds; no factor shortens it
        tail, tail_factor share of calls that take so many times as long
        memory_mib        memory of the device: a batch that needs more ends in out of memory; None: unbounded
        fallback          what really runs where tf32, fp16, bf16 or int8 is asked for
        agreement         share of the top-1 answers of int8 that are those of fp32
        watts, idle_w     power of the device at work and at rest; None: it has no meter
    Cores
        threads           cores that divide the device's time by Amdahl's law; None: it stays as it is
        serial            share of the device's time that more cores do not shorten
        overhead          share of the device's time on one core that each further core adds
    Noise
        noise             sigma of the lognormal factor of each step, median 1
        process           sigma of the lognormal factor of each process, median 1
    Warm-up and rare costs
        drift             factor on the first step, falling in a straight line to 1
        drift_steps       over this many steps
        cold_ms           extra device time of the first step
        build_ms          host time of compiling or capturing, where the tuning does either
        boundary_ms       host time of every change of epochs
        eval_ms           device time of one batch of evaluation; None: a third of a step's
    Learning
        accuracy          mean accuracy on the test set after the recipe's epochs, 0..1
        acc_sd            its standard deviation from seed to seed
    Sizes
        mem_mib           peak memory of steady training; None: estimated from the model
        oom_batch         a batch of this many samples or more runs out of memory at the first step
        train_samples     training samples an epoch; None: those of the data set named
        test_samples      the same for the test set
    Faults
        fault             one of FAULTS, at step `fault_step` (the first is 0), in replicate `fault_replicate`
                          and attempt `fault_attempt` only (None: all)
        recompile_step    the counter `recompiles` moves at this step
        hash              `bad`: other initial weights than the seed gives
        real              1: time passes really (sleep) and the real clock is read, for tests that kill
    """

    gflops: float
    launch_us: float
    step_ms: float | None = None
    input_ms: float = 0.0
    copy_ms: float = 0.0
    gb_per_s: float | None = None
    bf16: float = 1.0
    channels_last: float = 1.0
    compile: float = 1.0
    fp32: float = 1.0
    int8: float = 1.0
    session: float = 1.0
    images_per_s: float | None = None
    call_us: float = 0.0
    tail: float = 0.0
    tail_factor: float = 5.0
    memory_mib: float | None = None
    fallback: str | None = None
    agreement: float = 0.998
    watts: float | None = None
    idle_w: float = 0.0
    threads: int | None = None
    serial: float = 0.0
    overhead: float = 0.0
    noise: float = 0.01
    process: float = 0.01
    drift: float = 1.0
    drift_steps: int = 0
    cold_ms: float = 0.0
    build_ms: float = 0.0
    boundary_ms: float = 0.0
    eval_ms: float | None = None
    accuracy: float = 0.75
    acc_sd: float = 0.005
    mem_mib: float | None = None
    oom_batch: int | None = None
    train_samples: int | None = None
    test_samples: int | None = None
    fault: str | None = None
    fault_step: int = 0
    fault_replicate: int | None = None
    fault_attempt: int | None = None
    recompile_step: int | None = None
    hash: str = "ok"
    real: int = 0


# Of the size seen by hand on one H200 and its 16-core host: an indication that makes a ladder look like one.
PROFILES: dict[str, Profile] = {
    "cpu": Profile(
        gflops=280.0, launch_us=10.0, input_ms=20.0, compile=1.2, channels_last=1.1, bf16=0.9,
        session=1.4, int8=3.2,
        noise=0.02, process=0.02, drift=1.2, drift_steps=10, cold_ms=100.0, build_ms=8_000.0,
        boundary_ms=20.0,
    ),
    "gpu": Profile(
        gflops=16_000.0, launch_us=140.0, input_ms=20.0, compile=1.3, channels_last=1.2, bf16=1.5,
        session=1.4, int8=2.0,
        noise=0.005, process=0.01, drift=1.5, drift_steps=30, cold_ms=500.0, build_ms=12_000.0,
        boundary_ms=50.0,
    ),
}  # fmt: skip

ABOVE_ZERO = {
    "gflops",
    "gb_per_s",
    "step_ms",
    "bf16",
    "channels_last",
    "compile",
    "drift",
    "oom_batch",
    "train_samples",
}
ABOVE_ZERO |= {"test_samples", "threads", "fp32", "int8", "session", "images_per_s", "tail_factor"}
AT_MOST = {
    "tail": 1.0,
    "agreement": 1.0,
    "accuracy": 1.0,
    "serial": 1.0,
    "real": 1.0,
    "noise": 2.0,
    "process": 2.0,
}
WORDS = {"fault": FAULTS, "hash": HASHES, "fallback": PRECISIONS}
TYPES = {field.name: field.type for field in dataclasses.fields(Profile)}


def profile_of(device: Device) -> Profile:
    """The profile that a `sim:` device names, its options applied.

    Raises UserError, one line with the nearest valid word, for an unknown name or option or a bad value.
    """
    name = device.name or ""
    if name not in PROFILES:
        raise UserError(f"unknown simulated device {name!r}{_nearest(name, PROFILES)}")
    changes = {key: _value(key, text) for key, text in device.options}
    if "step_ms" in changes:
        changes = {"input_ms": 0.0, "launch_us": 0.0} | changes
    return dataclasses.replace(PROFILES[name], **changes)


def _value(key: str, text: str) -> Any:
    if key not in TYPES:
        raise UserError(f"unknown option {key!r} of a simulated device{_nearest(key, TYPES)}")
    if key in WORDS:
        if text not in WORDS[key]:
            raise UserError(f"option {key}={text!r} of a simulated device{_nearest(text, WORDS[key])}")
        return text
    whole = "int" in str(TYPES[key])
    try:
        value = int(text) if whole else float(text)
    except ValueError:
        wanted = "a whole number" if whole else "a number"
        raise UserError(f"option {key}={text!r} of a simulated device must be {wanted}") from None
    least, most = 0, AT_MOST.get(key, math.inf)
    if not (math.isfinite(value) and least <= value <= most) or (key in ABOVE_ZERO and not value):
        raise UserError(f"option {key}={text} of a simulated device must lie {_range(key)}")
    return value


def _range(key: str) -> str:
    if key in AT_MOST:
        return f"between 0 and {AT_MOST[key]:g}"
    return "above 0" if key in ABOVE_ZERO else "at 0 or above"


def _nearest(word: str, known: Mapping[str, Any] | tuple[str, ...]) -> str:
    near = difflib.get_close_matches(word, list(known), n=1)
    return f": did you mean {near[0]!r}?" if near else f": known are {', '.join(known)}"

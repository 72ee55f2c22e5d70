"""One attempt in a fresh process: build the case, time it, report one result.

Knows nothing about studies or other attempts. Whatever goes wrong becomes an outcome with a reason: a result
is always sent unless the process itself dies, which the runner sees.
"""

import contextlib
import hashlib
import json
import os
import signal
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from breakeven import runtimes
from breakeven.errors import Mismatch, Unsupported, UserError
from breakeven.records.canonical import to_json
from breakeven.records.case import Case, Device, parse_device
from breakeven.records.lines import SAMPLED, Epoch
from breakeven.runner import checkpoint
from breakeven.runner.load import driving
from breakeven.runner.wire import case_from_json
from breakeven.timing import (
    Parts,
    Plan,
    Probe,
    Progress,
    Samples,
    built,
    elapsed,
    profile_steps,
    sample_calls,
    sample_inference,
    sample_peak,
    sample_training,
    train_epochs,
)
from breakeven.timing.core import core_loop_ns
from breakeven.timing.cpu import core_ids_for, offered_cores
from breakeven.timing.probes import Baseline, gpu_baseline, probes_for
from breakeven.timing.probes.energy import NO_IDLE
from breakeven.timing.readings import Null
from breakeven.timing.watching import Metered, watching

EVENT_FD = "BREAKEVEN_EVENT_FD"
"""Environment variable that tells a child which descriptor its events go to."""

OOM_SIGNS = (
    "out of memory",
    "memoryerror",
    "can't allocate memory",
    "cannot allocate memory",
    "alloc_failed",
    "failed to allocate",
    "oom when allocating",
    "resourceexhausted",
)
"""What frameworks say, in lower case, when memory runs out: torch's CPU and CUDA allocators, cuBLAS, ONNX
Runtime's arena, OpenVINO, TensorFlow."""

LOSSES_KEPT = 20
"""Losses of the first steps in a line: enough to compare two devices, small enough for a thousand lines."""

WARM_S = 1.0
"""Seconds of calls before LoadGen begins, warm-up and after: it has none of its own, and MLPerf allows it."""

CEILING_PROBES = ("contention", "clocks")
"""What is watched beside a ceiling: did others use the machine, were its clocks held down."""

Result = dict[str, Any]

_stop_requested = False


def emit(event_fd: int, event: Mapping[str, Any]) -> None:
    """Writes one event as a JSON line. Raises BrokenPipeError when the runner is gone."""
    data = (json.dumps(event, allow_nan=False) + "\n").encode()
    while data:
        data = data[os.write(event_fd, data) :]


def main(request: Mapping[str, Any], event_fd: int) -> None:
    """Runs a request (`what`: attempt, full, load, profile, check, ceilings) and emits its result."""
    signal.signal(signal.SIGTERM, ask_to_stop)
    result = _outcome(request, event_fd)
    emit(event_fd, {"event": "result", "token": request["token"], "result": result})


def ask_to_stop(signum: int, frame: object) -> None:
    global _stop_requested
    _stop_requested = True


def _outcome(request: Mapping[str, Any], event_fd: int) -> Result:
    try:
        os.environ.update(request.get("environ", {}))
        if request["what"] == "ceilings":
            return _ceilings(request, event_fd)
        case = case_from_json(request["case"])
        _offer_cores(case.device, request.get("cores"))
        if request["what"] == "check":
            with _prepared(case) as (prepared, _):
                _require_threads(case, prepared.observed())
                return _check(prepared)
        if request["what"] == "profile":
            with _prepared(case) as (prepared, _):
                return _profile(case, prepared, request, event_fd)
        # Before anything of the case is there, and so outside all that is timed. A simulation has no core.
        core_ns = None if case.device.kind == "sim" else core_loop_ns()
        # Before the runtime opens the device: afterwards this process cannot be told from others on it.
        probes: dict[str, Probe] = {p.name: p for p in probes_for(case.device, idle_w=_idle(request))}
        with _prepared(case) as (prepared, startup_ns):
            if prepared.meter is not None:
                probes["energy"] = Metered(prepared.meter)
            run = {"attempt": _attempt, "full": _full, "load": _load}[request["what"]]
            compiled = built(prepared)
            result = run(case, prepared, request, event_fd, probes)
            facts = _facts(prepared, startup_ns, request)
            facts |= {} if compiled is None else {"compile": compiled}
            facts["observed"] |= result.pop("observed", {})
            if core_ns is not None:
                facts["observed"]["core_loop_ns"] = round(core_ns, 3)
            _require_threads(case, facts["observed"])
            whole = facts | result
            # What the attempt filled needs no reason any more.
            unfilled = {key: why for key, why in whole["base_nulls"].items() if whole.get(key) is None}
            return whole | {"base_nulls": unfilled}
    except Unsupported as error:
        return {"outcome": "unsupported", "reason": _line(error)}
    except Mismatch as error:
        return {"outcome": error.outcome, "reason": _line(error)}
    except UserError as error:
        return {"outcome": "error", "reason": _line(error)}
    except Exception as error:  # noqa: BLE001  the outermost border: the reason goes into the record
        traceback.print_exc()
        return classify(error)


def classify(error: BaseException) -> Result:
    """The outcome of an exception that a framework raised: oom, unsupported or error, with its reason."""
    text = f"{type(error).__name__}: {_line(error)}"[:300]
    low = text.lower()
    if isinstance(error, MemoryError) or any(sign in low for sign in OOM_SIGNS):
        return {"outcome": "oom", "reason": text}
    if isinstance(error, NotImplementedError) or "not implemented for" in low:
        return {"outcome": "unsupported", "reason": text}
    return {"outcome": "error", "reason": text}


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


def _idle(request: Mapping[str, Any]) -> float | Null:
    """The device's idle power, as the runner measured it before the run's first attempt."""
    found = request.get("idle", {})
    if "w" in found:
        return float(found["w"])
    return Null(reason=str(found.get("reason", NO_IDLE.reason)))


def _offer_cores(device: Device, cores: Sequence[int] | None) -> None:
    """Binds this process to the cores of its device, and no fewer: a library may have bound the parent."""
    if not hasattr(os, "sched_setaffinity"):
        return
    if cores is not None:
        os.sched_setaffinity(0, cores)
    if device.threads is not None:
        os.sched_setaffinity(0, core_ids_for(device.threads))


def _require_threads(case: Case, observed: Mapping[str, Any]) -> None:
    """Raises Mismatch if a CPU case computed with fewer threads than its label says (contract R36)."""
    used, asked = observed.get("threads"), case.tuning.threads
    if case.device.kind != "cpu" or not isinstance(used, int):
        return
    # OpenMP starts no more than this, whatever number of threads a library reads back from it.
    limit = os.environ.get("OMP_THREAD_LIMIT", "")
    used = min(used, int(limit)) if limit.isdecimal() and int(limit) > 0 else used
    wanted = offered_cores().threads if asked == "auto" else int(asked)
    if used < wanted:
        raise Mismatch(
            "device_mismatch",
            f"{used} of {wanted} threads were used: unset OMP_NUM_THREADS and the like, or ask for "
            f"cpu:threads={used}",
        )


@contextlib.contextmanager
def _prepared(case: Case) -> Iterator[tuple[runtimes.Prepared, int]]:
    prepared, startup_ns = elapsed(lambda: runtimes.load(case.tuning.runtime).prepare(case))
    try:
        yield prepared, startup_ns
    finally:
        prepared.close()


def _facts(prepared: runtimes.Prepared, startup_ns: int, request: Mapping[str, Any]) -> Result:
    """What holds for any attempt: read back after the run, so that it is what really ran."""
    observed = dict(prepared.observed()) | {"preload_ms": request["preload_ns"] / 1e6}
    if hasattr(os, "sched_getaffinity"):
        observed["cores_offered"] = len(os.sched_getaffinity(0))
    return {
        "outcome": "ok",
        "startup_ns": startup_ns,
        "steps_per_epoch": prepared.steps_per_epoch,
        "eval_samples": prepared.eval_samples,
        "observed": observed,
        "hashes": dict(prepared.hashes),
        "parameters": prepared.parameters,
        "base_flags": ["simulated"] if prepared.simulated else [],
        "base_nulls": _unread(prepared) | dict(prepared.nulls),
    }


def _unread(prepared: runtimes.Prepared) -> dict[str, str]:
    """Why the sections that an attempt does not fill are null, and those of sensors on a simulated device."""
    nulls = {"phases": "parts are timed in sampled steps only", "compile": "nothing is compiled"}
    if prepared.simulated:
        nulls |= dict.fromkeys(("energy", "clocks", "contention"), "a simulated device has no sensors")
    return nulls


def _check(prepared: runtimes.Prepared) -> Result:
    checks = dict(prepared.checks())
    failed = [name for name, found in checks.items() if found.get("ok") is False]
    if failed:
        return {"outcome": "output_mismatch", "reason": f"failed: {', '.join(failed)}", "checks": checks}
    return {"outcome": "ok", "checks": checks}


def _profile(case: Case, prepared: runtimes.Prepared, request: Mapping[str, Any], event_fd: int) -> Result:
    """A few steps under the profiler. The trace's name ends in its hash: no other run overwrites it."""
    folder = Path(request["folder"])
    part = folder / f".part-{os.getpid()}.json.gz"
    built(prepared)
    try:
        made = profile_steps(
            prepared,
            part,
            budget_s=request["budget_s"],
            epochs=case.work.task == "train",
            tell=lambda progress: emit(event_fd, {"event": "progress", **to_json(progress)}),
        )
        observed = dict(prepared.observed())
        _require_threads(case, observed)
        sha256 = hashlib.sha256(part.read_bytes()).hexdigest()
        trace = folder / f"{request['stem']}-{sha256[:8]}.json.gz"
        os.replace(part, trace)
    finally:
        part.unlink(missing_ok=True)
    found = to_json(made.found)
    return {
        "outcome": "ok",
        "blocks": to_json(made.blocks),
        "n_steps": made.n_steps,
        "profiled_ns": made.ns,
        "plain_ns": made.plain_ns,
        "trace": {"file": f"{folder.name}/{trace.name}", "sha256": sha256, "events": found.pop("events")},
        "observed": observed | found.pop("observed"),
        **found,
    }


def _ceilings(request: Mapping[str, Any], event_fd: int) -> Result:
    """Ceilings of a device one after the other, each sent at once: a crash loses only what follows."""
    device = parse_device(request["device"])
    _offer_cores(device, request.get("cores"))
    # Copies by size come from the same function as ceilings.
    runtime = runtimes.measurable(request["runtime"]) or runtimes.copying(request["runtime"])
    assert runtime is not None
    before = gpu_baseline(device)
    for name in request["names"]:
        found = _ceiling(runtime, device, name, request["budget_s"], before)
        emit(event_fd, {"event": "ceiling", "token": request["token"], "name": name, **found})
    return {"outcome": "ok"}


def _ceiling(
    runtime: runtimes.Measurable | runtimes.Copying,
    device: Device,
    name: str,
    budget_s: float,
    before: Baseline | None,
) -> Result:
    try:
        peak = runtime.peak(device, name)
        probes = {p.name: p for p in probes_for(device, baseline=before) if p.name in CEILING_PROBES}
        reached = sample_peak(peak, budget_s=budget_s, watch=probes)
    except (Unsupported, Mismatch) as error:
        return {"per_second": None, "reason": _line(error)}
    except Exception as error:  # noqa: BLE001  a framework may raise anything: the ceiling is null, with this reason
        return {"per_second": None, "reason": classify(error)["reason"]}
    return {
        "per_second": reached.per_second,
        "flags": list(reached.flags),
        "conditions": to_json(peak.conditions),
    }


def _attempt(
    case: Case,
    prepared: runtimes.Prepared,
    request: Mapping[str, Any],
    event_fd: int,
    probes: Mapping[str, Probe],
) -> Result:
    """A sampled attempt: seconds of steps; of training one or two epoch boundaries, of inference single
    calls; part of an evaluation.
    """

    def on_progress(progress: Progress) -> None:
        emit(event_fd, {"event": "progress", **to_json(progress)})

    plan = Plan(**request["plan"])
    sample = sample_inference if case.work.task == "infer" else sample_training
    samples = sample(prepared, plan, watch=probes, on_progress=on_progress)
    result = _watched(samples.probes) | {"region": SAMPLED[case.work.task]}
    result["flags"] += samples.flags
    result["memory"] |= _memory(samples)
    result |= {
        "cold_ns": samples.cold_ns,
        "blocks": to_json(samples.blocks),
        "eval_blocks": to_json(samples.eval_blocks),
        "losses": samples.losses[:LOSSES_KEPT],
    }
    if case.work.task == "infer":
        result |= {"calls_ns": samples.calls_ns} | _scored(samples, prepared, result["nulls"])
    if isinstance(samples.parts, Parts):
        result["phases"] = _phases(samples.parts)
    else:
        result["nulls"]["phases"] = samples.parts
    if samples.timers_ns is not None:
        host_ns, device_ns = samples.timers_ns
        result["observed"] = {"timers": {"host_ns": host_ns, "device_ns": device_ns}}
    if samples.counters_moved:
        moved = ", ".join(f"{name} +{count}" for name, count in samples.counters_moved.items())
        result |= {"outcome": "invalid", "reason": f"compiled or retraced inside the timed window: {moved}"}
    return result


def _scored(samples: Samples, prepared: runtimes.Prepared, nulls: dict[str, str]) -> Result:
    """The accuracy of an inference, where all of the test set was scored and has labels."""
    scored = samples.evaluation
    if scored is not None and scored.accuracy is None:
        nulls["accuracy"] = "the data has no labels"
    elif scored is None or scored.samples != prepared.eval_samples:
        nulls["accuracy"] = "only part of the test set was scored"
    else:
        return {"accuracy": scored.accuracy}
    return {}


def _phases(parts: Parts) -> Result:
    """The parts as the record has them: without the verdict on them, which is a flag."""
    return {key: value for key, value in to_json(parts).items() if key != "disagree"}


def _memory(samples: Samples) -> dict[str, float]:
    """The framework's peaks by name: `_cold` holds start-up and the search for kernels, the others do not."""
    cold = {f"{name.removesuffix('_mib')}_cold_mib": mib for name, mib in samples.memory_cold.items()}
    return cold | dict(samples.memory_warm)


def _watched(found: Mapping[str, Mapping[str, Any]]) -> Result:
    """Sections of the record from what the probes reported; flags and null reasons are pooled."""
    sections = {name: dict(values) for name, values in found.items()}
    flags = [flag for values in sections.values() for flag in values.pop("flags", ())]
    nulls = {
        f"{name}.{key}": reason
        for name, values in sections.items()
        for key, reason in values.pop("nulls", {}).items()
    }
    memory = {key: mib for key, mib in sections.pop("memory", {}).items() if isinstance(mib, int | float)}
    return {"flags": flags, "nulls": nulls, "memory": memory, **sections}


def _full(
    case: Case,
    prepared: runtimes.Prepared,
    request: Mapping[str, Any],
    event_fd: int,
    probes: Mapping[str, Probe],
) -> Result:
    """A full run: every epoch and its test accuracy; saved at each epoch's end, so that it can be resumed.

    The trained weights stay in a file, for inference.
    """
    assert case.work.recipe is not None
    total = case.work.recipe.epochs
    folder = Path(request["checkpoint"])
    kept = [Epoch(**epoch) for epoch in request["earlier"]]
    first = len(kept)
    if first:
        prepared.restore(folder / "state")

    def on_epoch(epoch: Epoch) -> None:
        kept.append(epoch)
        saved = checkpoint.Saved(
            case_id=case.case_id,
            replicate=request["replicate"],
            attempt=request["attempt"],
            epochs=tuple(kept),
        )
        checkpoint.save(folder, saved, prepared.save)
        emit(event_fd, {"event": "epoch", "step_ns": epoch.train_ns / epoch.steps, "done": len(kept) / total})

    run = train_epochs(
        prepared,
        first=first,
        epochs=total,
        budget_s=request.get("budget_s"),
        should_stop=lambda: _stop_requested,
        on_epoch=on_epoch,
        watch=probes,
    )
    result = _watched(run.probes)
    result["memory"] |= dict(prepared.memory())
    result |= {"region": "train_run", "epochs": to_json(run.epochs)}
    if len(kept) < total:
        reason = f"stopped after {len(kept)} of {total} epochs"
        return result | {"outcome": "interrupted", "reason": reason}
    if prepared.export is not None:
        trained = Path(request["weights"])
        identity = checkpoint.save_weights(trained, prepared.export())
        result["observed"] = {"trained_weights": {"file": trained.name, "identity": identity}}
    return result | {"accuracy": kept[-1].accuracy}


def _load(
    case: Case,
    prepared: runtimes.Prepared,
    request: Mapping[str, Any],
    event_fd: int,
    probes: Mapping[str, Probe],
) -> Result:
    """Queries of MLPerf's LoadGen, answered by the warm case. Nothing here is timed by us."""
    sample_calls(prepared, budget_s=WARM_S)
    prepared.reset_memory()
    before = dict(prepared.counters())
    with watching(probes) as seen:
        found = driving.drive(prepared, request)
    after = prepared.counters()
    result = _watched(seen)
    result["memory"] |= dict(prepared.memory())
    result |= found
    if moved := ", ".join(name for name in after if after[name] != before.get(name)):
        result |= {"outcome": "invalid", "reason": f"compiled or retraced while LoadGen asked: {moved}"}
    return result

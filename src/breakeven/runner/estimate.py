"""How long a plan takes, roughly, from counting its attempts.

Knows nothing about how a case is measured.
"""

from breakeven.runner.load.settings import FULL_MS, answering
from breakeven.runner.plan import Plan
from breakeven.runner.profiling import SHARE as PROFILE_SHARE
from breakeven.workloads import data as data_sets
from breakeven.workloads.costs import forward_flops
from breakeven.workloads.models import model

# Seconds besides measuring. On 2 cores a fork took 0.02 to 0.07 and a prepared parent 2.5 to 3.1;
# building the model, warm-up, checks and compilation are guesses.
ATTEMPT_OVERHEAD = (0.3, 1.5)
# A case compiles cold for its check and in its first process, else warm: 8 to 22 s and 2 to 5 s were seen.
COLD_COMPILE, WARM_COMPILE = (5.0, 60.0), (1.5, 6.0)
PARENT_OVERHEAD = (2.0, 4.0)
# FLOP/s of training, as written to best: per core on 16 and on 2 cores, and on an H200 (runs made by hand).
CPU_CORE_RATE = (10e9, 70e9)
GPU_RATE = (0.3e12, 20e12)


def estimate_seconds(plan: Plan, *, attempt_time: float | None = None) -> tuple[float, float]:
    """A rough estimate, never a promise: seconds the plan takes at least and at most, from counting attempts.

    The low end has every case done after `replicates`, the high end after `max_replicates`. Whole runs
    (`full`) are guessed from FLOPs, at rates between the slowest and the fastest that was seen.
    """
    study = plan.study
    seconds = study.attempt_time if attempt_time is None else attempt_time
    parents = len({(item.case.tuning.runtime, item.case.tuning.env) for item in plan.cases})
    whole = _full_runs(plan) if study.full else (0.0, 0.0)
    real = [item.case for item in plan.cases if item.case.device.kind != "sim"]  # the others take no time
    compiled = sum(case.tuning.compile_mode is not None for case in real)
    ends = []
    for end, replicates in enumerate((study.replicates, study.max_replicates)):
        once = parents * PARENT_OVERHEAD[end] + compiled * WARM_COMPILE[end]
        once += len(real) * seconds + len(plan.cases) * ATTEMPT_OVERHEAD[end]
        again = 2 * compiled * COLD_COMPILE[end]
        again += best_attempts(plan)[end] * ((seconds if real else 0.0) + ATTEMPT_OVERHEAD[end])
        again += parents * PARENT_OVERHEAD[end] * (1 + study.replicates) if study.best else 0.0
        again += _compiled_again(plan)[end] * WARM_COMPILE[end] if real else 0.0
        ends.append(replicates * once + again + whole[end])
    if study.load:
        ends = [end + s for end, s in zip(ends, _load_runs(plan), strict=True)]
    if study.profile:
        # A process and a parent each, which warm up for part of an attempt's time.
        each = (len(real) * (PROFILE_SHARE * seconds + s) for s in PARENT_OVERHEAD)
        ends = [end + once for end, once in zip(ends, each, strict=True)]
    if study.max_time is not None:
        ends = [min(end, study.max_time) for end in ends]
    return ends[0], ends[1]


def best_attempts(plan: Plan) -> tuple[int, int]:
    """Attempts that choose the best and measure it again, at least and at most; none where nobody asks.

    On top of the candidates that are known, up to two stacks a place are tried without their losing steps.
    Confirmed are the loop as written and one or two best.
    """
    if not plan.study.best:
        return 0, 0
    places = len({(item.case.work_id, item.case.device) for item in plan.cases})
    fewest, most = (len(plan.candidates) + places * n for n in (0, 2))
    return fewest + places * plan.study.replicates, most + 3 * places * plan.study.replicates


def _compiled_again(plan: Plan) -> tuple[int, int]:
    """Of `best_attempts` those that compile: candidates at least, and all the best at most."""
    tried = sum(item.case.tuning.compile_mode is not None for item in plan.candidates)
    some = tried or any(item.case.tuning.compile_mode is not None for item in plan.cases)
    return tried, best_attempts(plan)[1] if some else 0


def _load_runs(plan: Plan) -> tuple[float, float]:
    """Seconds of LoadGen's runs: a search takes some 6 to 12 trials before it is confirmed."""
    study = plan.study
    each = FULL_MS / 1000 if study.load_minimums == "full" else study.load_time
    pairs, _ = answering(plan.cases, study.load)
    searches = sum(scenario == "server" for _, scenario in pairs)
    low, high = ((len(pairs)) * study.replicates + searches * trials for trials in (6, 12))
    return low * (each + PARENT_OVERHEAD[0]), high * (2 * each + PARENT_OVERHEAD[1])


def _full_runs(plan: Plan) -> tuple[float, float]:
    """Seconds of all whole runs at the fastest and the slowest rate; a backward pass is two forward ones."""
    fast = slow = 0.0
    for item in plan.cases:
        work, device = item.case.work, item.case.device
        if work.recipe is None or device.kind == "sim":
            continue
        net = model(work.model, num_classes=work.num_classes, input_shape=work.input_shape)
        flops = 3.0 * forward_flops(net) * data_sets.entry(work.data).n_train * work.recipe.epochs
        scale = min(device.threads or plan.cores, plan.cores) if device.kind == "cpu" else 1
        low, high = CPU_CORE_RATE if device.kind == "cpu" else GPU_RATE
        fast += flops / (high * scale)
        slow += flops / (low * scale)
    return fast * plan.study.full_replicates, slow * plan.study.full_replicates

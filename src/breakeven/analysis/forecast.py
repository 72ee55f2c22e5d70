"""What a whole training run will take, from sampled processes.

Knows nothing about runs that were made in full.
total = start-up + compiling and capturing + cold + epochs x (steps x mean step + boundary + evaluation).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from breakeven import stats
from breakeven.analysis.processes import NS, Key, Process
from breakeven.records.blocks import as_columns
from breakeven.records.lines import Attempt


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast:
    """Seconds of one epoch without evaluation and of the whole recipe; reasons by field of CaseFinding."""

    epoch_s: stats.Interval | None
    epoch_point_s: float | None
    total_s: stats.Interval | None
    total_point_s: float | None
    reasons: dict[str, str] = field(default_factory=dict)


def boundary_s(process: Process) -> float | None:
    """Seconds that one change of epoch takes beyond the steps of its block.

    Signed, so that noise averages out instead of adding up. None where no steady boundary was timed.
    """
    blocks = as_columns(process.attempt.blocks).crossing
    if not blocks:
        # Epochs too short for a block: every block holds its share of the changes already.
        return 0.0 if "short_epoch" in process.attempt.flags else None
    ns, steps = int(blocks.ns.sum()), int(blocks.n_steps.sum())
    return (ns * NS - steps * process.mean_step_s) / len(blocks)


def evaluation_s(attempt: Attempt) -> float | str:
    """Seconds of one pass over the test set; 0 where the work has none; else why it is not known."""
    blocks = [b for b in attempt.eval_blocks if not b.warmup] or list(attempt.eval_blocks)
    samples = sum(b.samples for b in blocks)
    if attempt.eval_samples is None:
        return "the size of the test set is not recorded" if samples else 0.0
    if not samples:
        return "evaluation was not timed" if attempt.eval_samples else 0.0
    return sum(b.ns for b in blocks) * NS / samples * attempt.eval_samples


def first_evaluation_s(attempt: Attempt) -> float:
    """Seconds that the first evaluation of a run takes beyond a later one: kernels, buffers, data moved.

    0 where no warm evaluation was timed beside the first.
    """
    cold = [b for b in attempt.eval_blocks if b.warmup]
    warm = [b for b in attempt.eval_blocks if not b.warmup]
    samples = sum(b.samples for b in warm)
    if not cold or not samples:
        return 0.0
    usual = sum(b.ns for b in warm) / samples * sum(b.samples for b in cold)
    return max(0.0, sum(b.ns for b in cold) - usual) * NS


def built(attempt: Attempt) -> tuple[float, str | None] | None:
    """(seconds of compiling and capturing, state of the compiler's cache); None where nothing was built."""
    found = attempt.compile or {}
    ns, state = found.get("ns"), found.get("cache_state")
    if not isinstance(ns, int) or isinstance(ns, bool) or ns <= 0:
        return None
    return ns * NS, state if isinstance(state, str) else None


def built_s(attempt: Attempt) -> float:
    """Seconds of compiling and capturing; 0 where there was nothing to build."""
    found = built(attempt)
    return found[0] if found else 0.0


def first_builds_s(processes: Sequence[Process]) -> dict[Key, float]:
    """Seconds of compiling and capturing by process, as a first run pays them.

    Kernels that a process finds in a cache were made by one before it: where the states differ, those of the
    coldest stand for the others by their mean, so that a total is one thing and not two.
    """
    found = {p.key: built(p.attempt) or (0.0, None) for p in processes}
    states = [state for _, state in found.values()]
    coldest = next((state for state in ("cold", "mixed") if state in states), None)
    if coldest is None:
        return {key: seconds for key, (seconds, _) in found.items()}
    cold = [seconds for seconds, state in found.values() if state == coldest]
    first = sum(cold) / len(cold)
    return {key: seconds if state == coldest else first for key, (seconds, state) in found.items()}


def epoch_s(process: Process) -> float | str:
    """Seconds of one epoch's steps and its boundary, or why they are not known."""
    steps = process.attempt.steps_per_epoch
    if steps is None:
        return _null(process.attempt, "steps_per_epoch", "the number of steps an epoch is not recorded")
    boundary = boundary_s(process)
    if boundary is None:
        return "no change of epoch was timed"
    return steps * process.mean_step_s + boundary


def total_s(process: Process, build_s: float, epochs: int | None = None) -> float | str:
    """Seconds of the whole recipe, or of so many epochs of it; or why they cannot be forecast.

    `build_s`: of `first_builds_s`.
    """
    return _total_s(process, epoch_s(process), evaluation_s(process.attempt), build_s, epochs)


def _total_s(
    process: Process,
    epoch: float | str,
    evaluation: float | str,
    build_s: float,
    epochs: int | None = None,
) -> float | str:
    """The same, given the seconds of an epoch and of an evaluation, or why they are not known."""
    attempt = process.attempt
    if attempt.work.recipe is None:
        return "inference has no run to forecast"
    if isinstance(epoch, str):
        return epoch
    if isinstance(evaluation, str):
        return evaluation
    if attempt.startup_ns is None:
        return _null(attempt, "startup_ns", "start-up was not timed")
    if attempt.cold_ns is None:
        return _null(attempt, "cold_ns", "the first step was not timed")
    once = (attempt.startup_ns + attempt.cold_ns) * NS + build_s + first_evaluation_s(attempt)
    return once + (epochs or attempt.work.recipe.epochs) * (epoch + evaluation)


def forecast(
    processes: Sequence[Process], evaluations: Sequence[float | str], looks: Sequence[int] = ()
) -> Forecast:
    """Both forecasts with their intervals (`looks`: `stats.widening`); of one process a point alone.

    `evaluations`: `evaluation_s` of every process.
    """
    each = [epoch_s(p) for p in processes]
    epochs, why_epoch = _known(each)
    builds = first_builds_s(processes)
    once = [builds[p.key] for p in processes]
    totals, why_total = _known(list(map(_total_s, processes, each, evaluations, once)))
    reasons = {}
    if len(epochs) < 2:
        reasons["epoch_s"] = why_epoch if not epochs else "one process"
    if len(totals) < 2:
        reasons["total_s"] = why_total if not totals else "one process"
    return Forecast(
        epoch_s=stats.case_interval(epochs, looks=looks),
        epoch_point_s=stats.geometric_mean(epochs) if epochs else None,
        total_s=stats.prediction_interval(totals, looks=looks),
        total_point_s=stats.geometric_mean(totals) if totals else None,
        reasons=reasons,
    )


def _known(made: Sequence[float | str]) -> tuple[list[float], str]:
    known = [value for value in made if not isinstance(value, str) and value > 0]
    why = next((value for value in made if isinstance(value, str)), "no process gave a number")
    return known, why


def _null(attempt: Attempt, name: str, otherwise: str) -> str:
    return attempt.nulls.get(name, otherwise)

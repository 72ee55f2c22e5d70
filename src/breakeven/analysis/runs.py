"""Full training runs: lines of one run joined, its total time and what it learned.

Knows nothing about forecasts or devices.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from breakeven import stats
from breakeven.analysis.findings import UnfinishedRun
from breakeven.analysis.forecast import built_s
from breakeven.analysis.processes import NS, Key, key_of, latest
from breakeven.records.lines import Attempt, Epoch

SYNTHETIC = "synthetic"


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One full run. `total_s` is None where a part is missing; `resumed`: it was made in several processes.

    A resumed run starts up twice and may lose part of an epoch: its total judges nothing; its accuracy holds.
    """

    last: Attempt
    total_s: float | None
    accuracy: float | None
    resumed: bool
    evidence: tuple[str, ...]
    reason: str | None = None

    @property
    def key(self) -> Key:
        return key_of(self.last)


def runs_of(attempts: Sequence[Attempt]) -> list[Run]:
    """The full runs of one case that ended ok, in the order of their replicates."""
    lines = [a for a in attempts if a.region == "train_run"]
    return [_run(_chain(last, lines)) for last in latest(lines)]


def unfinished_of(attempts: Sequence[Attempt]) -> list[UnfinishedRun]:
    """The full runs of one case without an end, as far as they came: the last of each replicate."""
    lines = [a for a in attempts if a.region == "train_run"]
    ended = {key_of(a) for a in lines if a.outcome == "ok"}
    # By its last line that has epochs: a try that began anew and failed at once says nothing of them.
    found = {key_of(a): a for a in lines if a.epochs and key_of(a) not in ended}
    return [_unfinished(found[key], lines) for key in sorted(found, key=lambda key: (key[1], key[0] or ""))]


def _unfinished(last: Attempt, lines: Sequence[Attempt]) -> UnfinishedRun:
    chain = _chain(last, lines)
    parts = [part for part in chain if part is not None]
    epochs: Mapping[int, Epoch] = {epoch.index: epoch for part in parts for epoch in part.epochs}
    learned = last.work.data != SYNTHETIC
    gap = _gap(chain, epochs, max(epochs) + 1)
    why = gap or _unevaluated(parts, epochs)
    reasons = {name: said for name, said in (("epochs", gap), ("seconds", why)) if said}
    return UnfinishedRun(
        replicate=last.replicate,
        epochs=None if gap else len(epochs),
        of=last.work.recipe.epochs if last.work.recipe else None,
        seconds=None if why else sum(e.train_ns + (e.eval_ns or 0) for e in epochs.values()) * NS,
        accuracy=epochs[max(epochs)].accuracy if learned else None,
        ended=f"{last.outcome}: {last.reason}" if last.reason else last.outcome,
        evidence=tuple(part.attempt_id for part in parts),
        reasons=reasons,
    )


def totals_of(runs: Sequence[Run]) -> dict[Key, float]:
    """Totals that may judge a forecast or enter a ratio: those of runs made in one process."""
    return {run.key: run.total_s for run in runs if run.total_s is not None and not run.resumed}


def accuracies_of(runs: Sequence[Run]) -> tuple[float, ...]:
    """Final accuracies. None of synthetic data: its labels are random, there is nothing to learn."""
    return tuple(r.accuracy for r in runs if r.accuracy is not None and r.last.work.data != SYNTHETIC)


def accuracy_interval(runs: Sequence[Run]) -> stats.Interval | None:
    """Mean accuracy of runs of ONE seed, binomial over the test images; None where their number is not known.

    They repeat one training, so their spread is rounding's alone (0 where the device is deterministic) and
    tells nothing of another seed; nor do more of them score more images.
    """
    values, images = accuracies_of(runs), images_of(runs)
    if not values or images is None:
        return None
    return stats.share_interval(min(images, max(0.0, statistics.fmean(values) * images)), images)


def images_of(runs: Sequence[Run]) -> int | None:
    """Of how many test images the accuracies are; None where a run does not say, or two differ."""
    counts = {r.last.eval_samples for r in runs if r.accuracy is not None}
    return counts.pop() or None if len(counts) == 1 else None


def _chain(last: Attempt, lines: Sequence[Attempt]) -> list[Attempt | None]:
    """The lines of a run, first to last; None stands for one that the file lacks."""
    chain: list[Attempt | None] = [last]
    here, before = last, list(lines[: _position(last, lines)])
    while here.continues is not None:
        # The file is in the order of time: a line continues one above it, which also rules out a circle.
        found = [index for index, line in enumerate(before) if line.attempt_id == here.continues]
        if not found:
            return [None, *chain]
        here = before[found[-1]]
        del before[found[-1] :]
        chain.insert(0, here)
    return chain


def _position(last: Attempt, lines: Sequence[Attempt]) -> int:
    return next(index for index, line in enumerate(lines) if line is last)


def _run(chain: Sequence[Attempt | None]) -> Run:
    parts = [part for part in chain if part is not None]
    last = parts[-1]
    epochs: Mapping[int, Epoch] = {epoch.index: epoch for part in parts for epoch in part.epochs}
    why = _incomplete(chain, parts, epochs)
    total = None
    if why is None:
        once = sum((part.startup_ns or 0) * NS + built_s(part) for part in parts)
        total = once + (sum(e.train_ns + (e.eval_ns or 0) for e in epochs.values())) * NS
    final = epochs.get((last.work.recipe.epochs if last.work.recipe else 0) - 1)
    return Run(
        last=last,
        total_s=total,
        accuracy=final.accuracy if final else None,
        resumed=len(chain) > 1,
        evidence=tuple(part.attempt_id for part in parts),
        reason=why,
    )


def _incomplete(
    chain: Sequence[Attempt | None], parts: Sequence[Attempt], epochs: Mapping[int, Epoch]
) -> str | None:
    recipe = parts[-1].work.recipe
    if (gap := _gap(chain, epochs, recipe.epochs if recipe else None)) is not None:
        return gap
    if any(part.startup_ns is None for part in parts):
        return "start-up was not timed"
    return _unevaluated(parts, epochs)


def _gap(chain: Sequence[Attempt | None], epochs: Mapping[int, Epoch], wanted: int | None) -> str | None:
    """Why the first `wanted` epochs of a run are not all on file; None where they are."""
    if None in chain:
        return "the line that the run continues is not in the file"
    if wanted is None or set(epochs) != set(range(wanted)):
        return "an epoch of the run is missing"
    return None


def _unevaluated(parts: Sequence[Attempt], epochs: Mapping[int, Epoch]) -> str | None:
    # Without a test set nothing is evaluated; else an unknown time is not 0.
    if parts[-1].eval_samples and any(epoch.eval_ns is None for epoch in epochs.values()):
        return "an evaluation was not timed"
    return None

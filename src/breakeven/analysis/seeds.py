"""What several seeds say together: one accuracy a seed, and the spread between seeds.

Knows nothing about times. Processes of one seed share weights and order: they are no trials apart.
"""

import dataclasses
import statistics
from collections.abc import Sequence

from breakeven import stats
from breakeven.analysis.cases import Measured
from breakeven.analysis.runs import accuracies_of


def by_seed(cases: Sequence[Measured]) -> tuple[float, ...]:
    """One accuracy a seed, the mean of its full runs, in the order of the cases."""
    seeds: dict[int, list[float]] = {}
    for m in cases:
        seeds.setdefault(m.case.work.seed, []).extend(accuracies_of(m.runs))
    return tuple(statistics.fmean(values) for values in seeds.values() if values)


def pool_of(m: Measured) -> tuple[str, str, str]:
    """What is equal among cases that differ in their seed alone."""
    return m.case.pool_id, m.tuning_id, m.case.device.label


def over_seeds(cases: Sequence[Measured]) -> list[Measured]:
    """The same cases, each with the interval of its accuracy over seeds where two or more were trained.

    Student t on the accuracies themselves: shares differ by amounts, not by factors.
    """
    pools: dict[tuple[str, str, str], list[Measured]] = {}
    for m in cases:
        pools.setdefault(pool_of(m), []).append(m)
    spread = {pool: stats.mean_interval(by_seed(mine)) for pool, mine in pools.items()}
    return [
        dataclasses.replace(m, finding=dataclasses.replace(m.finding, accuracy_over_seeds=spread[pool_of(m)]))
        for m in cases
    ]

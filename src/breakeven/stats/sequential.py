"""Intervals of studies that add processes until an interval is narrow: how much wider they have to be.

Stopping where the spread looks small by luck costs coverage. Every look therefore takes the interval of one
and the same higher nominal confidence, the lowest whose interval, at whichever look the study ends, covers in
the stated share of studies, whatever the true spread. Reference: Pocock, "Group sequential methods in the
design and analysis of clinical trials", Biometrika 64 (1977); the level is worked out here for a spread that
is estimated and a rule that asks for a width.

Derivation. Values are normal (logs of process medians) with standard deviation sigma. With s the standard
deviation of the first n values, a study goes on where q * s / sqrt(n) > d. That depends on differences of
values only, of which their mean is independent (Basu), so stopping at n leaves the mean's error normal with
sigma / sqrt(n), and the interval covers with probability 2 * Phi(q * s / sigma) - 1. Between looks the sum of
squares (n - 1) * s**2 / sigma**2 grows by an independent chi-square of as many degrees of freedom as values
were added. So coverage is a sum over the distribution of that one number, as a function of sigma / d alone;
its minimum over sigma / d must be the stated confidence. The same holds of the next value
(`prediction_interval`), and of a paired ratio, whose own spread the rule does not even look at: its interval
is wider than it must be.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from breakeven.stats.student import t_quantile, two_sided

STEPS = (3, 5, 10)
"""Processes a case gets: more are added until its interval is narrow; beyond the last, twice as many."""

CELLS = 300
"""Cells of the distribution, narrow near 0: twice as many move the share that misses by under 1 % of it."""

REACH = 6.0
"""How far the cells reach about the middle of s, in sigma / sqrt(n - 1): more than eight times its spread."""

SPREADS = tuple(10 ** (k / 20) for k in range(-26, 27))
"""Values of sigma / d where coverage is looked at: 0.05 to 20; beyond, it nears the nominal confidence."""

HALVINGS = 12
"""Steps of the search for the level: they leave 0.1 % of the share that misses, on the safe side."""


def looks_between(replicates: int, most: int) -> tuple[int, ...]:
    """Numbers of processes at which a study from `replicates` to `most` asks for more; one: it never does.

    A first look at one process cannot ask: there is no spread.
    """
    looks = [replicates]
    while replicates > 1 and looks[-1] < most:
        following = next((step for step in STEPS if step > looks[-1]), 2 * looks[-1])
        looks.append(min(following, most))
    return tuple(looks)


def widening(n: int, looks: Sequence[int], *, confidence: float = 0.95) -> float:
    """By which factor the t interval of `n` values is widened where more might have been added at `looks`.

    1.0 for one look or none. At 3, 5 and 10 processes: 1.43, 1.25 and 1.18. Between looks, where values are
    missing, the same nominal confidence holds.
    """
    planned = tuple(sorted({look for look in looks if look > 1}))
    if len(planned) < 2 or n < 2:
        return 1.0
    level = nominal_confidence(planned, confidence)
    return t_quantile(two_sided(level), n - 1) / t_quantile(two_sided(confidence), n - 1)


@lru_cache(maxsize=64)
def nominal_confidence(looks: tuple[int, ...], confidence: float = 0.95) -> float:
    """The confidence that the interval of every look takes, so that the last one covers with `confidence`.

    `looks`: two or more numbers of values, ascending, each 2 or more.
    """
    moves = _moves(looks)
    low, high = (
        0.0,
        math.log(10 * len(looks)),
    )  # of the share that misses: the stated one, a tenth of a look's
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        worst = _worst_coverage(looks, 1 - (1 - confidence) * math.exp(-middle), moves)
        low, high = (low, middle) if worst >= confidence else (middle, high)
    return 1 - (1 - confidence) * math.exp(-high)


def _edges(look: int) -> Any:
    """Edges of the cells of (n - 1) * s**2 / sigma**2 at a look: where more than 1e-9 of the chance lies."""
    import numpy as np  # see t_quantile: most commands need no interval

    middle, places = math.sqrt(look - 1), np.linspace(0.0, 1.0, CELLS + 1)
    if middle > REACH:
        return (middle + REACH * (2 * places - 1)) ** 2
    return ((middle + REACH) * places**2) ** 2


def _moves(looks: tuple[int, ...]) -> list[Any]:
    """Before each look: the chance to come from a cell of the look before to each of its own, as a matrix."""
    import numpy as np
    from scipy.special import gammainc

    made, before, starts = [], 1, np.zeros(1)
    for look in looks:
        edges = _edges(look)
        gaps = np.maximum(edges[None, :] - starts[:, None], 0.0)
        made.append(np.diff(gammainc((look - before) / 2, gaps / 2), axis=1))
        before, starts = look, _middles(edges)
    return made


def _middles(edges: Any) -> Any:
    return (edges[:-1] + edges[1:]) / 2


def _worst_coverage(looks: tuple[int, ...], level: float, moves: Sequence[Any]) -> float:
    """The least share of studies whose last interval covers, over all spreads."""
    import numpy as np
    from scipy.special import ndtr

    running: Any = np.ones((len(SPREADS), 1))
    covered = np.zeros(len(SPREADS))
    for look, move in zip(looks, moves, strict=True):
        edges = _edges(look)
        middles, widths = _middles(edges), np.diff(edges)
        # Not `@`: BLAS would wake a thread a core for a product of a millisecond.
        arrived = np.einsum("ij,jk->ik", running, move)
        q = t_quantile(two_sided(level), look - 1)
        ends = look * (look - 1) / (q * np.array(SPREADS)) ** 2
        share = np.clip((ends[:, None] - edges[None, :-1]) / widths, 0.0, 1.0)
        stopping = arrived if look == looks[-1] else arrived * share
        covers = 2 * ndtr(q * np.sqrt(middles / (look - 1))) - 1
        covered += np.einsum("ij,j->i", stopping, covers)
        running = arrived - stopping
    return float(covered.min())

"""What a forecast says, as values. A quantity that cannot be defended is None, its reason beside it.

Knows nothing about how a forecast is made.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryFit:
    """Whether a step fits in a board's memory, all in MiB.

    `state`: weights, and in training gradients, optimizer and what is kept resident; `activations` at the
    batch; `peak` what the framework allocates, `device` with the driver's context; `largest_batch` fits for
    sure by doubling. `verdict`: `fits`, `does not fit`, or `close`.
    """

    state: float
    activations: float
    peak: float
    peak_high: float
    device_high: float
    memory: float
    verdict: str
    largest_batch: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast:
    """One case of the user's on one device that is not here. Times in seconds of a step or call.

    `low_s` to `high_s` hold the truth at `confidence`; None with a reason where no error is known. `outside`
    says what of it no row resembles: each widens the interval. `measured_s`: what the results hold of this
    device, of which the forecast used no row. `naive_s`: the user's time scaled by the ratio of peaks.
    """

    case_id: str
    model: str
    task: str
    batch: int
    tuning_name: str
    precision: str
    here: str
    here_s: float
    device: str
    method: str
    step_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    confidence: float | None = None
    rate: float | None = None
    p99_s: float | None = None
    p99_high_s: float | None = None
    launch_share: float | None = None
    floor_s: float | None = None
    power_w: float | None = None
    board_w: float | None = None
    memory: MemoryFit | None = None
    measured_s: float | None = None
    outside: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """Errors of rates that were forecast without the rows of their group.

    `error`: median of |forecast / measured - 1| over `rows`; `by_group` the same of each; `covered`: share of
    rows inside their interval, `covered_groups` the mean of each group's share.
    """

    name: str
    left_out: str
    rows: int
    groups: int
    error: float
    error_p90: float
    by_group: Mapping[str, float] = field(default_factory=dict)
    covered: float | None = None
    covered_groups: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LearnedFrom:
    """What the model that forecasts `devices` learned from: `rows`, of them `own_rows` the user's."""

    devices: tuple[str, ...]
    rows: int
    own_rows: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """Forecasts with the validation of the method that made them.

    `learned`: what each model learned from; `rows`, `own_rows` and `scores` are of the first. `left` counts
    published rows that teach nothing, `own_left` those of the user's that it did not learn from, by reason.
    `faults`: lines of the results that are not believed or could not be read, in words; `left_out_lines`
    counts those that enter no number.
    """

    forecasts: tuple[Forecast, ...]
    scores: tuple[Score, ...]
    confidence: float
    rows: int
    own_rows: int
    left: Mapping[str, int]
    own_left: Mapping[str, int]
    learned: tuple[LearnedFrom, ...]
    notes: tuple[str, ...]
    sources: tuple[str, ...]
    faults: tuple[str, ...] = ()
    left_out_lines: int = 0

    def score(self, name: str, left_out: str) -> Score | None:
        return next((s for s in self.scores if (s.name, s.left_out) == (name, left_out)), None)


Names = Sequence[str]
